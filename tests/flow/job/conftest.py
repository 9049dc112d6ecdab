"""What runs the jobs of these tests (tests/flow/engines.py).

A test whose job cannot run in this process fails if it is not marked on_spark, so that none moves to Spark, or away
from it, without anybody seeing it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.engines import Engine, engine_for, moved_to_spark
from tests.flow.spark_session import shared_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One for all tests in a process: starting one takes seconds."""
    return shared_session()


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """What an AppTester is given."""
    return engine_for(request)


@pytest.fixture
def tester(engine: Engine, tmp_path: Path) -> Iterator[Callable[[App], AppTester]]:
    """Apps on one node: the second is what the first becomes when its code is changed."""
    made: list[AppTester] = []
    with running_node(tmp_path / "data") as node:

        def make(app: App) -> AppTester:
            made.append(AppTester(app, node, engine))
            return made[-1]

        yield make
    assert [why for one in made for why in moved_to_spark(one)] == [], "such a test is marked on_spark"
