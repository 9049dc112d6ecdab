"""Joins as of a time with tables whose rows say since when they hold: the answer is what the log says, whenever the
records of either side were written, read, or read again."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.proof.proofs import prove_each
from headwater.flow.proof.verification import DIFFERENT, PROVED, UNPROVABLE
from headwater.flow.run.app_tester import AppTester

pytestmark = pytest.mark.timeout(900)
Tester = Callable[[hw.App], AppTester]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = "2026-05-05T12:00:00Z"
"""When history is loaded: long after all of it."""


def hour(number: float) -> str:
    return (BEGIN + timedelta(hours=number)).isoformat()


def city(name: str = "city", **join: Any) -> hw.App:
    app = hw.App(name, shards=2)
    trips = app.stream("trips", "id long, zone string, at timestamp", time="at", lateness="0s")
    tariffs = app.table(
        "tariffs", "zone string, price long, since timestamp", key="zone", versions="3650 days", valid_from="since"
    )
    priced = trips.join(tariffs, on="zone", as_of="at", how="left", **join)
    if "corrections" in join:
        app.view(key="left_row", name="priced")(lambda: priced)
    else:
        app.view(key="id", name="priced")(lambda: priced.latest("id"))
    return app


def tariff(price: int, since: float, zone: str = "a") -> dict[str, Any]:
    return {"zone": zone, "price": price, "since": hour(since)}


def trip(id: int, at: float, zone: str = "a") -> dict[str, Any]:
    return {"id": id, "zone": zone, "at": hour(at)}


def prices(app: AppTester) -> list[int | None]:
    return [row["price"] for row in sorted(app.rows("priced"), key=lambda row: row["id"])]


def test_history_that_is_produced_live_replayed_and_rebuilt_gives_one_answer(tester: Tester) -> None:
    app = tester(city())
    for row in (tariff(1, 0), tariff(2, 2)):
        app.feed("tariffs", [row], key="zone", at=LATER)
        app.run()
    for rows in ([trip(1, 1), trip(2, 2.5), trip(3, 3)], [trip(4, 9)]):
        app.feed("trips", rows, at=LATER)
        app.run()
    assert prices(app) == [1, 2, 2], "the last waits for the clock of the trips"
    assert (app.prove("priced").result, app.prove("priced").late) == (PROVED, 0)
    again = tester(city("again"))
    again.run(rows_per_batch=1)
    assert prices(again) == prices(app), "all tariffs are read before the first trip"
    assert again.prove("priced").result == PROVED
    app.run(rebuild=["priced"], rows_per_batch=2)
    assert prices(app) == [1, 2, 2]
    assert app.prove("priced").result == PROVED
    with sqlite3.connect(app.node.data / "views" / "city.sqlite") as database:
        database.execute("update priced set price = 1 where id = 2")
    wrong = app.prove("priced")
    assert (wrong.result, wrong.different, wrong.shown[0].key) == (DIFFERENT, 1, {"id": 2}), "a planted one is found"


def test_a_version_that_came_after_what_it_would_have_changed_is_told_and_its_answer_is_a_difference(
    tester: Tester,
) -> None:
    app = tester(city())
    app.feed("tariffs", [tariff(1, 0)], key="zone", at=hour(0))
    app.feed("trips", [trip(1, 1), trip(2, 2.5)], at=hour(3))
    app.run()
    app.feed("trips", [trip(3, 9)], at=hour(9))
    app.run()
    app.feed("tariffs", [tariff(2, 2), tariff(7, 2, "nobody"), tariff(3, 20)], key="zone", at=hour(9))
    app.feed("trips", [trip(4, 2.7), trip(5, 10)], at=hour(10))
    app.run()
    assert prices(app) == [1, 1, 2, 2], "the second was emitted before its tariff came; the fourth was not"
    (late, _) = app.values("city.tariffs-trips.late")
    assert (late["topic"], late["offset"], late["watermark"]) == ("tariffs", 1, "2026-01-01T09:00:00Z")
    assert "were emitted without it" in late["reason"]
    found = app.prove("priced")
    assert (found.result, found.different, found.late) == (DIFFERENT, 1, 2)
    assert (found.shown[0].view["price"], found.shown[0].log["price"]) == (1, 2)  # type: ignore[index]
    assert found.late_shown[0].record == "tariffs/0@1"
    app.run(rebuild=["priced"])
    assert prices(app) == [1, 2, 2, 2]
    assert app.prove("priced").result == PROVED


@pytest.mark.slow
@pytest.mark.parametrize("join", [{}, {"corrections": "3 hours"}], ids=["once", "corrected"])
def test_whenever_records_were_written_and_in_whatever_order_they_come_a_rebuild_gives_what_all_versions_say(
    tester: Tester, join: dict[str, Any]
) -> None:
    """Times of records and times since when versions hold have nothing to do with each other."""
    random = Random(11)
    app = tester(city(**join))
    trips = [trip(number, random.uniform(0, 12), random.choice("ab")) for number in range(12)]
    tariffs = [tariff(number, random.uniform(-2, 12), random.choice("ab")) for number in range(9)]
    for part in range(3):
        for topic, rows, key in (("tariffs", tariffs[part::3], "zone"), ("trips", trips[part::3], None)):
            for row in rows:
                app.feed(topic, [row], key=key, at=hour(random.uniform(0, 3000)))
        app.run()
        found = app.prove("priced")
        assert found.different == 0 or found.late > 0
        assert app.account("priced").balanced
    app.run(rebuild=["priced"], rows_per_batch=4)
    assert app.prove("priced").result == PROVED
    emitted = {row["id"]: row["price"] for row in app.rows("priced")}
    assert emitted == {one["id"]: held(tariffs, one) for one in trips if one["id"] in emitted}
    assert len(emitted) >= len(trips) - 1, "the newest may have to wait"


def held(tariffs: list[dict[str, Any]], trip: dict[str, Any]) -> int | None:
    begun = [one for one in tariffs if one["zone"] == trip["zone"] and one["since"] <= trip["at"]]
    price: int | None = max(begun, key=lambda one: one["since"])["price"] if begun else None
    return price


def test_that_one_view_cannot_be_proved_says_nothing_about_the_next(tester: Tester) -> None:
    declared = city()
    trips = declared.stream("trips", "id long, zone string, at timestamp", time="at", lateness="0s", name="rides")
    zones = declared.table("zones", "zone string, name string", key="zone")
    middle = trips.by("zone").agg(hw.percentile("id", 0.5).alias("middle"))
    declared.view(key="zone", name="doubled")(lambda: middle.with_columns(middle="middle * 2"))
    declared.view(key="zone", name="zones")(lambda: zones)
    app = tester(declared)
    app.feed("zones", [{"zone": "a", "name": "Centre"}], key="zone", at=hour(0))
    app.feed("tariffs", [tariff(1, 0)], key="zone", at=hour(0))
    app.feed("trips", [trip(1, 1), trip(2, 3)], at=hour(3))
    app.run()
    app.feed("trips", [trip(3, 9)], at=hour(9))
    app.run()
    with sqlite3.connect(app.node.data / "views" / "city.sqlite") as database:
        database.execute("update priced set price = 5 where id = 1")
    found = list(prove_each(app.app, [], app.session, app.node.data, app.node.kafka_address, direct=True))
    assert [(one.view, one.result) for one in found] == [
        ("doubled", UNPROVABLE), ("priced", DIFFERENT), ("zones", PROVED),
    ]  # fmt: skip
    with pytest.raises(InvalidDeclaration, match="has no view nothing"):
        list(prove_each(app.app, ["zones", "nothing"], app.session, app.node.data, app.node.kafka_address, direct=True))


def test_a_table_that_says_since_when_its_rows_hold_is_not_waited_for() -> None:
    app = hw.App("city")
    with pytest.raises(InvalidDeclaration, match="so is not waited for"):
        app.table("tariffs", "zone string, since timestamp", key="zone", valid_from="since", idle="10 seconds")
