"""Queries over tables that random ones (tests/flow/random_queries) have found to be wrong."""

from collections.abc import Callable

import headwater as hw
from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester


def shop() -> App:
    app = hw.App("shop", shards=2, one_job=True)
    orders = app.table("orders", "id long, customer long", key="id")
    app.table("customers", "id long, name string", key="id")
    app.view(key=[], name="one")(lambda: orders.agg("count(*) as n").rank(order="n desc", limit=1))
    counted = {
        "filtered": "count(*) filter (where o.id > 1)",
        "more": "count(*) + 1",
        "filled": "coalesce(sum(o.id), 7)",
    }
    for name, value in counted.items():
        app.sql(
            f"create materialized view {name} as select c.id, "
            f"(select {value} from orders as o where o.customer = c.id) as n from customers as c"
        )
    app.sql(
        "create materialized view firsts as select id, customer from "
        "(select id, customer from orders order by id desc limit 2) as last order by id limit 1"
    )
    return app


def test_a_table_of_one_row_is_ranked_and_queries_of_no_rows_count_to_0(tester: Callable[[App], AppTester]) -> None:
    kept = tester(shop())
    kept.feed_rows("orders", [{"id": id, "customer": 1} for id in (1, 2, 3)])
    kept.feed_rows("customers", [{"id": id, "name": "a"} for id in (1, 2)])
    kept.run()
    assert kept.rows("one") == [{"n": 3, "place": 1}]
    assert [row["n"] for name in ("filtered", "more", "filled") for row in kept.rows(name)] == [2, 0, 4, 1, 6, 7]
    assert kept.rows("firsts") == [{"id": 2, "customer": 1}]
    kept.feed_rows("orders", deleted=[3])
    kept.run()
    assert kept.rows("one") == [{"n": 2, "place": 1}]
    assert [row["n"] for name in ("filtered", "more", "filled") for row in kept.rows(name)] == [1, 0, 3, 1, 3, 7]
    assert kept.rows("firsts") == [{"id": 1, "customer": 1}]
