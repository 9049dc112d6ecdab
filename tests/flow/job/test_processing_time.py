"""Windows by when rows were processed: emitted once, the same after a crash and a rebuild, and provable."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.errors import FlowError, InvalidDeclaration
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.topology.graph import plan
from headwater.flow.operators.windows.kinds.calendar import Calendar
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.planned_batches import PlannedBatch
from headwater.flow.plan.processing_time import read_recorded
from headwater.flow.plan.resolution import resolve
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.source.batch_plan.batch_control import WakeupRequest
from tests.flow.engines import session_of
from tests.flow.job.steps import Step, run_steps
from tests.flow.job.windows_app import SCHEMA, reading
from tests.waiting import patience

Tester = Callable[[hw.App], AppTester]
SECOND_US = 1_000_000


def plant(size: str = "10 seconds", **emission: Any) -> hw.App:
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", ahead=None)
    made = readings.window(hw.tumbling(size), time="processing").by("sensor").count(**emission, name="kept")
    app.view(key=["sensor", "window"], name="seen")(lambda: made)
    return app


def counts(app: AppTester) -> list[tuple[int, int]]:
    """Second in which a window begins, and its rows."""
    return [(int(row["window_start"].timestamp()), row["count"]) for row in app.rows("seen")]


def rebuild(app: AppTester) -> None:
    """Build the view again from the log, and go no further."""
    settings = RunSettings(app.node.data, app.node.kafka_address)
    session, columns = session_of(app._start or app.session)
    running = RunningApp(app.app, session, settings, report=app.reported.append, rebuild=frozenset(["seen"]))
    try:
        with columns():
            (job,) = plan(app.app, explain)
            running.prepare(job, resolve(session, job))
    finally:
        running.stop()


def test_rows_belong_to_the_moment_their_batch_was_planned_for_however_often_it_runs(
    tester: Tester, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = tester(plant(emit="final"))
    app.feed("readings", [reading(second) for second in (0, 500, 3, 4, 9_000, 5)])
    planned = iter([4_000, 4_000, 12_000, 11_000, 11_000, 40_000])
    written = JobFolder.plan

    def at(self: JobFolder, one: PlannedBatch) -> None:
        written(self, replace(one, time_ms=next(planned)))

    monkeypatch.setattr(JobFolder, "plan", at)
    steps = [Step((2,), 2), Step((1,), 1), Step((1,), 2), Step((2,), 1)]
    seen: list[Any] = []
    run_steps(app, steps, topic="readings", done=lambda step: seen.append(counts(app)))
    assert seen == [[], [(0, 2)], [(0, 2)], [(0, 2), (10, 2)]], "a clock that is put back puts no row back"
    assert app.account("seen").late == 0
    assert app.prove("seen").different == 0
    monkeypatch.undo()
    before = app.rows("seen")
    rebuild(app)
    assert app.rows("seen") == before, "a rebuild knows when rows were processed"
    assert "seen: 6 of 6 records replayed" in app.reported


def test_a_window_is_told_when_its_time_is_over_although_nothing_comes(tester: Tester, spark: SparkSession) -> None:
    app = tester(plant("1 second", emit="final"))
    app.feed("readings", [reading(0), reading(1)])
    running = RunningApp(app.app, spark, RunSettings(app.node.data, app.node.kafka_address))
    deadline = patience() + 60
    running.start()
    try:
        while not (rows := counts(app)) and patience() < deadline:
            time.sleep(0.2)
    finally:
        running.stop()
    assert [count for _, count in rows] == [2]
    assert app.prove("seen").different == 0


def test_only_windows_with_a_place_of_their_own_go_by_processing_time() -> None:
    readings = hw.App("plant").stream("readings", SCHEMA, time="at")
    with pytest.raises(InvalidDeclaration, match="depends on the rows that are in it"):
        readings.window(hw.session("1 minute"), time="processing")
    with pytest.raises(InvalidDeclaration, match=r"time='procesing'. Did you mean processing"):
        readings.window(hw.tumbling("1 minute"), time="procesing")


def test_the_next_end_is_that_of_the_first_window_that_is_open() -> None:
    assert Tumbling(10, 3).next_end_us(13) == 23
    assert Tumbling(10, 3).next_end_us(22) == 23
    assert Hopping(25, 10).next_end_us(5) == 15, "the window from −10 to 15"
    assert Calendar("day").next_end_us(5 * SECOND_US) == 86_400 * SECOND_US


def test_a_wish_for_later_is_none_before_its_time() -> None:
    wish = WakeupRequest(7, {"readings": 10}, at_ms=500)
    assert wish.at(499) == WakeupRequest(0, {"readings": 10}, at_ms=500)
    assert wish.at(500).number == 7


def test_when_batches_ran_is_read_from_the_accounts_of_the_job_as_it_is_now() -> None:
    def emitted(batch: int, end: int, job: str = "readings") -> dict[str, Any]:
        return {"job": job, "batch": batch, "end": {"readings": {"0": end}}, "processed_us": end * 10}

    rows = [emitted(0, 1), emitted(1, 2), emitted(0, 5), emitted(0, 5), emitted(0, 9, "other"), emitted(1, 7)]
    assert [(one.batch, one.end["readings"][0], one.at_us) for one in read_recorded(rows, "plant", "readings")] == [
        (0, 5, 50), (1, 7, 70),
    ]  # fmt: skip
    with pytest.raises(FlowError, match="batches before 3 of job readings took, and when, is no longer known"):
        read_recorded([emitted(3, 4)], "plant", "readings")
