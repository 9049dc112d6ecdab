"""Spark in this process, for what can be shown without killing one."""

from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headwater.flow.session import start_session, stop_session
from tests.crash.flow.driver import SHORT_LIVED


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A process has one session: if other tests have started theirs, that one."""
    there = SparkContext._active_spark_context
    if there is not None:
        yield SparkSession(there)
        return
    session = start_session("crash tests", tmp_path_factory.mktemp("spark"), master="local[2]", settings=SHORT_LIVED)
    yield session
    stop_session(session)
