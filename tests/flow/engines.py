"""What runs the jobs of tests: this process, or Spark.

Operators are the same code in both, so that a test of results or of commits runs where it is quickest. Tests marked
`on_spark` run on Spark: some of every kind of operator, and all that are about Spark itself. `make torture` runs all of
them there. Proofs are Spark's in either case.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
from pyspark.sql import SparkSession

from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.run.app_tester import AppTester
from tests.flow.spark_session import shared_session

Engine = SparkSession | Callable[[], SparkSession]
"""Spark, or a function that starts it for what only Spark can do: what an AppTester is given."""
Columns = Callable[[], AbstractContextManager[None]]
"""In what columns of an app are made."""
ALL_ON_SPARK = "HEADWATER_TESTS_ON_SPARK"


def engine(*, on_spark: bool = False) -> Engine:
    return shared_session() if on_spark or os.environ.get(ALL_ON_SPARK) else shared_session


def engine_for(request: pytest.FixtureRequest) -> Engine:
    """By the marks of a test."""
    return engine(on_spark=request.node.get_closest_marker("on_spark") is not None)


def session_of(engine: Engine) -> tuple[SparkSession, Columns]:
    """What stands for a session where a test runs jobs without an AppTester."""
    return (LocalSession.as_spark(), local_columns) if callable(engine) else (engine, nullcontext)


def moved_to_spark(tester: AppTester) -> list[str]:
    """Why jobs of a tester were run on Spark that it was not given; but for replays of late rows, which are Spark's."""
    said = [*(line for line in tester.reported if " needs Spark: " in line), *tester._fallen.values()]
    return [line for line in said if not line.endswith("late rows were replayed")]
