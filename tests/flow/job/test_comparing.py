"""Windows beside earlier windows, from the log to views and topics, with their proof."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.windows_app import SCHEMA, reading

Tester = Callable[[hw.App], AppTester]


def plant(table: Callable[[Any], Any], **stream: Any) -> hw.App:
    """View `compared` and topic `emitted` of what is made from the readings."""
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", ahead=None, **stream)
    made = table(readings)
    app.view(key=["sensor", "window"], name="compared")(lambda: made)
    app.topic("emitted")(lambda: made)
    return app


def folded(tester: AppTester) -> dict[Any, Any]:
    """The table that the topic's changes make; each says what was there before."""
    table: dict[Any, Any] = {}
    for one in [value for value in tester.values("emitted") if value is not None]:
        row = one["after"] or one["before"]
        key = row["sensor"], datetime.fromisoformat(row["window_start"])
        assert one["before"] == table.get(key)
        table[key] = one["after"]
    return {key: row for key, row in table.items() if row is not None}


def at(moment_: datetime, sensor: str = "a", value: int = 1) -> dict[str, Any]:
    return {"sensor": sensor, "value": value, "at": moment_.isoformat()}


def test_every_comparison_follows_its_windows_and_is_proved(tester: Tester) -> None:
    def compared(readings: Any) -> Any:
        minutes = readings.window(hw.tumbling("1 minute")).by("sensor").agg("sum(value) as n", corrections="1 hour")
        return minutes.compare(
            per_second=hw.rate("n"),
            average=hw.rolling("n", 2),
            more=hw.change("n"),
            times=hw.ratio("n", "2 minutes"),
            odd=hw.anomaly("n", season=1, over=3, deviations=3),
        )

    app = tester(plant(compared))
    app.feed("readings", [reading(60 * minute, value=value) for minute, value in enumerate([6, 7, 8, 30, 0])])
    app.feed("readings", [reading(62, "b", 3)])
    app.run()
    rows = [row for row in app.rows("compared") if row["sensor"] == "a"]
    assert [(row["n"], row["more"], row["odd"]) for row in rows] == [
        (6, None, None), (7, 1, None), (8, 1, False), (30, 22, True),
    ]  # fmt: skip
    assert [row["per_second"] for row in rows] == pytest.approx([6 / 60, 7 / 60, 8 / 60, 0.5])
    assert [row["average"] for row in rows] == [6, 6.5, 7.5, 19]
    assert [row["times"] for row in rows] == [None, None, pytest.approx(8 / 6), pytest.approx(30 / 7)]
    assert app.prove("compared").different == 0
    app.feed("readings", [reading(30, value=4), reading(100, "b", 2), reading(600)])
    app.run()
    rows = [row for row in app.rows("compared") if row["sensor"] == "a"]
    assert [(row["n"], row["more"]) for row in rows[:4]] == [(10, None), (7, -3), (8, 1), (30, 22)]
    assert rows[2]["times"] == pytest.approx(0.8)
    assert app.prove("compared").different == 0
    held = {(row["sensor"], row["window_start"]): row["more"] for row in app.rows("compared")}
    assert {key: row["more"] for key, row in folded(app).items()} == held
    assert app.account("compared").balanced


def test_yesterday_and_last_month_are_those_of_the_clock_on_the_wall(tester: Tester) -> None:
    app = hw.App("plant", shards=2)
    readings = app.stream("readings", SCHEMA, time="at", ahead=None)
    kinds: tuple[tuple[Any, dict[str, Any]], ...] = (
        (hw.tumbling("1 hour"), {"corrections": "2 days"}),
        (hw.calendar("day", zone="Europe/Berlin"), {"emit": "final"}),
        (hw.calendar("month", zone="Europe/Berlin"), {}),
    )
    hours, days, months = (
        readings.window(window).by("sensor").agg("sum(value) as n", "count(*) as rows", **emission)
        for window, emission in kinds
    )
    app.view(key=["sensor", "window"], name="hours")(lambda: hours.compare(
        wall=hw.change("n", "1 day", zone="Europe/Berlin"),
        day=hw.change("n", "1 day"),
        odd=hw.anomaly("n", season="1 day", over=2, deviations=1, zone="Europe/Berlin"),
    ))  # fmt: skip
    app.view(key=["sensor", "window"], name="days")(lambda: days.compare(
        per_hour=hw.rate("rows", per="1 hour"), before=hw.change("n", "2 days"), mean=hw.rolling("n", 3)
    ))  # fmt: skip
    app.view(key=["sensor", "window"], name="months")(lambda: months.compare(times=hw.ratio("rows", 2)))
    begin = datetime(2026, 3, 27, tzinfo=UTC)  # in the night to the 29th clocks are put forward
    times = [begin + timedelta(hours=number) for number in range(80)]
    times += [begin + timedelta(days=number) for number in range(4, 70, 3)]
    ran = tester(app)
    ran.feed("readings", [at(time, value=number) for number, time in enumerate(times)])
    ran.run(rows_per_batch=70)
    assert [ran.prove(view).different for view in ("hours", "days", "months")] == [0, 0, 0]
    hour = {row["window_start"]: row for row in ran.rows("hours")}[datetime(2026, 3, 29, 10, tzinfo=UTC)]
    assert (hour["wall"], hour["day"]) == (23, 24), "from twelve to twelve there were 23 hours"
    (short,) = [row for row in ran.rows("days") if row["window_start"] == datetime(2026, 3, 28, 23, tzinfo=UTC)]
    assert (short["rows"], short["per_hour"]) == (23, 1)
    assert [row["times"] is None for row in ran.rows("months")] == [True, True, False, False][: len(ran.rows("months"))]


def test_comparisons_stand_behind_and_before_other_steps(tester: Tester) -> None:
    """A window that a condition takes away is absent for those that look back at it."""

    def compared(readings: Any) -> Any:
        hops = readings.window(hw.hopping("2 minutes", "1 minute")).by("sensor").agg("count(*) as n", "sum(value) as v")
        smooth = hops.where("v >= 0").with_columns(half="v / 2").compare(slow=hw.rolling("half", 2))
        return smooth.compare(turn=hw.change("slow")).where("n < 100")

    app = tester(plant(compared, lateness="10 minutes"))
    app.feed("readings", [reading(60 * minute, value=value) for minute, value in enumerate([4, 8, 2, 6])])
    app.run()
    assert app.prove("compared").different == 0
    assert [row["slow"] for row in app.rows("compared")] == [2, 4, 5.5, 4.5, 3.5]
    app.feed("readings", [reading(61, value=-50)])
    app.run()
    assert [(row["slow"], row["turn"]) for row in app.rows("compared")] == [(2, None), (4, None), (3.5, -0.5)]
    assert app.prove("compared").different == 0
    assert len(folded(app)) == 3


@pytest.mark.on_spark
def test_a_column_that_is_no_number_or_is_not_there_is_named(tester: Tester) -> None:
    def named(column: str) -> hw.App:
        return plant(lambda readings: readings.window(hw.tumbling("1 minute")).by("sensor").agg(
            "max(sensor) as name", "count(*) as n"
        ).compare(more=hw.change(column)))  # fmt: skip

    with pytest.raises(InvalidDeclaration, match=r"compares nn, which its windows do not have. Did you mean n\?"):
        tester(named("nn")).run()
    with pytest.raises(InvalidDeclaration, match=r"compares name, which is string. Use a column of numbers"):
        tester(named("name")).run()
