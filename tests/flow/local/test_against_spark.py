"""An app gives the same views, topics and accounts without Spark as with it."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import headwater as hw
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_app, running_node
from tests.flow.local.apps import (
    EACH,
    OUTPUTS,
    join_app,
    random_app,
    random_clicks,
    random_orders,
    random_rates,
    random_users,
)

SEEDS = range(-(-len(OUTPUTS) // EACH))
"""So many that every operator is in one of the apps."""
PORTIONS = (40, 25)
JOINS = ("near", "clicked", "priced", "aged", "pairs")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_app_gives_the_same_without_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    with running_app(random_app(seed), tmp_path / "local") as local:
        assert local.needs_spark == {}
        without = results(local, seed)
    with running_node(tmp_path / "spark") as node:
        with_spark = results(AppTester(random_app(seed), node, spark), seed)
    for name, found in without.items():
        assert found == with_spark[name], name


@pytest.mark.parametrize("seed", [0, 1])
def test_an_app_of_joins_gives_the_same_without_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    with running_app(join_app(seed), tmp_path / "local") as local:
        without = results(local, seed)
        assert local.needs_spark == {}
    with running_node(tmp_path / "spark") as node:
        with_spark = results(AppTester(join_app(seed), node, spark), seed)
    assert all(without[name] for name in JOINS)
    for name, found in without.items():
        assert found == with_spark[name], name


def results(tester: AppTester, seed: int) -> dict[str, Any]:
    dice, joins = random.Random(seed), tester.app.name == "joins"
    for count in PORTIONS:
        tester.feed("orders", random_orders(dice, count), at="2026-03-01T00:00:00Z")
        rows, deleted = random_users(dice)
        tester.feed_rows("users", rows, deleted=deleted)
        if joins:
            tester.feed("clicks", random_clicks(dice, count), at="2026-03-01T00:00:00Z")
            tester.feed_rows("rates", random_rates(dice))
        tester.run()
    tester.flush()
    views, topics = (JOINS, ()) if joins else (("out0", "out1", "out2"), ("seen", "totals"))
    found: dict[str, Any] = {name: sorted(map(repr, tester.rows(name))) for name in views}
    found |= {topic: sorted(map(repr, values(tester, topic))) for topic in topics}
    found |= {f"account of {name}": str(tester.account(name)) for name in tester.app.outputs}
    late = [topic.name for topic in tester.node.log.topics() if topic.name.endswith(".late")]
    found |= {topic: sorted(map(repr, tester.values(topic))) for topic in late}
    return found


def values(tester: AppTester, topic: str) -> list[Any]:
    """But for when they were written."""
    return [{name: value for name, value in one.items() if name != "ts_ms"} for one in tester.values(topic) if one]


def test_spark_takes_a_job_over_that_ran_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """Late rows are replayed with Spark, also of an app whose columns were made without it."""
    app = hw.App("clocks")
    ticks = app.stream("ticks", "n int, at timestamp", time="at")

    @app.view(key="window")
    def hours() -> Any:
        return ticks.where(f.col("n") > 0).window(hw.tumbling("1 hour")).agg(f.count("*").alias("n"), emit="final")

    with running_app(app, tmp_path / "data") as tester:
        for hour in (1, 3, 5, 1):
            tester.feed("ticks", [{"n": 1, "at": f"2026-03-01T{hour:02}:00:00Z"}])
            tester.run()
        assert [row["n"] for row in tester.rows("hours")] == [1, 1]
        assert tester.replay_late()["ticks"].rows == {"hours": 1}
        assert [row["n"] for row in tester.rows("hours")] == [2, 1]
        assert tester.needs_spark == {"hours": "late rows were replayed"}
        tester.flush()
        assert [row["n"] for row in tester.rows("hours")] == [2, 1, 1]
