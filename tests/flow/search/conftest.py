"""The Spark session that all tests of this process share."""

import pytest
from pyspark.sql import SparkSession

from tests.flow.spark_session import shared_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return shared_session()
