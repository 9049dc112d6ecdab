"""Every aggregate over a table whose rows change and are deleted, from its topic to a view: equal to plain Python after
each of several batches, one of which comes twice, and to Spark in one."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester
from tests.flow.job.steps import Step, run_steps
from tests.flow.job.window_matrix import AGGREGATES, BEGIN, SENSORS, Reading, declared, same

COLUMNS = "id long, sensor string, x double, y double, n int, d decimal(9,2), good boolean, word string"
ORDERED = ("opening", "opened", "closing")
"""First and last of a table's rows, which have no order."""
NAMES = tuple(name for name in AGGREGATES if name not in ORDERED)
BY_VALUE = {"words": None, "few": 2}
"""Lists in the order of time are in that of their values, of which so many are taken."""
STEPS = (Step((14,), 1), Step((9,), 2), Step((8,), 1))
Table = dict[int, Reading]


def reading_of(place: int) -> Reading:
    """Values that are null, equal, negative and large."""
    return Reading(
        SENSORS[place * 7 // 3 % 2],
        None if place % 7 == 3 else (place % 5 - 2) * 10.0 ** (place % 3),
        None if place % 5 == 4 else place * 0.25 + 0.5,
        None if place % 6 == 5 else place % 9 - 2,
        None if place % 8 == 1 else Decimal(place * 37 % 1000) / 100,
        None if place % 4 == 3 else place % 3 > 0,
        None if place % 9 == 7 else f"w{place * 5 % 7}",
        0, 0, 0,
    )  # fmt: skip


def changes() -> list[tuple[int, Reading | None]]:
    """Rows come; they change, also their group; they go, the greatest ones among them."""
    inserts = [(id, reading_of(id)) for id in range(14)]
    updates = [(id, reading_of(3 * id + 1)) for id in (1, 4, 6, 7, 9, 12)]
    return [*inserts, *updates, *((id, None) for id in (0, 5, 10)), *((id, None) for id in (2, 3, 4, 6, 8, 9, 12, 13))]


def said(id: int, row: Reading) -> dict[str, Any]:
    names = ("sensor", "x", "y", "n", "good", "word")
    return {"id": id, **{name: getattr(row, name) for name in names}, "d": None if row.d is None else str(row.d)}


def expected(table: Table) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for sensor in {row.sensor for row in table.values()}:
        rows = [row for row in table.values() if row.sensor == sensor]
        found[sensor] = {name: AGGREGATES[name].expected(rows) for name in NAMES}
        for name, limit in BY_VALUE.items():
            found[sensor][name] = sorted(row.word for row in rows if row.word is not None)[:limit]
        for name, most in (("lowest", min), ("highest", max)):
            places = [(row.n, row.word is not None, row.word or "") for row in rows if row.n is not None]
            found[sensor][name] = (most(places)[2] or None) if places else None
    return found


@pytest.mark.slow
@pytest.mark.on_spark
@pytest.mark.timeout(900)
def test_every_aggregate_follows_the_rows_of_a_table(tester: Callable[[App], AppTester]) -> None:
    app = hw.App("plant", shards=2)
    readings = app.table("readings", COLUMNS, key="id")
    app.view(key="sensor", name="all")(lambda: readings.by("sensor").agg(*map(declared, NAMES)))
    plant = tester(app)
    for id, row in changes():
        given: dict[str, Any] = {"deleted": [id]} if row is None else {"rows": [said(id, row)]}
        plant.feed_rows("readings", at=BEGIN.isoformat(), **given)
    done: list[int] = []

    def check(step: Step) -> None:
        done.append(step.rows[0])
        now: Table = {}
        for id, row in changes()[: sum(done)]:
            now.pop(id, None)
            if row is not None:
                now[id] = row
        found, wanted = {row["sensor"]: row for row in plant.rows("all")}, expected(now)
        assert found.keys() == wanted.keys()
        assert [
            (sensor, name, found[sensor][name], value)
            for sensor, values in wanted.items()
            for name, value in values.items()
            if not same(found[sensor][name], value)
        ] == []

    run_steps(plant, STEPS, topic="readings", done=check)
    proof = plant.prove("all")
    assert (proof.shown, proof.rows) == ([], 1)
    assert plant.account("all").balanced
