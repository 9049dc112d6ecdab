"""One Spark session for all tests of jobs in a process: starting one takes seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.flow.declare.app import App
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_node
from tests.flow.spark_session import shared_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture
def tester(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[App], AppTester]]:
    """Apps on one node: the second is what the first becomes when its code is changed."""
    with running_node(tmp_path / "data") as node:
        yield lambda app: AppTester(app, node, spark)
