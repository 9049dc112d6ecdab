"""Rows that came too late, taken back: windows are corrected, once, whatever breaks off in between."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.errors import JobRefused
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.run.app_tester import AppTester
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.sinks.view import ViewSink
from tests.flow.job.windows_app import SCHEMA, one_view, reading

Tester = Callable[[hw.App], AppTester]
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "minutes": (hw.tumbling("1 minute"), {"emit": "final"}),
    "hops": (hw.hopping("2 minutes", "1 minute"), {}),
    "slid": (hw.sliding("3 minutes"), {"corrections": "1 minute"}),
    "days": (hw.calendar("day", zone="Europe/Berlin"), {"emit": "final"}),
    "trips": (hw.session("30 seconds"), {"emit": "final"}),
}
EMITTED = ("minutes", "hops")
LATE = [reading(30, value=7), reading(100, "b", 4), reading(400, value=2)]


def plant(*names: str) -> hw.App:
    """Windows of some kinds, one of them compared with the one before."""
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", ahead=None)
    for name in names:
        window, emission = KINDS[name]
        made = readings.window(window).by("sensor").agg("count(*) as n", "sum(value) as total", **emission, name=name)
        if name == "minutes":
            made = made.compare(more=hw.change("total"), name="minutes-compared")
        app.view(key=["sensor", "window"], name=name)(lambda made=made: made)
        if name in EMITTED:
            app.topic(f"emitted-{name}")(lambda made=made: made)
    return app


def fed(tester: Tester, *names: str) -> AppTester:
    """Two days of a few readings, and then three that come too late for most."""
    app = tester(plant(*names))
    app.feed("readings", [reading(60 * minute, value=minute) for minute in range(9)])
    app.feed("readings", [reading(70, "b", 5), reading(200_000)])
    app.run()
    app.feed("readings", LATE)
    app.run()
    return app


def check(app: AppTester, *names: str) -> None:
    """Views are what the log says, and topics what views are."""
    assert {name: app.prove(name).different for name in names} == dict.fromkeys(names, 0)
    emitted = [name for name in names if name in EMITTED]
    assert [folded(app, name) for name in emitted] == [len(app.rows(name)) for name in emitted]


def folded(app: AppTester, name: str) -> int:
    """How many rows the topic's changes make; each says what was there before."""
    table: dict[Any, Any] = {}
    for one in [value for value in app.values(f"emitted-{name}") if value is not None]:
        row = one["after"] or one["before"]
        key = tuple(row.get(part) for part in ("sensor", "window_start", "window_end", "at"))
        assert one["before"] == table.get(key)
        table[key] = one["after"]
    return len([row for row in table.values() if row is not None])


def test_late_rows_correct_their_windows_and_are_late_no_more(tester: Tester) -> None:
    app = fed(tester, *KINDS)
    assert app.account("minutes").late == 3
    (before,) = [row for row in app.rows("minutes") if (row["sensor"], row["n"]) == ("b", 1)]
    taken = app.replay_late()["readings"]
    assert taken.rows == {"minutes": 3, "hops": 3, "slid": 3, "days": 3}
    assert taken.left == {"trips": (3, "a session that is over may have to be joined with one that is not")}
    (after,) = [row for row in app.rows("minutes") if row["sensor"] == "b"]
    assert (before["total"], after["total"], after["n"]) == (5, 9, 2)
    rows = [row for row in app.rows("minutes") if row["sensor"] == "a"]
    assert [(row["total"], row["more"]) for row in rows[:3]] == [(7, None), (1, -6), (2, 1)]
    assert [(one["op"], one["before"]["total"], one["after"]["total"]) for one in app.values("emitted-minutes")[-10:]
            if one and one["op"] == "u" and one["after"]["sensor"] == "b"] == [("u", 5, 9)]  # fmt: skip
    check(app, "minutes", "slid", "days")
    account = app.account("minutes")
    assert account.balanced
    assert (account.rows_in, account.rows_out, account.late) == (14, 14, 0)
    emitted = len(app.values("emitted-minutes"))
    assert app.replay_late()["readings"].rows == {}, "there is nothing left to take back"
    assert len(app.values("emitted-minutes")) == emitted


def test_the_job_goes_on_from_there_and_windows_that_are_still_open_have_the_rows(tester: Tester) -> None:
    app = fed(tester, "hops", "slid")
    app.feed("readings", [reading(200_030, value=1), reading(200_090, value=1)])
    app.run()
    app.feed("readings", [reading(200_005, value=50), reading(200_031, value=3)])
    app.run()
    late = app.account("hops").late
    assert late == 5
    taken = app.replay_late()["readings"]
    assert taken.rows["hops"] == 5
    app.feed("readings", [reading(200_091, value=3), reading(200_500, value=1)])
    app.run()
    assert app.account("hops").late == 0
    check(app, "hops", "slid")


@pytest.mark.parametrize("resumed_by", [pytest.param("command", marks=pytest.mark.torture), "job"])
def test_what_breaks_off_in_the_middle_is_carried_to_its_end(
    tester: Tester, monkeypatch: pytest.MonkeyPatch, resumed_by: str
) -> None:
    app = fed(tester, "minutes", "hops")
    publish = ViewSink.publish

    def dying(self: ViewSink, *given: Any) -> None:
        if self.name == "hops":
            raise OSError("pulled out")
        publish(self, *given)

    def unfinished(self: JobFolder, *given: Any) -> None:
        raise OSError("pulled out")

    with monkeypatch.context() as patched:
        patched.setattr(ViewSink, "publish", dying)
        with pytest.raises(OSError, match="pulled out"):
            app.replay_late()
    assert [row["total"] for row in app.rows("minutes") if row["sensor"] == "b"] == [5], "views are written together"
    with monkeypatch.context() as patched:
        patched.setattr(JobFolder, "finish", unfinished)
        with pytest.raises(OSError, match="pulled out"):
            app.replay_late()
    assert [row["total"] for row in app.rows("minutes") if row["sensor"] == "b"] == [9], "it was written before"
    if resumed_by == "command":
        assert app.replay_late()["readings"].rows == {"minutes": 3, "hops": 3}
    else:
        app.run()
    assert app.replay_late()["readings"].rows == {}
    app.feed("readings", [reading(200_500)])
    app.run()
    check(app, "minutes", "hops")
    assert app.account("hops").late == 0


def test_a_job_that_runs_is_left_alone(tester: Tester, spark: SparkSession) -> None:
    app = tester(one_view(hw.tumbling("1 minute")))
    app.feed("readings", [reading(1)])
    app.run()
    folder = JobFolder(app.node.data / "flows" / "plant" / "readings")
    folder.lock()
    try:
        with pytest.raises(JobRefused, match="job readings is being run by process"):
            app.replay_late()
    finally:
        folder.unlock()


def test_an_app_that_has_never_run_has_nothing_to_take_back(tester: Tester, spark: SparkSession) -> None:
    app = tester(one_view(hw.tumbling("1 minute")))
    running = RunningApp(app.app, spark, RunSettings(app.node.data, app.node.kafka_address))
    try:
        assert running.replay_late()["readings"].rows == {}
    finally:
        running.stop()
