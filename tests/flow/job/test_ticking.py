"""Batches without rows: when time alone has something left to do."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import UnavailableError
from headwater.flow.commit.batch_processor import Progress
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.operate.job_operators import Operators
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.source.batch_plan.batch_control import WakeupRequest
from headwater.record import TopicPartition
from tests.flow.job.steps import forget_batch

Tester = Callable[[hw.App], AppTester]

SECOND_US = 1_000_000
BEGIN_US = 1_767_225_600 * SECOND_US


def app_of(**options: Any) -> hw.App:
    app = hw.App("clock", shards=2)
    clicks = app.stream("clicks", "page string, at timestamp", time="at", **options)

    @app.view(key="page")
    def pages() -> Any:
        return clicks.by("page").agg("count(*) as n")

    return app


def click(second: int) -> dict[str, Any]:
    return {"page": "a", "at": f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"}


def batches(tester: AppTester) -> list[BatchRecord]:
    folder = JobFolder(tester.node.data / "flows" / "clock" / "clicks")
    last = folder.last_finished()
    found = [folder.finished(number) for number in range(last.batch + 1 if last else 0)]
    return [one for one in found if one is not None]


def watermarks(tester: AppTester) -> list[int | None]:
    """Seconds from the beginning."""
    return [None if one.watermark_us is None else (one.watermark_us - BEGIN_US) // SECOND_US for one in batches(tester)]


@pytest.fixture
def always_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a window open."""
    monkeypatch.setattr(Operators, "pending", lambda self, *asked: True)


def test_without_anything_to_wait_for_there_is_no_batch_more(tester: Tester) -> None:
    subject = tester(app_of(lateness="10 seconds"))
    subject.feed("clicks", [click(0), click(60)])
    subject.run()
    assert watermarks(subject) == [None]


@pytest.mark.usefixtures("always_waiting")
def test_after_the_last_rows_comes_a_batch_that_knows_how_far_they_came(tester: Tester) -> None:
    subject = tester(app_of(lateness="10 seconds"))
    subject.feed("clicks", [click(0), click(60)])
    subject.run()
    assert watermarks(subject) == [None, 50]
    assert subject.run() == [], "nothing new: no batch, again and again"
    subject.feed("clicks", [click(30)])
    subject.run()
    assert watermarks(subject) == [None, 50, 50], "an old row moves nothing, so that nothing is left to do"
    subject.feed("clicks", [click(90)])
    subject.run()
    assert watermarks(subject) == [None, 50, 50, 50, 80]
    assert subject.rows("pages") == [{"page": "a", "n": 4}]
    assert subject.account("pages").rows_in == 4


@pytest.mark.usefixtures("always_waiting")
def test_with_more_rows_waiting_no_batch_is_spent_on_time_alone(tester: Tester) -> None:
    subject = tester(app_of())
    for second in range(0, 60, 10):
        subject.feed("clicks", [click(second)], at=f"2026-01-01T00:00:{second:02d}Z")
    subject.run(rows_per_batch=2)
    rows = [sum(account.rows_in for account in one.accounts.values()) for one in batches(subject)]
    assert rows == [2, 2, 2, 0]
    assert watermarks(subject) == [None, 10, 30, 50]


def planned_batch(folder: Path, batch: int) -> PlannedBatch:
    (found,) = [one for one in JobFolder(folder).plans() if one.batch == batch]
    return found


@pytest.mark.usefixtures("always_waiting")
def test_a_batch_without_rows_that_was_killed_comes_again_the_same(
    tester: Tester, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = tester(app_of())
    subject.feed("clicks", [click(5)])
    finish = JobFolder.finish

    def killed(self: JobFolder, record: BatchRecord) -> None:
        if record.batch == 1:
            raise UnavailableError("killed")
        finish(self, record)

    with monkeypatch.context() as dying:
        dying.setattr(JobFolder, "finish", killed)
        with pytest.raises(UnavailableError, match="killed"):
            subject.run()
    folder = subject.node.data / "flows" / "clock" / "clicks"
    planned = planned_batch(folder, 1)
    assert planned.control.number == 1
    assert len(batches(subject)) == 1

    subject.run()
    assert planned_batch(folder, 1) == planned
    assert watermarks(subject) == [None, 5]


@pytest.mark.usefixtures("always_waiting")
def test_a_wish_outlives_whoever_wished(tester: Tester) -> None:
    """Killed behind the last batch with rows and before the next was planned."""
    subject = tester(app_of())
    subject.feed("clicks", [click(5)])
    subject.run()
    folder = subject.node.data / "flows" / "clock" / "clicks"
    for file in folder.glob("state/*/*1.json"):
        file.unlink()
    forget_batch(folder, 1)
    (first,) = [one for one in JobFolder(folder).plans() if one.batch == 0]
    JobFolder(folder).plan(first)
    JobFolder(folder).request_wakeup(WakeupRequest(1))
    subject.run()
    assert watermarks(subject) == [None, 5]


@pytest.mark.usefixtures("always_waiting")
def test_a_running_job_goes_on_without_a_partition_that_has_fallen_silent(tester: Tester) -> None:
    subject = tester(app_of(idle="2 seconds"))
    subject.node.log.create_topic("clicks", partitions=2)
    subject.feed("clicks", [click(5)], partition=0, at="2026-01-01T00:00:30Z")
    subject.feed("clicks", [click(30)], partition=1, at="2026-01-01T00:00:30Z")
    gone = threading.Event()
    heard: list[tuple[int | None, frozenset[TopicPartition]]] = []

    def watch(job: str, progress: Progress) -> None:
        heard.append((progress.record.watermark_us, progress.record.idle))
        if progress.record.watermark_us == BEGIN_US + 30 * SECOND_US:
            gone.set()

    settings = RunSettings(subject.node.data, subject.node.kafka_address)
    running = RunningApp(subject.app, subject.session, settings, watch=watch)
    try:
        running.start()
        while not gone.wait(0.1):
            subject.feed("clicks", [click(30)], partition=1, at="2026-01-01T00:00:30Z")
    finally:
        running.stop()
    assert heard[0] == (None, frozenset())
    assert (BEGIN_US + 30 * SECOND_US, frozenset({TopicPartition("clicks", 0)})) in heard
