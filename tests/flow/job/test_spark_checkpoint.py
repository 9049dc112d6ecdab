"""Folders of jobs that ran as queries of Structured Streaming, made by hand in the form in which those left them."""

import json
import shutil
from pathlib import Path
from zlib import crc32

import pytest

from headwater.errors import JobRefused
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.deploy.damage_check import problems
from headwater.flow.plan.planned_batches import Offsets, PlannedBatch
from headwater.flow.source.batch_plan.batch_control import NO_CONTROL, BatchControl

TICK = BatchControl(2)


def offset_text(batch: int) -> str:
    end = {"orders": {"0": 10 * (batch + 1)}, **({"@tick": TICK.to_json()} if batch == 2 else {})}
    return "\n".join(["v1", json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1000 + batch}), json.dumps(end)])


def planned(batch: int) -> PlannedBatch:
    start, end = ({"orders": {0: 10 * number}} for number in (batch, batch + 1))
    return PlannedBatch(batch, start, end, 1000 + batch, TICK if batch == 2 else NO_CONTROL)


def from_zero(end: Offsets) -> Offsets:
    return {topic: dict.fromkeys(parts, 0) for topic, parts in end.items()}


def write(folder: JobFolder, name: str, content: str) -> None:
    file = folder.path / "spark" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def left_by_a_query(path: Path, *, finished: int, begun: int) -> JobFolder:
    """With `finished` batches, and batches up to `begun` noted in planned.json; the next is planned and not begun."""
    folder = JobFolder(path)
    write(folder, "metadata", '{"id": "a"}')
    for batch in range(begun + 2):
        write(folder, f"offsets/{batch}", offset_text(batch))
    for batch in range(finished):
        write(folder, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        folder.finish(BatchRecord(batch, {}, planned(batch).end, {"totals": Account()}))
    if begun >= 0:
        folder.write("planned.json", {str(batch): offset_text(batch) for batch in range(begun + 1)[-2:]})
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    """A job that has finished batches 0 and 1 and begun batch 2."""
    folder = left_by_a_query(tmp_path / "flows" / "shop" / "orders", finished=2, begun=2)
    (folder.path / "spark" / "offsets" / "3").unlink()
    return folder


def test_a_batch_that_was_begun_is_taken_over_with_its_tick_and_its_time(folder: JobFolder) -> None:
    folder.take_over(from_zero)
    assert folder.plans() == [planned(1), planned(2)]
    assert folder.last_planned() == planned(2)
    assert not (folder.path / "spark").exists()


def test_a_batch_that_was_planned_and_not_begun_is_taken_over(tmp_path: Path) -> None:
    folder = left_by_a_query(tmp_path / "orders", finished=2, begun=1)
    folder.take_over(from_zero)
    assert folder.last_planned() == planned(2)


def test_a_first_batch_that_is_not_finished_starts_where_the_topics_begin(tmp_path: Path) -> None:
    folder = left_by_a_query(tmp_path / "orders", finished=0, begun=0)
    folder.take_over(lambda end: {"orders": {0: 4}})
    last = folder.last_planned()
    assert last is not None
    assert (last.batch, last.start, last.end) == (0, {"orders": {0: 4}}, {"orders": {0: 10}})


def test_a_job_without_notes_is_taken_over_from_sparks_own_files(folder: JobFolder) -> None:
    folder.remove("planned.json")
    folder.take_over(from_zero)
    assert folder.plans() == [planned(1), planned(2)]


def test_a_job_that_has_never_run_has_nothing_to_take_over(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "orders")
    folder.take_over(from_zero)
    assert folder.last_planned() is None


def test_what_is_noted_counts_before_sparks_files(folder: JobFolder) -> None:
    write(folder, "offsets/2", offset_text(7))
    write(folder, "offsets/1", "")
    folder.take_over(from_zero)
    assert folder.plans() == [planned(1), planned(2)]


@pytest.mark.parametrize("content", ["", "v1\n{}", "v1\n{\n{}", offset_text(2)])
def test_a_plan_that_a_power_cut_has_damaged_before_its_batch_began_is_made_again(
    folder: JobFolder, content: str
) -> None:
    folder.write("planned.json", {"1": offset_text(1)})
    write(folder, "offsets/2", content)
    sums = b"".join(crc32(offset_text(3).encode()[at : at + 512]).to_bytes(4, "big") for at in (0,))
    (folder.path / "spark" / "offsets" / ".2.crc").write_bytes(b"crc\0\0\0\2\0" + sums)
    folder.take_over(from_zero)
    assert folder.last_planned() == planned(1)


def test_sparks_files_stay_until_the_plans_are_on_the_disk(folder: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(JobFolder, "write", lambda self, name, content: written.append(name))
    removed = shutil.rmtree

    def remove(path: Path) -> None:
        assert written == ["planned.json"]
        removed(path)

    monkeypatch.setattr(shutil, "rmtree", remove)
    folder.take_over(from_zero)
    assert not (folder.path / "spark").exists()


def test_a_crash_before_sparks_files_were_removed_does_not_read_them_again(folder: JobFolder) -> None:
    folder.write("planned.json", {"batches": [planned(1).to_json(), planned(2).to_json()]})
    write(folder, "offsets/2", offset_text(7))
    write(folder, "commits/9", "v1\n{}")
    folder.take_over(from_zero)
    assert folder.plans() == [planned(1), planned(2)]
    assert not (folder.path / "spark").exists()


def test_the_lost_end_of_a_finished_batch_is_refused(folder: JobFolder, tmp_path: Path) -> None:
    folder.remove("planned.json")
    write(folder, "offsets/1", "")
    with pytest.raises(JobRefused, match=r"offsets/1 is damaged: batch 1 is finished: where it ended is not known"):
        folder.take_over(from_zero)
    assert (folder.path / "spark").exists()
    assert any("offsets/1 is damaged" in problem for problem in problems(tmp_path))


def test_a_finished_batch_whose_record_is_lost_is_refused(folder: JobFolder) -> None:
    for name in ("1.json", "1.copy"):
        (folder.path / "batches" / name).unlink()
    with pytest.raises(JobRefused, match=r"batches/1\.json is damaged: it is missing, and the batch is finished"):
        folder.take_over(from_zero)


def test_nobody_who_only_looks_changes_anything(folder: JobFolder) -> None:
    before = sorted(folder.path.rglob("*"))
    assert folder.planned(2).end == planned(2).end
    assert folder.planned(1).time_ms == 1001
    assert sorted(folder.path.rglob("*")) == before
