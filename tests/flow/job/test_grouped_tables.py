"""Tables that are grouped: corrected by every update and delete of a row, and proved."""

from collections.abc import Callable

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester

COLUMNS = "id long, country string, spent double, name string"


def shop() -> hw.App:
    app = hw.App("shop", shards=2)
    users = app.table("users", COLUMNS, key="id")
    app.view(key="country", name="countries")(
        lambda: users.by("country").agg(
            "count(*) as users", "sum(spent) as spent", "avg(spent) as mean", "min(name) as first", "max(spent) as most",
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
