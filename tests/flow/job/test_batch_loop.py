"""The loop of a job: what it plans is what it runs, also after a crash; it stops between batches."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import JobRefused, UnavailableError
from headwater.flow.commit.batch_processor import Processor, Progress
from headwater.flow.commit.job_folder import BatchRecord, JobFolder
from headwater.flow.declare.app import App
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import NO_RETRIES, RunningApp, RunSettings
from tests.flow.job.shop import SCHEMA, order
from tests.waiting import LONG, Deadline

Tester = Callable[[App], AppTester]


def shop() -> App:
    app = hw.App("shop", shards=1)
    orders = app.stream("orders", SCHEMA, time="at")
    app.view(key="currency", name="revenue")(lambda: orders.by("currency").agg("count(*) as orders"))
    return app


def folder_of(tester: AppTester) -> JobFolder:
    return JobFolder(tester.node.data / "flows" / "shop" / "orders")


def orders_in(tester: AppTester) -> int:
    return sum(row["orders"] for row in tester.rows("revenue"))


@contextmanager
def running(tester: AppTester, watch: Callable[[str, Progress], None]) -> Iterator[RunningApp]:
    settings = RunSettings(tester.node.data, tester.node.kafka_address, retries=NO_RETRIES)
    one = RunningApp(tester.app, tester.session, settings, watch=watch, report=tester.reported.append)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def test_a_batch_that_failed_comes_again_with_the_end_that_was_planned(
    tester: Tester, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tester(shop())
    one.feed("orders", [order(1), order(2)])
    with monkeypatch.context() as failing:
        failing.setattr(JobFolder, "finish", lambda self, record: raise_(UnavailableError("no")))
        with pytest.raises(UnavailableError, match="no"):
            one.run()
    planned = folder_of(one).last_planned()
    assert planned is not None
    assert planned.end == {"orders": {0: 2}}
    one.feed("orders", [order(3)])
    one.run()
    records = [folder_of(one).finished(batch) for batch in (0, 1)]
    assert [record and record.end for record in records] == [{"orders": {0: 2}}, {"orders": {0: 3}}]
    assert orders_in(one) == 3
    assert one.prove("revenue").different == 0


def raise_(error: Exception) -> None:
    raise error


def test_a_batch_is_planned_durably_before_it_is_processed(tester: Tester, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tester(shop())
    one.feed("orders", [order(1)])
    seen: list[PlannedBatch | None] = []
    process = Processor.process

    def look(self: Processor, frame: object, batch: int) -> None:
        seen.append(folder_of(one).last_planned())
        process(self, frame, batch)  # type: ignore[arg-type]  # it is what it was given

    monkeypatch.setattr(Processor, "process", look)
    one.run()
    assert [planned and (planned.batch, planned.end) for planned in seen] == [(0, {"orders": {0: 1}})]


def test_rows_that_come_while_it_waits_are_processed_and_a_stop_waits_for_the_batch_under_way(tester: Tester) -> None:
    one = tester(shop())
    one.feed("orders", [order(1)])
    batches: list[BatchRecord] = []
    begun, go_on = threading.Event(), threading.Event()

    def watch(job: str, progress: Progress) -> None:
        if len(batches) == 2:  # the third batch has left everything behind, and is not over
            begun.set()
            assert go_on.wait(LONG)
        batches.append(progress.record)

    with running(one, watch) as run:
        for number in (1, 2):
            assert until(run, lambda wanted=number: len(batches) == wanted and run.loops["orders"].idle)  # type: ignore[misc]
            one.feed("orders", [order(number + 1)])
        assert begun.wait(LONG)
        threading.Timer(0.2, go_on.set).start()
    assert [record.end["orders"][0] for record in batches] == [1, 2, 3]
    assert folder_of(one).last_finished() == batches[-1]


def until(run: RunningApp, done: Callable[[], bool]) -> bool:
    deadline = Deadline(60)
    while not deadline.passed:
        if not run.wait(0.05) and done():
            return True
    return False


def test_two_jobs_with_other_numbers_of_shards_run_side_by_side(tester: Tester) -> None:
    """The number is a setting of Spark's session."""
    one = tester(shop())
    one.feed("orders", [order(1)])
    one.run()
    app = hw.App("shop", shards=4)
    for topic in ("orders", "others"):
        stream = app.stream(topic, SCHEMA, time="at")
        name = "revenue" if topic == "orders" else topic
        app.view(key="currency", name=name)(lambda stream=stream: stream.by("currency").agg("count(*) as orders"))
    two = tester(app)
    for topic in ("orders", "others"):
        two.feed(topic, [order(number) for number in range(20)])
    two.run()
    assert two.prove("revenue").different == two.prove("others").different == 0
    assert sum(row["orders"] for row in two.rows("others")) == 20


def test_a_job_that_comes_from_structured_streaming_goes_on_where_it_was(tester: Tester, tmp_path: Path) -> None:
    one = tester(shop())
    one.feed("orders", [order(1), order(2)])
    one.run()
    one.feed("orders", [order(3), order(4)])
    folder = folder_of(one)
    offsets = folder.path / "spark" / "offsets"
    offsets.mkdir(parents=True)
    for batch, end in ((0, 2), (1, 3)):  # the second is planned and not finished, and does not take all
        (offsets / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{batch}}}\n{{"orders":{{"0":{end}}}}}')
    folder.remove("planned.json")
    one.run()
    ends = [folder.finished(batch) for batch in (0, 1, 2)]
    assert [record and record.end["orders"][0] for record in ends] == [2, 3, 4]
    assert not (folder.path / "spark").exists()
    assert orders_in(one) == 4
    assert one.prove("revenue").different == 0


@pytest.mark.parametrize("lost", ["planned.json", "batches/1.json"])
def test_plans_that_do_not_fit_the_finished_batches_are_refused(tmp_path: Path, lost: str) -> None:
    folder = JobFolder(tmp_path / "orders")
    for batch in range(3):
        span = {"orders": {0: batch}}, {"orders": {0: batch + 1}}
        folder.plan(PlannedBatch(batch, *span, time_ms=batch))
        if batch < 2:
            folder.finish(BatchRecord(batch, *span, {}))
    assert folder.last_planned() == PlannedBatch(2, {"orders": {0: 2}}, {"orders": {0: 3}}, time_ms=2)
    folder.remove(lost)
    with pytest.raises(JobRefused, match=f"{lost} is damaged"):
        folder.last_planned()
