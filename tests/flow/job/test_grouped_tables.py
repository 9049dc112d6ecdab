"""Tables that are grouped: corrected by every update and delete of a row, and proved."""

from collections.abc import Callable

import pytest

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.declare.stream import Table
from headwater.flow.run.app_tester import AppTester

COLUMNS = "id long, country string, spent double, name string"


def shop() -> hw.App:
    app = hw.App("shop", shards=2)
    users = app.table("users", COLUMNS, key="id")
    app.view(key="country", name="countries")(
        lambda: users.by("country").agg(
            "count(*) as users",
            "sum(spent) as spent",
            "avg(spent) as mean",
            "min(name) as first",
            "max(spent) as most",
            "count(distinct name) as names",
        )
    )
    return app


def test_a_captured_table_that_is_grouped_is_corrected_by_updates_and_deletes(
    tester: Callable[[App], AppTester],
) -> None:
    shop_tester = tester(shop())
    rows = [
        {"id": 1, "country": "no", "spent": 1.5, "name": "a"},
        {"id": 2, "country": "no", "spent": 2.5, "name": "b"},
        {"id": 3, "country": "se", "spent": 4.0, "name": "b"},
    ]
    shop_tester.feed_rows("users", rows)
    shop_tester.run()
    assert [tuple(row.values()) for row in shop_tester.rows("countries")] == [
        ("no", 2, 4.0, 2.0, "a", 2.5, 2), ("se", 1, 4.0, 4.0, "b", 4.0, 1)
    ]  # fmt: skip
    shop_tester.feed_rows("users", [{**rows[0], "country": "se", "spent": 9.0}, {**rows[1], "name": "c"}])
    shop_tester.run()
    assert [tuple(row.values()) for row in shop_tester.rows("countries")] == [
        ("no", 1, 2.5, 2.5, "c", 2.5, 1), ("se", 2, 13.0, 6.5, "a", 9.0, 2)
    ]  # fmt: skip
    shop_tester.feed_rows("users", deleted=[2, 1])
    shop_tester.run()
    assert [tuple(row.values()) for row in shop_tester.rows("countries")] == [("se", 1, 4.0, 4.0, "b", 4.0, 1)]
    assert shop_tester.prove("countries").different == 0
    assert shop_tester.account("countries").balanced


def whole() -> hw.App:
    app = hw.App("whole", shards=2)
    users, orders = app.table("users", COLUMNS, key="id"), app.stream("orders", "id long, amount long")
    total = users.where("spent > 1").agg("count(*) as users", "sum(spent) as spent", "collect_set(name) as names")
    app.view(key=[], name="total")(lambda: total)
    app.view(key=[], name="rich")(lambda: total.where("users > 1").select("users"))
    app.topic("emitted")(lambda: total)
    app.view(key=[], name="sold")(lambda: orders.where("amount > 0").agg("count(*) as n", "sum(amount) as amount"))
    return app


def test_aggregates_without_a_key_are_one_row_also_of_nothing(tester: Callable[[App], AppTester]) -> None:
    whole_tester = tester(whole())
    whole_tester.feed_rows("users", [{"id": 1, "country": "no", "spent": 1.0, "name": "a"}])
    whole_tester.feed("orders", [{"id": 1, "amount": 0}])
    whole_tester.run()
    assert whole_tester.rows("total") == [{"users": 0, "spent": None, "names": []}]
    assert whole_tester.rows("sold") == [{"n": 0, "amount": None}]
    assert whole_tester.rows("rich") == []
    rows = [{"id": id, "country": "no", "spent": 2.0 * id, "name": "ab"[id - 1]} for id in (1, 2)]
    whole_tester.feed_rows("users", rows)
    whole_tester.feed("orders", [{"id": 1, "amount": 3}, {"id": 2, "amount": 4}])
    whole_tester.run()
    assert whole_tester.rows("total") == [{"users": 2, "spent": 6.0, "names": ["a", "b"]}]
    assert whole_tester.rows("sold") == [{"n": 2, "amount": 7}]
    assert whole_tester.rows("rich") == [{"users": 2}]
    with whole_tester.view("total") as view:
        assert view.get() == {"users": 2, "spent": 6.0, "names": ["a", "b"]}
    whole_tester.feed_rows("users", deleted=[1, 2])
    whole_tester.run()
    assert whole_tester.rows("total") == [{"users": 0, "spent": None, "names": []}]
    assert whole_tester.rows("rich") == []
    assert [value["op"] for value in whole_tester.values("emitted")] == ["c", "u", "u"]
    assert [record.key for record in whole_tester.records("emitted")] == [b"{}"] * 3
    assert [whole_tester.prove(name).different for name in ("total", "rich", "sold")] == [0, 0, 0]


def steps(app: hw.App) -> Table:
    """Steps on tables that make several rows of one, or drop the key."""
    columns = "id long, country string, tags array<string>"
    one, other = (app.table(name, columns, key="id", name=name) for name in ("one", "other"))
    app.view(key="country", name="projected")(lambda: one.select("country").by("country").count())
    app.view(key="tag", name="tags")(lambda: one.explode("tags", into="tag").by("tag").agg("count(*) as n"))
    app.view(key="country", name="united")(lambda: one.union(other).by("country").agg("count(*) as n"))
    app.view(key=["source", "id"], name="both")(
        lambda: one.union(other, part="source").select("source", "id", "country").where("country <> 'se'")
    )
    app.view(key=["country"], name="countries")(lambda: one.union(other).distinct("country"))
    app.view(key=["id", "country", "tags"], name="rows")(lambda: one.distinct())
    again = one.by("country").agg("count(*) as n")
    app.view(key="n", name="sizes")(lambda: again.by("n").agg("count(*) as countries", "max(country) as last"))
    return one


STEPPED = ("projected", "tags", "united", "both", "countries", "rows", "sizes")


def feed_steps(tester: AppTester) -> None:
    rows = [
        {"id": 1, "country": "no", "tags": ["a", "b"]}, {"id": 2, "country": "no", "tags": ["b"]},
        {"id": 3, "country": "se", "tags": []},
    ]  # fmt: skip
    tester.feed_rows("one", rows)
    tester.feed_rows("other", rows[1:])
    tester.run()
    assert {row["country"]: row["n"] for row in tester.rows("united")} == {"no": 3, "se": 2}
    tester.feed_rows("one", [{**rows[0], "tags": ["b"]}], deleted=[3])
    tester.feed_rows("other", deleted=[3])
    tester.run()


def what_steps_make(tester: AppTester) -> dict[str, list[tuple[object, ...]]]:
    return {name: [tuple(row.values()) for row in tester.rows(name)] for name in STEPPED}


EXPECTED = {
    "projected": [("no", 2)],
    "tags": [("b", 2)],
    "united": [("no", 3)],
    "both": [(0, 1, "no"), (0, 2, "no"), (1, 2, "no")],
    "countries": [("no",)],
    "rows": [(1, "no", ["b"]), (2, "no", ["b"])],
    "sizes": [(2, 1, "no")],
}


def test_steps_on_tables_make_several_rows_of_one_and_drop_keys(tester: Callable[[App], AppTester]) -> None:
    app = hw.App("steps", shards=2)
    steps(app)
    stepped = tester(app)
    feed_steps(stepped)
    assert what_steps_make(stepped) == EXPECTED


@pytest.mark.slow
@pytest.mark.on_spark
def test_on_spark_they_make_the_same_and_are_proved(tester: Callable[[App], AppTester]) -> None:
    app = hw.App("steps", shards=2, one_job=True)
    one = steps(app)
    app.view(key=["id", "place"], name="placed")(
        lambda: one.explode("tags", into="tag", position="place").select("id", "place", "tag")
    )
    stepped = tester(app)
    feed_steps(stepped)
    assert what_steps_make(stepped) == EXPECTED
    assert [tuple(row.values()) for row in stepped.rows("placed")] == [(1, 0, "b"), (2, 0, "b")]
    assert {name: stepped.prove(name).different for name in (*STEPPED, "placed")} == dict.fromkeys(
        (*STEPPED, "placed"), 0
    )
