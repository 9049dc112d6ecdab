"""What the test kit does without Spark, and what it says of outputs that need it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node

HOUR = "2026-03-01T09:{:02}:00Z"


def refuse() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def without_spark(tmp_path: Path) -> Iterator[Callable[[hw.App], AppTester]]:
    """Testers that fail where they would start Spark."""
    with ExitStack() as ending:
        node = ending.enter_context(running_node(tmp_path / "data"))
        yield lambda app: AppTester(app, node, refuse)


def shop() -> hw.App:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, user string, amount decimal(12,2), at timestamp", time="at")
    users = app.table("users", "id long, name string", key="id")

    @app.view(key="window")
    def revenue() -> Any:
        return orders.window(hw.tumbling("1 hour")).agg("count(*) as n", "sum(amount) as revenue", emit="final")

    @app.view(key="user")
    def spent() -> Any:
        return orders.where(f.col("amount") > 1).by("user").agg(f.sum("amount").alias("spent"))

    @app.view(key="id")
    def people() -> Any:
        return users.where("name <> 'nobody'")

    return app


def order(number: int, amount: Any, minute: int, user: str = "ann") -> dict[str, Any]:
    return {"id": number, "user": user, "amount": amount, "at": HOUR.format(minute)}


def test_windows_and_aggregates_need_no_spark(without_spark: Callable[[hw.App], AppTester]) -> None:
    tester = without_spark(shop())
    tester.feed("orders", [order(1, 5, 10), order(2, "seven", 20), order(3, "2.50", 59), order(4, 1, 59)])
    tester.run()
    assert tester.needs_spark == {}
    assert tester.rows("revenue") == []
    assert tester.rows("spent") == [{"user": "ann", "spent": Decimal("7.50")}]
    assert tester.account("spent").poisoned == 1
    assert tester.account("spent").filtered == 1


def test_a_flush_moves_time_past_the_last_rows(without_spark: Callable[[hw.App], AppTester]) -> None:
    tester = without_spark(shop())
    tester.feed("orders", [order(1, 5, 10), order(2, 3, 59)])
    tester.flush()
    (hour,) = tester.rows("revenue")
    assert (hour["n"], hour["revenue"]) == (2, Decimal("8.00"))
    assert tester.account("revenue").rows_in == 2
    tester.feed("orders", [order(3, 1, 30)])
    tester.run()
    assert tester.account("revenue").late == 1


def test_rows_of_a_table_are_fed_as_they_are(without_spark: Callable[[hw.App], AppTester]) -> None:
    tester = without_spark(shop())
    tester.feed_rows("users", [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}, {"id": 3, "name": "nobody"}])
    tester.run()
    assert [row["name"] for row in tester.rows("people")] == ["ann", "bob"]
    tester.feed_rows("users", [{"id": 2, "name": "Bob"}], deleted=[1])
    tester.run()
    assert tester.rows("people") == [{"id": 2, "name": "Bob"}]
    with pytest.raises(InvalidDeclaration, match="orders is no table"):
        tester.feed_rows("orders", [{"id": 1}])
    with pytest.raises(InvalidDeclaration, match="has no id"):
        tester.feed_rows("users", [{"name": "ann"}])


def test_rows_in_the_envelope_of_a_capture_are_fed_as_they_are(without_spark: Callable[[hw.App], AppTester]) -> None:
    app = hw.App("captured")
    users = app.table("users", "id long, name string", key="id", format="debezium")
    app.view(name="people", key="id")(lambda: users)
    tester = without_spark(app)
    tester.feed_rows("users", [{"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}], deleted=[2])
    tester.run()
    assert tester.rows("people") == [{"id": 1, "name": "ann"}]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda rows: rows.where("regexp_like(user, 'a')"), "regexp_like(...)"),
        (lambda rows: rows.with_columns(id=f.regexp_count("user", f.lit("a"))), "regexp_count(...)"),
        (lambda rows: rows.apply(lambda frame: frame), "spent has a function of frames"),
        (lambda rows: rows.where("amount > '5'"), "comparison of decimal128(12, 2) and string"),
    ],
)
def test_what_needs_spark_is_said(
    without_spark: Callable[[hw.App], AppTester], step: Callable[[Any], Any], reason: str
) -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, user string, amount decimal(12,2)")
    app.view(name="spent", key="user")(lambda: step(orders).by("user").agg("sum(amount) as spent"))
    tester = without_spark(app)
    tester.feed("orders", [{"id": 1, "user": "ann", "amount": 5}])
    assert tester.needs_spark == {"spent": reason}
    with pytest.raises(AssertionError, match="Spark was started"):
        tester.run()
    assert f"spent needs Spark: {reason}" in tester.reported


def test_a_mistake_that_shows_without_spark_is_raised_without_it(
    without_spark: Callable[[hw.App], AppTester],
) -> None:
    app = hw.App("shop")
    orders = app.stream("orders", "id long, amount int")
    app.view(name="spent", key="user")(lambda: orders.by("user").agg("sum(amount) as spent"))
    with pytest.raises(InvalidDeclaration, match="user"):
        without_spark(app).run()


def test_no_jvm_and_no_remote_client_is_loaded() -> None:
    """In a process of its own, where nothing else has."""
    script = (
        "import sys\n"
        "from tests.flow.local.test_without_spark import order, shop\n"
        "from headwater.testing import running_app\n"
        "from pyspark import SparkContext\n"
        "with running_app(shop()) as tester:\n"
        "    tester.feed('orders', [order(1, 5, 10)])\n"
        "    tester.flush()\n"
        "    assert len(tester.rows('revenue')) == 1\n"
        "assert SparkContext._gateway is None\n"
        "assert 'pyspark.sql.connect' not in sys.modules and 'grpc' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
