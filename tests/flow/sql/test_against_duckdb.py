"""Views of SQL, kept while rows change and are deleted: after each batch what DuckDB answers to the same query."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import Engine
from tests.flow.spark_session import shared_session
from tests.flow.sql.queries import GROUPS, IN_TIME, JOINS, QUERIES_WITHIN, RANKS, SETS, SPARKS, Asked
from tests.flow.sql.shops import Database, feed, rows_of, shop_app, steps

AREAS = {"groups": GROUPS, "joins": JOINS, "within": QUERIES_WITHIN, "sets": SETS, "ranks": RANKS}
Different = list[tuple[int, str, Any, Any]]


def refuse() -> SparkSession:
    raise AssertionError("Spark was started")


def different(
    folder: Path, asked: Sequence[Asked], seed: int, *, flush: bool = False, rounds: int = 3, engine: Engine = refuse,
    prove: bool = False,
) -> Different:  # fmt: skip
    """Where a view is not what DuckDB answers, after each round; or with `flush` after the last alone. With `prove`
    also where it is not what `verify` computes."""
    app, database, found = shop_app(), Database(), Different()
    for number, one in enumerate(asked):
        app.sql(f"CREATE MATERIALIZED VIEW v{number} {one.key} AS {one.ours}")
    with running_node(folder) as node:
        tester = AppTester(app, node, engine)
        for part, step in enumerate(steps(seed, rounds=rounds)):
            feed(tester, step)
            database.apply(step)
            if flush and part < rounds - 1:
                tester.run()
                continue
            tester.flush() if flush else tester.run()
            for number, one in enumerate(asked):
                ours, theirs = rows_of(tester.rows(f"v{number}")), database.answer(one.batch)
                found += [(part, one.ours, ours, theirs)] if ours != theirs else []
                if prove and part == rounds - 1 and (proved := tester.prove(f"v{number}")).different:
                    found.append((part, one.ours, "verify", proved))
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("area", AREAS)
def test_a_view_of_a_query_is_what_duckdb_answers_after_every_batch(tmp_path: Path, area: str) -> None:
    assert different(tmp_path, AREAS[area], seed=1) == []


@pytest.mark.timeout(600)
def test_windows_and_joins_in_time_are_what_duckdb_answers_once_they_are_over(tmp_path: Path) -> None:
    assert different(tmp_path, IN_TIME, seed=2, flush=True) == []


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10, 20))
def test_they_are_so_for_many_shops(tmp_path: Path, seed: int) -> None:
    every = [one for area in AREAS.values() for one in area]
    assert different(tmp_path, every, seed, rounds=6) == []


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("area", [*AREAS, "spark", "time"])
def test_they_are_so_on_spark_and_proved(tmp_path: Path, area: str) -> None:
    asked = {**AREAS, "spark": SPARKS, "time": IN_TIME}[area]
    flush = area == "time"
    found = different(tmp_path, asked, 3, flush=flush, rounds=2, engine=shared_session(), prove=True)
    assert found == []
