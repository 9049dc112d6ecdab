"""Statements about streams, run: joins as of a time, when windows are emitted, flows, and topics that are written."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node

ORDERS = """
CREATE STREAM orders (id BIGINT, currency STRING, amount INT, at TIMESTAMP) FROM TOPIC orders
  WITH (time = 'at', lateness = '1 minute', idle = 'none');
CREATE TABLE rates (currency STRING PRIMARY KEY, rate INT, since TIMESTAMP) FROM TOPIC rates
  WITH (versions = '30 days', valid_from = 'since');
"""
HOURS = """
CREATE MATERIALIZED VIEW hours AS
  SELECT window_start, window_end, count(*) AS n FROM TUMBLE(orders, DESCRIPTOR(at), INTERVAL '1' HOUR)
  GROUP BY window_start, window_end
"""


def refuse() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[str], AppTester]]:
    """A tester of an app of these statements."""
    with running_node(tmp_path) as node:

        def made(text: str) -> AppTester:
            app = hw.App("shop", shards=2)
            app.sql(ORDERS + text)
            return AppTester(app, node, refuse)

        yield made


def order(number: int, at: str, *, amount: int = 1, currency: str = "EUR") -> dict[str, Any]:
    return {"id": number, "currency": currency, "amount": amount, "at": f"2026-03-01T{at}:00Z"}


def rate(value: int, since: str) -> dict[str, Any]:
    return {"currency": "EUR", "rate": value, "since": f"2026-03-01T{since}:00Z"}


@pytest.mark.parametrize("more", ["", ", r.since"])
def test_a_join_as_of_the_time_of_the_stream_has_the_version_that_held_then(
    run: Callable[[str], AppTester], more: str
) -> None:
    shop = run(f"""CREATE STREAMING TABLE priced AS SELECT o.id, r.rate{more} FROM orders o
        LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON r.currency = o.currency""")
    shop.feed_rows("rates", [rate(2, "09:00"), rate(3, "10:00")])
    shop.feed("orders", [order(1, "08:30"), order(2, "09:30"), order(3, "10:30")])
    shop.flush()
    assert {row["id"]: row["rate"] for row in shop.values("priced")} == {1: None, 2: 2, 3: 3}


def test_a_join_as_of_now_has_the_row_that_is_there_when_the_event_comes(run: Callable[[str], AppTester]) -> None:
    shop = run("""CREATE TABLE names (currency STRING PRIMARY KEY, name STRING) FROM TOPIC names;
        CREATE STREAMING TABLE named AS SELECT o.id, n.name FROM orders o
        JOIN names FOR SYSTEM_TIME AS OF current_timestamp() AS n ON n.currency = o.currency""")
    for number, name in enumerate(("euro", "Euro")):
        shop.feed_rows("names", [{"currency": "EUR", "name": name}])
        shop.run()
        shop.feed("orders", [order(number, "09:00")])
        shop.run()
    assert [(row["id"], row["name"]) for row in shop.values("named")] == [(0, "euro"), (1, "Euro")]


@pytest.mark.parametrize(
    ("emit", "after_open", "after_over"),
    [("EMIT UPDATES", [1], [1, 1]), ("EMIT FINAL", [], [1]), ("EMIT CORRECTIONS FOR '1 day'", [], [1])],
)
def test_emit_says_when_windows_are_in_the_view(
    run: Callable[[str], AppTester], emit: str, after_open: list[int], after_over: list[int]
) -> None:
    shop = run(HOURS + emit)
    shop.feed("orders", [order(1, "09:10")])
    shop.run()
    assert [row["n"] for row in shop.rows("hours")] == after_open
    shop.feed("orders", [order(2, "10:30")])
    shop.run()
    assert [row["n"] for row in shop.rows("hours")] == after_over


def test_corrections_change_a_window_that_was_emitted(run: Callable[[str], AppTester]) -> None:
    shop = run(HOURS + "EMIT CORRECTIONS FOR '1 day'")
    shop.feed("orders", [order(1, "09:10"), order(2, "10:30")])
    shop.run()
    shop.feed("orders", [order(3, "09:20")])
    shop.run()
    assert [row["n"] for row in shop.rows("hours")] == [2]


def test_flows_write_one_topic_and_a_sink_has_the_changes_of_a_view(run: Callable[[str], AppTester]) -> None:
    shop = run("""
        CREATE MATERIALIZED VIEW totals AS SELECT currency, sum(amount) AS total FROM orders GROUP BY currency;
        CREATE SINK changed TO TOPIC totals.changes KEY (currency) AS SELECT * FROM totals;
        CREATE STREAMING TABLE both;
        CREATE FLOW small AS INSERT INTO both BY NAME SELECT id, 'small' AS what FROM orders WHERE amount < 5;
        CREATE FLOW large AS INSERT INTO both BY NAME SELECT 'large' AS what, id FROM orders WHERE amount >= 5;
    """)
    shop.feed("orders", [order(1, "09:00", amount=3)])
    shop.run()
    shop.feed("orders", [order(2, "09:00", amount=7)])
    shop.run()
    assert sorted((row["id"], row["what"]) for row in shop.values("both")) == [(1, "small"), (2, "large")]
    assert shop.rows("totals") == [{"currency": "EUR", "total": 10}]
    assert [row["after"]["total"] for row in shop.values("totals.changes")] == [3, 10]


def test_a_view_of_a_view_follows_it(run: Callable[[str], AppTester]) -> None:
    shop = run("""
        CREATE MATERIALIZED VIEW totals AS SELECT currency, sum(amount) AS total FROM orders GROUP BY currency;
        CREATE MATERIALIZED VIEW leader AS SELECT currency, total FROM totals ORDER BY total DESC LIMIT 1;
        CREATE MATERIALIZED VIEW counted AS SELECT total > 5 AS high, count(*) AS n FROM totals GROUP BY total > 5;
    """)
    shop.feed("orders", [order(1, "09:00", amount=3), order(2, "09:00", amount=4, currency="SEK")])
    shop.run()
    assert shop.rows("leader") == [{"currency": "SEK", "total": 4}]
    shop.feed("orders", [order(3, "09:00", amount=9)])
    shop.run()
    assert shop.rows("leader") == [{"currency": "EUR", "total": 12}]
    assert shop.rows("counted") == [{"high": False, "n": 1}, {"high": True, "n": 1}]


def test_a_table_loses_a_row_in_every_view_that_reads_it(run: Callable[[str], AppTester]) -> None:
    shop = run("""
        CREATE TABLE users (id BIGINT PRIMARY KEY, currency STRING) FROM TOPIC users;
        CREATE MATERIALIZED VIEW known AS SELECT u.currency, sum(amount) AS total FROM orders o
          JOIN users u ON u.id = o.id GROUP BY u.currency;
    """)
    shop.feed_rows("users", [{"id": 1, "currency": "EUR"}, {"id": 2, "currency": "EUR"}])
    shop.feed("orders", [order(1, "09:00", amount=3), order(2, "09:00", amount=4)])
    shop.run()
    assert shop.rows("known") == [{"currency": "EUR", "total": 7}]
    shop.feed_rows("users", [{"id": 2, "currency": "SEK"}], deleted=[1])
    shop.run()
    assert shop.rows("known") == [{"currency": "SEK", "total": 4}]
