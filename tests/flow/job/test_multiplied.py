"""Steps that make several rows of one, or none, behind every kind of operator: the accounts of each output balance."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester

pytestmark = pytest.mark.on_spark

Tester = Callable[[hw.App], AppTester]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS = "id string, who string, items array<string>, at timestamp"


def at(minute: float) -> str:
    return (BEGIN + timedelta(minutes=minute)).isoformat()


def order(id: str, who: str, items: list[str], minute: float) -> dict[str, Any]:
    return {"id": id, "who": who, "items": items, "at": at(minute)}


def shop() -> hw.App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", ORDERS, time="at", lateness="0s")
    people = app.table("people", "who string, tags array<string>", key="who")

    def changed(key: str) -> Any:
        return orders.latest(key).changes()

    @app.topic("chosen")
    def chosen() -> Any:
        return changed("id").select("id", "explode(after.items) as item")

    @app.topic("exploded")
    def exploded() -> Any:
        return changed("who").select("who", "after.items as items").explode("items", into="item")

    @app.topic("filtered")
    def filtered() -> Any:
        return changed("id").where("op = 'c'").select("id", "inline(arrays_zip(after.items))")

    @app.topic("both")
    def both() -> Any:
        return changed("id").select("id").union(changed("who").select("explode(after.items) as id"))

    @app.topic("windows")
    def windows() -> Any:
        counted = orders.window(hw.tumbling("1 minute")).by("who").agg(f.count("*").alias("n"))
        return counted.changes().select("who", "explode(sequence(1, after.n)) as nth")

    @app.topic("first")
    def first() -> Any:
        return orders.dedupe("who", within="1 hour").select("who", "explode(items) as item")

    @app.topic("plain")
    def plain() -> Any:
        return orders.select("id", f.posexplode("items").alias("place", "item")).where("item != 'c'")

    @app.topic("joined")
    def joined() -> Any:
        return orders.join(people, on="who", how="left").select("id", "explode(tags) as tag")

    @app.view(key="item")
    def counted() -> Any:
        return changed("id").select("explode(after.items) as item").by("item").agg(f.count("*").alias("n"))

    return app


@pytest.mark.timeout(900)
def test_rows_that_multiply_or_vanish_behind_any_operator_are_accounted_for(tester: Tester) -> None:
    app = tester(shop())
    app.feed("people", [{"who": "x", "tags": ["a", "b", "c"]}, {"who": "y", "tags": []}], at=at(0), key="who")
    app.feed("orders", [order("1", "x", ["a", "b"], 0), order("2", "y", [], 1), order("3", "x", ["c"], 2)], at=at(2))
    app.run()
    app.feed("orders", [order("1", "x", ["a", "b", "d"], 3), order("4", "z", [], 4)], at=at(4))
    app.run()
    accounts = {name: app.account(name) for name in app.app.outputs}
    assert {name for name, one in accounts.items() if not one.balanced} == set()
    assert sorted((one["id"], one["item"]) for one in app.values("chosen")) == [
        ("1", "a"), ("1", "a"), ("1", "b"), ("1", "b"), ("1", "d"), ("3", "c"),
    ]  # fmt: skip
    plain = accounts["plain"]
    assert (plain.rows_in, plain.expanded, plain.rows_out, plain.filtered) == (5, 1, 5, 1), (
        "of six items one is filtered"
    )
    assert {row["item"]: row["n"] for row in app.rows("counted")} == {"a": 2, "b": 2, "c": 1, "d": 1}


def test_rows_that_a_column_multiplies_are_told_apart_by_a_join_behind_it(tester: Tester) -> None:
    app = hw.App("apart", shards=2)
    orders = app.stream("orders", ORDERS, time="at", lateness="0s")
    seen = app.stream("seen", "item string, at timestamp", time="at", lateness="0s")

    @app.topic("met")
    def met() -> Any:
        items = orders.select("who", "explode(items) as item", "at")
        return items.join(seen, on="item", within="1 hour")

    running = tester(app)
    running.feed("orders", [order("1", "x", ["a", "a", "b"], 0)], at=at(0))
    running.run()
    running.feed("seen", [{"item": "a", "at": at(1)}, {"item": "b", "at": at(1)}], at=at(1))
    running.run()
    assert sorted(one["item"] for one in running.values("met")) == ["a", "a", "b"]


def test_a_table_whose_rows_would_multiply_is_refused(tester: Tester) -> None:
    app = hw.App("refused", shards=2)
    orders = app.stream("orders", ORDERS, time="at")

    @app.view(key="id")
    def items() -> Any:
        return orders.latest("id").select("id", "explode(items) as item")

    with pytest.raises(InvalidDeclaration, match="makes several rows of one, and a table has one a key"):
        tester(app).run()
