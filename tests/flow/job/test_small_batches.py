"""Batches that the driver runs itself give what Spark's tasks give; steps that only Spark can evaluate stay with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headwater as hw
from headwater.flow.commit.batch_evaluation import DRIVER_ROWS
from headwater.flow.operate import level_blocks
from headwater.flow.operate.level_blocks import DriverRun, GatheredRun
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.spark_session import shared_session

ORDERS = [
    {"id": f"o{number}", "user": number % 5, "amount": number, "at": f"2026-01-01T00:{number:02d}:00Z"}
    for number in range(40)
]
USERS = [{"user": number, "name": f"user {number}"} for number in range(4)]


@pytest.fixture
def ran_by_driver(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each exchange had that the driver ran."""
    ran: list[int] = []
    call = DriverRun.__call__

    def noted(self: DriverRun, *arguments: Any) -> Any:
        ran.append(len(self.blocks))
        return call(self, *arguments)

    monkeypatch.setattr(DriverRun, "__call__", noted)
    return ran


@pytest.fixture
def driver_rows() -> Iterator[SparkSession]:
    session = shared_session()
    session.conf.set(DRIVER_ROWS, "1000")
    yield session
    session.conf.set(DRIVER_ROWS, "0")


def shop() -> hw.App:
    """Operators whose results are views, topics, steps of Spark's and inputs of others."""
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", "id string, user long, amount long, at timestamp", time="at", lateness="1 minute")
    users = app.table("users", "user long, name string", key="user")
    named = orders.join(users, on="user", how="left")
    counted = orders.by("user").agg("count(*) as n", "sum(amount) as spent")
    tens = orders.window(hw.tumbling("10 minutes")).by("user").agg("max(amount) as most", emit="final")
    app.view(key="user", name="counts")(lambda: counted)
    app.topic("counted")(lambda: counted)
    app.view(key="user", name="sounds")(lambda: counted.with_columns(code="soundex(cast(spent as string))"))
    app.view(key=["user", "window"], name="tens")(lambda: tens)
    app.view(key="name", name="by_name")(lambda: named.by("name").agg("sum(amount) as spent"))
    app.view(key="code", name="by_sound")(
        lambda: named.with_columns(code="soundex(name)").by("code").agg("count(*) as n")
    )
    return app


def results(app: hw.App, data: Path, session: SparkSession) -> dict[str, Any]:
    with running_node(data) as node:
        tester = AppTester(app, node, session)
        tester.feed("users", USERS, key="user")
        tester.feed("orders", ORDERS[:25])
        tester.run()
        tester.feed("orders", ORDERS[25:])
        tester.run()
        views = {name: tester.rows(name) for name in ("counts", "sounds", "tens", "by_name", "by_sound")}
        changes = [(one["op"], one["after"]) for one in tester.values("counted") if one is not None]
        return {**views, "counted": changes, "accounts": {name: tester.account(name) for name in (*views, "counted")}}


@pytest.fixture(scope="module")
def by_spark(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    session = shared_session()
    session.conf.set(DRIVER_ROWS, "0")
    return results(shop(), tmp_path_factory.mktemp("spark"), session)


def test_the_driver_gives_what_tasks_of_spark_give(
    tmp_path: Path, by_spark: dict[str, Any], driver_rows: SparkSession, ran_by_driver: list[int]
) -> None:
    assert results(shop(), tmp_path, driver_rows) == by_spark
    assert ran_by_driver


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators of each exchange whose rows were prepared by tasks and gathered."""
    ran: list[str] = []
    call = GatheredRun.__call__

    def noted(self: GatheredRun, *arguments: Any) -> Any:
        ran.append(" ".join(sorted({one.operator for several in self.read.inputs.values() for one in several})))
        return call(self, *arguments)

    monkeypatch.setattr(GatheredRun, "__call__", noted)
    return ran


def test_the_driver_operates_on_few_rows_that_tasks_of_spark_prepared(
    tmp_path: Path, by_spark: dict[str, Any], driver_rows: SparkSession, gathered: list[str], ran_by_driver: list[int]
) -> None:
    driver_rows.conf.set(DRIVER_ROWS, "1")
    assert results(shop(), tmp_path, driver_rows) == by_spark
    assert {*gathered} == {"counts tens", "users"}
    assert sum(blocks > 0 for blocks in ran_by_driver) > 1


def counting_app() -> hw.App:
    app = hw.App("small", shards=2)
    orders = app.stream("orders", "id string, user long, amount long, at timestamp", time="at")
    app.view(key="user", name="counts")(lambda: orders.by("user").count())
    return app


def test_a_batch_of_more_bytes_than_the_driver_may_read_is_left_to_spark(
    tmp_path: Path, driver_rows: SparkSession, ran_by_driver: list[int], gathered: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(level_blocks, "DRIVER_BYTES", 100)
    with running_node(tmp_path / "data") as node:
        tester = AppTester(counting_app(), node, driver_rows)
        tester.feed("orders", ORDERS)
        tester.run()
        assert tester.rows("counts") == [{"user": number, "count": 8} for number in range(5)]
        assert tester.account("counts").rows_in == len(ORDERS)
    assert gathered == ["counts"]
    assert ran_by_driver == [1], "one task has prepared rows"


def test_what_is_too_much_for_the_driver_is_shuffled_and_not_gathered_again(
    tmp_path: Path, driver_rows: SparkSession, ran_by_driver: list[int], gathered: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(level_blocks, "PREPARED_BYTES", 1)
    driver_rows.conf.set(DRIVER_ROWS, "1")
    with running_node(tmp_path / "data") as node:
        tester = AppTester(counting_app(), node, driver_rows)
        tester.feed("orders", ORDERS)
        tester.run(rows_per_batch=15)
        assert tester.rows("counts") == [{"user": number, "count": 8} for number in range(5)]
    assert gathered == ["counts"], "the first of three batches"
    assert ran_by_driver == []
