from pathlib import Path

import pytest

from headwater.errors import InvalidSetting, JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.deploy import resharding
from headwater.flow.deploy.resharding import NOTE, finish_resharding, reshard_job
from headwater.flow.state import reshard
from headwater.flow.state.files import DiskFiles
from tests.flow.job.kept_jobs import COUNTS, NEWEST, contents, kept_job
from tests.flow.state.subjects import run_batch, store_on

EVERYTHING = {"counts": COUNTS, "newest": NEWEST}


class Crash(Exception):
    pass


@pytest.mark.parametrize("before, after", [(2, 8), (4, 1), (1, 2)])
def test_a_job_holds_the_same_in_another_number_of_shards(tmp_path: Path, before: int, after: int) -> None:
    job = kept_job(tmp_path, shards=before)
    done = reshard_job(job, after)
    assert (done.before, done.after, done.operators) == (before, after, ("counts", "newest"))
    assert contents(job) == EVERYTHING
    assert {len(one.versions()[-1].shards) for one in job.operators()} == {after}
    assert JobFolder(job.path).read(NOTE) is None


def test_the_same_number_again_changes_nothing(tmp_path: Path) -> None:
    job = kept_job(tmp_path, shards=2)
    assert reshard_job(job, 2).operators == ()
    assert contents(job) == EVERYTHING


def test_the_next_batch_goes_on_from_there(tmp_path: Path) -> None:
    job = kept_job(tmp_path, shards=2)
    reshard_job(job, 4)
    run_batch(store_on(DiskFiles.at(str(job.path / "state" / "counts")), 4), 2, {3: 33, 4: None})
    run_batch(store_on(DiskFiles.at(str(job.path / "state" / "newest")), 4), 2, {})
    expected = {key: value for key, value in {**COUNTS, 3: 33}.items() if key != 4}
    assert contents(job, 2) == {"counts": expected, "newest": NEWEST}


@pytest.mark.parametrize("shards", [0, 3, -2, 6])
def test_only_powers_of_two_fit_the_shuffle(tmp_path: Path, shards: int) -> None:
    with pytest.raises(InvalidSetting, match="it must be a power of two"):
        reshard_job(kept_job(tmp_path), shards)


def test_a_job_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    job = kept_job(tmp_path)
    running = JobFolder(job.path)
    running.lock()
    try:
        with pytest.raises(JobRefused, match=r"orders is being run by process \d+\. Stop that one first"):
            reshard_job(job, 4)
    finally:
        running.unlock()
    assert contents(job) == EVERYTHING
    assert reshard_job(job, 4).after == 4


def test_a_batch_whose_rows_may_be_in_outputs_must_be_finished_first(tmp_path: Path) -> None:
    job = kept_job(tmp_path, shards=2)
    run_batch(store_on(DiskFiles.at(str(job.path / "state" / "counts")), 2), 2, {1: 1})
    with pytest.raises(JobRefused, match=r"batch 2 of job shop\.orders has begun and is not finished\. Finish it with"):
        reshard_job(job, 4)
    assert contents(job) == EVERYTHING


def test_a_rebuild_must_be_finished_first(tmp_path: Path) -> None:
    job = kept_job(tmp_path)
    (job.path / "rebuild" / "counts").mkdir(parents=True)
    with pytest.raises(JobRefused, match=r"an output of job shop\.orders is being rebuilt"):
        reshard_job(job, 4)


def test_an_operator_that_the_app_no_longer_has_is_left_as_it_is(tmp_path: Path) -> None:
    job = kept_job(tmp_path, shards=2)
    gone = store_on(DiskFiles.at(str(job.path / "state" / "gone")), 2)
    run_batch(gone, 0, {1: 1})
    assert reshard_job(job, 4).operators == ("counts", "newest")
    assert len(gone.manifest(0).shards) == 2


@pytest.mark.parametrize("steps_before", [0, 1, 2])
def test_a_crash_between_any_two_steps_is_carried_on_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps_before: int
) -> None:
    job = kept_job(tmp_path, shards=2)
    crash_after(monkeypatch, steps_before)
    with pytest.raises(Crash):
        reshard_job(job, 8)
    monkeypatch.undo()
    folder = JobFolder(job.path)
    finish_resharding(folder)
    assert contents(job) == EVERYTHING
    assert folder.read(NOTE) is None
    finish_resharding(folder)
    assert contents(job) == EVERYTHING


def test_a_change_that_was_cut_short_may_be_replaced_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = kept_job(tmp_path, shards=2)
    crash_after(monkeypatch, 1)
    with pytest.raises(Crash):
        reshard_job(job, 8)
    monkeypatch.undo()
    assert reshard_job(job, 2).after == 2
    assert contents(job) == EVERYTHING


def crash_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Steps: each of the two operators, then the identity."""
    left = iter([True] * steps)
    write = JobFolder.write

    def stepping_reshard(*arguments: object) -> object:
        if next(left, None) is None:
            raise Crash
        return reshard(*arguments)  # type: ignore[arg-type]

    def stepping_write(folder: JobFolder, name: str, content: dict[str, object]) -> None:
        if name == "identity.json" and next(left, None) is None:
            raise Crash
        write(folder, name, content)

    monkeypatch.setattr(resharding, "reshard", stepping_reshard)
    monkeypatch.setattr(JobFolder, "write", stepping_write)
