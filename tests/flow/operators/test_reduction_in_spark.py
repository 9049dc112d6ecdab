"""Rows reduced here are what Spark makes of the SQL of every partial, of every kind and type."""

import datetime
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema
from headwater.flow.operators.aggregation.kinds.approx_distinct import Hll
from headwater.flow.operators.aggregation.kinds.kind import Options
from headwater.flow.operators.aggregation.kinds.moments import MOMENTS
from headwater.flow.operators.aggregation.kinds.pairs import PAIRS
from headwater.flow.operators.aggregation.kinds.percentiles import Kll
from headwater.flow.operators.aggregation.merging import absorbed
from headwater.flow.operators.aggregation.reduction import reduce_rows
from headwater.flow.state.shard import conformed
from tests.flow.operators import every_kind
from tests.flow.operators.partial_sql import sql_of
from tests.flow.operators.subjects import TIME
from tests.flow.operators.test_reduction import PAIR, same, specs_of
from tests.flow.spark_session import spark_session

ZERO = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NAN, INF = float("nan"), float("inf")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [1, None, -128, 127, 1, 3]),
    "int": (pa.int32(), [1, 2**31 - 1, None, -(2**31), 1, 2**31 - 1]),
    "long": (pa.int64(), [1, None, 2**61, -(2**61), 1, 7]),
    "float": (pa.float32(), [0.5, NAN, None, -0.0, 0.0, INF]),
    "double": (pa.float64(), [0.5, NAN, None, -0.0, 0.0, -INF]),
    "money": (pa.decimal128(5, 2), [Decimal("1.10"), None, Decimal("-999.99"), Decimal("999.99"), Decimal(0), None]),
    "wide": (pa.decimal128(38, 10), [Decimal("1.1"), None, Decimal(9 * 10**26), Decimal(-3), Decimal("1.1"), None]),
    "text": (pa.string(), ["b", "", "ä", None, "a", "\U0001f600"]),
    "bytes": (pa.binary(), [b"\xff\xfe", b"", b"\x00", None, b"a", b"abcdefghijklmnopqrstuvwxyz"]),
    "flag": (pa.bool_(), [True, None, False, True, None, None]),
    "day": (pa.date32(), [ZERO.date(), None, None, None, datetime.date(1901, 1, 1), None]),
    "when": (TIME, [ZERO, None, ZERO, ZERO + datetime.timedelta(1), None, ZERO]),
    "pair": (PAIR, [{"a": 1, "b": "x", "c": NAN}, None, {"a": None, "b": "y", "c": None}] * 2),
    "list": (pa.list_(pa.string()), [["a"], None, [], ["b", None], ["c"], None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], None, [], [("k", 2)], [("l", 1)], None]),
}
ROWS = 36


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session() as session:
        yield session


def rows_of(type_: pa.DataType, values: list[Any]) -> pa.Table:
    """Groups of several rows, of nothing but nulls (3), and of one row (4); some of one time, and some at one place."""
    places = range(ROWS)
    groups = [4 if place == 0 else place % 4 for place in places]
    given = [None if groups[place] == 3 else values[place * 7 % len(values)] for place in places]
    minutes = [None if place % 5 == 4 else place * 11 % 3 for place in places]
    return pa.table({
        "key": pa.array(groups, pa.int64()), "x": pa.array(given, type_),
        "y": pa.array([None if place % 7 == 2 else place * 5 % 13 / 2 for place in places], pa.float64()),
        "at": pa.array([None if one is None else ZERO + datetime.timedelta(minutes=one) for one in minutes], TIME),
        "_topic": pa.array(["tä"[place % 2] for place in places]),
        "_partition": pa.array([place % 3 for place in places], pa.int32()),
        "_offset": pa.array([place // 2 for place in places], pa.int64()),
    })  # fmt: skip


def check(spark: Any, specs: tuple[Aggregate, ...], table: pa.Table) -> None:
    from pyspark.sql import functions as f

    sql = [f.expr(one).alias(name) for each in specs for name, one in sql_of(each).items()]
    theirs = spark.createDataFrame(table).groupBy("key").agg(*sql).orderBy("key").drop("key").toArrow()
    (given,) = theirs.combine_chunks().to_batches()
    (rows,) = table.sort_by("key").combine_chunks().to_batches()
    keys = rows.column("key").to_numpy()
    mine = reduce_rows(specs, rows, np.append(True, keys[1:] != keys[:-1]))
    for each in specs:
        one, other = (batch_of(each, batch) for batch in (mine, given))
        for group, (here, there) in enumerate(zip(one, other, strict=True)):
            assert same(here, there), (each.kind, str(each.type), group)


def batch_of(spec: Aggregate, given: pa.RecordBatch) -> list[list[Any]]:
    """The columns of an aggregate, row by row; where Spark has no order, or its bytes are not the same, as kept."""
    own = conformed(given, given_schema((spec,)))
    if spec.kind in ("distinct", "top_k", "count_min", "bloom"):
        own = absorbed((spec,), own)
    return [list(row.values()) for row in own.to_pylist()]


def of(kind: str, type_: pa.DataType, options: Options | None = None) -> Aggregate:
    return Aggregate(kind, f"{kind} of x", "x", type_, other="y", options=options)


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_are_reduced_as_spark_does(spark: Any, name: str) -> None:
    type_, values = VALUES[name]
    # Spark does not order maps, so that it cannot collect them in order.
    specs = [one for one in specs_of(type_) if name != "map" or one.kind != "collect"]
    if name in ("byte", "int", "long", "float", "double", "money", "wide"):
        specs += [of(kind, type_) for kind in ("sum", "avg", "sum_distinct", "avg_distinct")]
    if name == "bytes":
        specs.append(of("distinct", type_, Hll()))
    check(spark, tuple(specs), rows_of(type_, values))


@pytest.mark.parametrize("type_", [pa.float64(), pa.int64(), pa.decimal128(12, 2)], ids=str)
def test_statistics_are_reduced_as_spark_does(spark: Any, type_: pa.DataType) -> None:
    kinds = [*MOMENTS, *PAIRS, "product"]
    specs = [of(kind, type_) for kind in kinds]
    if type_ == pa.float64():
        specs.append(of("percentile", type_, Kll((0.5,))))
    values = pa.array([3, None, -4, 9, 9, 12], pa.int32()).cast(type_).to_pylist()
    check(spark, tuple(specs), rows_of(type_, values))


def test_hashes_and_rows_of_users_are_reduced_as_spark_does(spark: Any) -> None:
    seen, width = (next(one for one in every_kind.SPECS if one.kind == kind) for kind in ("bloom", "user"))
    hashes = [{"first": 1, "second": -1}, None, {"first": 2**63 - 1, "second": 5}]
    check(spark, (seen,), rows_of(seen.input_type, hashes))
    check(spark, (width,), rows_of(width.input_type, [{"c0": 1}, {"c0": None}, {"c0": 2}]))


@pytest.mark.parametrize("count", [8, 300, 385, 5000])
@pytest.mark.parametrize("text", [False, True])
def test_sketches_of_any_size_are_those_of_spark(spark: Any, count: int, text: bool) -> None:
    type_ = pa.string() if text else pa.int64()
    values = [f"name of ä {number}" if text else number * 7919 for number in range(count)]
    table = pa.table({"key": pa.array([0] * count, pa.int64()), "x": pa.array(values, type_)})
    check(spark, (of("distinct", type_, Hll()), replace(of("distinct", type_, Hll(8)), name="rough")), table)
