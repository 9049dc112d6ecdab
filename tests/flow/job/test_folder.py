"""What a job keeps: whole, or not at all, and nobody else's."""

from pathlib import Path

import pytest

from headwater.errors import JobRefused
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.job_folder import BATCHES_KEPT, BatchRecord, JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.watermarks import Clocks, ProducerClock
from headwater.record import TopicPartition


def record(batch: int) -> BatchRecord:
    return BatchRecord(
        batch, {"t": {0: batch}}, {"t": {0: batch + 1}}, {"v": Account(rows_in=1, rows_out=1)},
        Clocks({"t": {0: 5}}, {"t": {0: 7}}, {"t": {0: {"one": ProducerClock(5, 7)}}}), 3,
        frozenset({TopicPartition("t", 1)}),
    )  # fmt: skip


def test_a_finished_batch_is_read_back_as_it_was(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    folder.finish(record(0))
    folder.finish(record(1))
    assert JobFolder(tmp_path).last_finished() == record(1)
    assert folder.finished(7) is None


def test_old_batches_are_forgotten(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    for batch in range(BATCHES_KEPT + 3):
        folder.finish(record(batch))
    assert folder.finished(2) is None
    assert folder.finished(3) is not None


def test_only_one_process_may_run_a_job(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    folder.lock()
    with pytest.raises(JobRefused, match="is being run by process"):
        JobFolder(tmp_path).lock()
    folder.unlock()
    other = JobFolder(tmp_path)
    other.lock()
    other.unlock()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    folder.finish(record(0))
    (tmp_path / "batches" / "0.json").write_text("{")
    assert folder.last_finished() == record(0), "its copy says the same"
    (tmp_path / "batches" / "0.copy").write_text("{")
    with pytest.raises(JobRefused, match=r"batches/0\.json is damaged"):
        folder.last_finished()


def test_a_checkpoint_belongs_to_one_app_job_and_log(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    mine = identify(folder, app="shop", job="orders", cluster="one", shards=2)
    assert identify(folder, app="shop", job="orders", cluster="one", shards=8) == mine, "shards stay as they were"
    with pytest.raises(JobRefused, match="belongs to job orders of app shop"):
        identify(folder, app="other", job="orders", cluster="one", shards=2)
    with pytest.raises(JobRefused, match="its offsets mean nothing here"):
        identify(folder, app="shop", job="orders", cluster="two", shards=2)


def test_a_checkpoint_that_was_moved_is_refused(tmp_path: Path) -> None:
    identify(JobFolder(tmp_path / "here"), app="shop", job="orders", cluster="one", shards=2)
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(JobRefused, match="was copied or moved from"):
        identify(JobFolder(tmp_path / "there"), app="shop", job="orders", cluster="one", shards=2)


def test_a_checkpoint_whose_identity_is_lost_is_refused(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    identify(folder, app="shop", job="orders", cluster="one", shards=2)
    folder.finish(record(0))
    mine = identify(folder, app="shop", job="orders", cluster="one", shards=2)
    (tmp_path / "identity.json").unlink()
    assert identify(folder, app="shop", job="orders", cluster="one", shards=2) == mine, "its copy is there"
    (tmp_path / "identity.copy").unlink()
    with pytest.raises(JobRefused, match=r"without its identity\.json"):
        identify(folder, app="shop", job="orders", cluster="one", shards=2)


def test_where_a_batch_ends_is_written_down_as_spark_does(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    assert folder.planned_or_none(0) is None
    folder.plan(PlannedBatch(0, {"t": {0: 0}}, {"t": {0: 5}}, time_ms=7))
    assert (folder.planned(0).end, folder.planned(0).time_ms) == ({"t": {0: 5}}, 7)
