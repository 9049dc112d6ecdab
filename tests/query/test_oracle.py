"""What DuckDB answers, compared with Spark's answer to the same statement over the same rows."""

import datetime
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headwater.query.query import Engine
from tests.flow.spark_session import shared_session
from tests.query.selects import SELECTS
from tests.query.shops import REVENUE, ROWS, USERS, engine_on, shop, values


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    data = tmp_path_factory.mktemp("data")
    shop(data).close()
    with engine_on(data) as engine:
        yield engine


@pytest.fixture(scope="module")
def spark() -> Any:
    session = shared_session()
    users = pa.table({"id": [1, 2], "country": ["DE", "FR"]}, schema=USERS)
    session.createDataFrame(pa.Table.from_pylist(ROWS, schema=REVENUE)).createOrReplaceTempView("revenue")
    session.createDataFrame(users).createOrReplaceTempView("users")
    return session


def comparable(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9)
    return value


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_answers_the_same(engine: Engine, spark: Any) -> None:
    different = []
    for sql in SELECTS:
        ours = [tuple(map(comparable, row)) for row in values(engine, sql)]
        theirs = [tuple(map(comparable, row)) for row in spark.sql(sql.replace("shop.revenue", "revenue")).collect()]
        ours, theirs = (rows if "ORDER BY" in sql else sorted(rows, key=str) for rows in (ours, theirs))
        different += [(sql, ours, theirs)] if ours != theirs else []
    assert different == []
