"""One Spark session for all tests of jobs in a process: starting one takes seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.flow.declare.app import App
from headwater.flow.job.testing import AppTester
from headwater.flow.session import start_session, stop_session
from headwater.testing import running_node


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session("headwater tests", tmp_path_factory.mktemp("spark"), master="local[2]")
    yield session
    stop_session(session)


@pytest.fixture
def tester(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[App], AppTester]]:
    """Apps on one node: the second is what the first becomes when its code is changed."""
    with running_node(tmp_path / "data") as node:
        yield lambda app: AppTester(app, node, spark)
