"""Views whose keys end: CREATE MATERIALIZED VIEW ... WITH (keep = '16 days')."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node

ORDERS = """
CREATE STREAM orders (id BIGINT, user_id BIGINT, amount INT, at TIMESTAMP) FROM TOPIC orders WITH (time = 'at');
CREATE TABLE users (id BIGINT PRIMARY KEY, country STRING) FROM TOPIC users;
CREATE MATERIALIZED VIEW all_time AS SELECT user_id, count(*) AS n FROM orders GROUP BY user_id;
"""
KEPT = """
CREATE MATERIALIZED VIEW spent WITH (keep = '16 days') AS
  SELECT user_id, count(*) AS n, sum(amount) AS spent FROM orders WHERE amount > 0 GROUP BY user_id HAVING count(*) < 9;
CREATE MATERIALIZED VIEW newest KEY (user_id) WITH (keep = '16 days') AS SELECT user_id, id, amount FROM orders;
CREATE MATERIALIZED VIEW seen WITH (keep = '16 days') AS SELECT DISTINCT user_id FROM orders;
CREATE MATERIALIZED VIEW lately WITH (keep = '16 days') AS
  SELECT u.country, sum(s.n) AS n, sum(a.n) AS ever FROM users u
  JOIN (SELECT user_id, count(*) AS n FROM orders GROUP BY user_id) s ON s.user_id = u.id
  JOIN all_time a ON a.user_id = u.id GROUP BY u.country;
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


def order(number: int, user: int, day: int) -> dict[str, Any]:
    return {"id": number, "user_id": user, "amount": number, "at": f"2026-03-{day:02}T00:00:00Z"}


def test_keys_of_what_a_view_keeps_of_streams_end_and_those_of_views_that_it_reads_stay(
    run: Callable[[str], AppTester],
) -> None:
    shop = run(KEPT)
    shop.feed_rows("users", [{"id": 1, "country": "DE"}, {"id": 2, "country": "FR"}])
    shop.feed("orders", [order(1, 1, 1), order(2, 2, 8), order(3, 2, 9)])
    shop.run()
    assert shop.rows("lately") == [{"country": "DE", "n": 1, "ever": 1}, {"country": "FR", "n": 2, "ever": 2}]
    shop.feed("orders", [order(4, 2, 20)])
    shop.run()
    assert shop.rows("spent") == [{"user_id": 2, "n": 3, "spent": 9}]
    assert shop.rows("newest") == [{"user_id": 2, "id": 4, "amount": 4}]
    assert shop.rows("seen") == [{"user_id": 2}]
    assert shop.rows("lately") == [{"country": "FR", "n": 3, "ever": 3}]
    assert [row["user_id"] for row in shop.rows("all_time")] == [1, 2]


@pytest.mark.parametrize(
    "statement, sentence",
    [
        (
            "CREATE MATERIALIZED VIEW v WITH (keep = '1 day') AS "
            "SELECT country, count(*) AS n FROM users GROUP BY country",
            "neither groups a stream by a key",
        ),
        (
            "CREATE STREAM b (id BIGINT) FROM TOPIC b; CREATE MATERIALIZED VIEW v WITH (keep = '1 day') AS "
            "SELECT id, count(*) AS n FROM b GROUP BY id",
            "stream b does not say which column has the event time",
        ),
        (
            "CREATE MATERIALIZED VIEW v WITH (keep = 'long') AS SELECT id, count(*) AS n FROM orders GROUP BY id",
            "'long'.* is not a duration",
        ),
    ],
)  # fmt: skip
def test_views_that_time_cannot_end_are_refused(run: Callable[[str], AppTester], statement: str, sentence: str) -> None:
    with pytest.raises(InvalidDeclaration, match=sentence):
        run(statement).run()
