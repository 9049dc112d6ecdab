"""The data directory that is damaged, made once."""

import pytest
from pyspark.sql import SparkSession

from tests.crash.damage.building import Images, build
from tests.crash.flow.conftest import spark as spark


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Images:
    return build(tmp_path_factory.mktemp("damage"), spark)
