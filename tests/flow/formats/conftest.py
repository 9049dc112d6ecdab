"""Spark, for the tests that compare with it."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.flow.spark_session import spark_session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with spark_session() as session:
        yield session
