"""What is read of the aggregates that somebody wrote: types, and the columns that a batch is reduced over."""

import math
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import headwater as hw
from headwater.flow.declare.topology import nodes
from headwater.flow.prepare.aggregates import Aggregates, read_aggregates

ROWS = [("a", 0.0, 1, True), ("a", -0.0, 2, False)]
PLACE = "'time', timestamp '2026-01-01', 'source', 'rows', 'partition', 0, 'offset', 0"


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    rows = spark.createDataFrame(ROWS, "k string, x double, n int, sure boolean")
    return rows.selectExpr("*", f"named_struct({PLACE}) as _at")


def read(frame: DataFrame, *aggregates: Any) -> Aggregates:
    stream = hw.App("read").stream("rows", "k string, x double, n int, sure boolean")
    node = stream.by("k").agg(*aggregates).node
    assert isinstance(node, nodes.Aggregate)
    return read_aggregates(node, frame)


def test_types_are_those_of_the_arguments_and_of_what_orders_them(frame: DataFrame) -> None:
    found = read(
        frame, "sum(n) as total", "count(*) as rows", "count(x, n) as both", "count_if(sure) as sure",
        "min_by(k, x) as first", "sum(x) filter (where n > 1) as some", hw.distinct("n").alias("different"),
    )  # fmt: skip
    assert {one.name: (one.type, one.time_type) for one in found.specs} == {
        "total": (pa.int32(), None),
        "rows": (None, None),
        "both": (pa.int32(), None),
        "sure": (pa.int32(), None),
        "first": (pa.string(), pa.float64()),
        "some": (pa.float64(), None),
        "different": (pa.int64(), None),
    }


def test_both_zeros_are_one_value(frame: DataFrame) -> None:
    found = read(frame, "count(distinct x) as different", "sum(x) as total")
    different, total = (spec.column for spec in found.specs)
    signs = [[math.copysign(1, row[name]) for row in found.inputs.collect()] for name in (different, total)]
    assert signs == [[1, 1], [1, -1]]


def test_spark_is_asked_for_all_types_at_once(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*aggregates: Any) -> int:
        with monkeypatch.context() as patched:
            select = Mock(side_effect=frame.select)
            patched.setattr(frame, "select", select)
            read(frame, *aggregates)
        return select.call_count

    few = asked("sum(n) as a", hw.distinct("n").alias("b"))
    many = [f"{name}(n) as {name}" for name in ("sum", "avg", "min", "max", "count", "last", "stddev", "bit_and")]
    assert asked(*many, *(hw.distinct(name).alias(f"of_{name}") for name in ("k", "x", "n"))) == few
