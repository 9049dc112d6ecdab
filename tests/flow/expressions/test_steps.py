"""Steps on Arrow give the rows that Spark's plan gives, and count what leaves."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.flow.expressions.spark.steps import steps_of
from headwater.flow.expressions.steps import Stepped
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.state.runs.equality import equal
from tests.flow.expressions.values import SCHEMA, rows

Change = Callable[[DataFrame], DataFrame]
ROWS = 200

PIPELINES: dict[str, Change] = {
    "select": lambda frame: frame.select("i", "n", (f.col("l") % 7).alias("rest")),
    "where": lambda frame: frame.where("i > 0 or n = 'a'"),
    "where, where, select": lambda frame: frame.where("i > 0").where("length(n) > 1").select("n"),
    "columns of the same name": lambda frame: frame.withColumn("i", f.col("i2")).withColumn("i2", f.col("i")),
    "explode": lambda frame: frame.select("i", f.explode("ai").alias("one")),
    "explode outer": lambda frame: frame.select("i", f.explode_outer("a").alias("one")).where("one is null or i > 0"),
    "explode of an expression": lambda frame: frame.select("n", f.explode(f.split("n", ",")).alias("part")),
    "windows": lambda frame: frame.select("i", f.window("at", "5 minutes", startTime="90 seconds").alias("window")),
    "inputs of aggregates": lambda frame: frame.select(
        "n",
        f.expr("cast(i as double)").alias("_in0"),
        f.expr("if(isnan(d), null, d)").alias("_in1"),
        f.expr("case when b then struct(i, n) end").alias("_in2"),
        f.expr("xxhash64(n, i) % 8").alias("_in3"),
        f.col("st").alias("_at"),
        f.col("b2").alias("_deleted"),
        f.col("mp").alias("_headers"),
    ),
    "sql": lambda frame: _sql(
        frame, "select upper(n) as loud, count from (select n, size(a) as count from given where b)"
    ),
}


def _sql(frame: DataFrame, text: str) -> DataFrame:
    frame.createOrReplaceTempView("given")
    return frame.sparkSession.sql(text)


def applied(empty: DataFrame, change: Change, batch: pa.RecordBatch) -> Stepped:
    steps = steps_of(change(empty), empty)
    return steps.apply(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)


@pytest.mark.parametrize("name", PIPELINES)
def test_rows_are_those_of_spark(spark: SparkSession, name: str) -> None:
    empty = spark.createDataFrame([], SCHEMA)
    schema = arrow_schema(empty.schema)
    batch = rows(ROWS, 11, schema)

    found = applied(empty, PIPELINES[name], batch)

    given = spark.createDataFrame(pa.Table.from_batches([batch]), spark_schema(schema)).coalesce(1)
    expected = PIPELINES[name](given).toArrow()
    ours = pa.Table.from_arrays(list(found.columns.values()), schema=expected.schema)
    assert ours.num_rows == expected.num_rows
    pairs = zip(ours.columns, expected.columns, strict=True)
    assert all(equal(one.combine_chunks(), other.combine_chunks()).all() for one, other in pairs)
    assert found.rows == expected.num_rows == ROWS + found.expanded - found.filtered


def test_hidden_columns_pass_as_they_are(spark: SparkSession) -> None:
    place = "struct<_partition: int, _offset: long, _timestamp: timestamp>"
    empty = spark.createDataFrame(
        [], f"id int, amount decimal(12,2), _at {place} not null, _deleted boolean, _hash long"
    )
    columns = {field.name: pa.array([None] * 3, field.type) for field in arrow_schema(empty.schema)}
    columns["_at"] = pa.array([{"_partition": 0, "_offset": 7}] * 3, columns["_at"].type)
    batch = pa.record_batch(columns)

    found = applied(
        empty,
        lambda frame: frame.select("id", f.expr("coalesce(amount, 0) as _in0"), "_at", "_deleted", "_hash"),
        batch,
    )

    assert list(found.columns) == ["id", "_in0", "_at", "_deleted", "_hash"]
    assert all(found.columns[name].equals(columns[name]) for name in ("_at", "_deleted", "_hash"))


def test_a_row_whose_expression_fails_leaves_with_its_reason(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "id int, text string")
    batch = pa.record_batch({"id": pa.array([1, 2, 3, 4], pa.int32()), "text": ["7", "seven", "-1", None]})

    found = applied(
        empty, lambda frame: frame.where("id > 1").select("id", f.expr("cast(text as int) as number")), batch
    )

    assert found.columns["id"].to_pylist() == [3, 4]
    assert found.columns["number"].to_pylist() == [-1, None]
    assert [(one.rows.to_pylist(), one.reasons.to_pylist()) for one in found.failed] == [([1], ["'seven' is no int32"])]
    assert found.filtered == 1


def test_a_column_that_no_later_step_needs_is_not_evaluated(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "id int, text string")
    batch = pa.record_batch({"id": pa.array([1], pa.int32()), "text": ["seven"]})

    found = applied(empty, lambda frame: frame.withColumn("number", f.expr("cast(text as int)")).select("id"), batch)

    assert found.columns["id"].to_pylist() == [1]
    assert found.failed == []


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.select("i").distinct(),
        lambda frame: frame.where("rand() > 0.5"),
        lambda frame: frame.union(frame),
    ],
)
def test_other_plans_are_left_to_spark(spark: SparkSession, change: Change) -> None:
    empty = spark.createDataFrame([], SCHEMA)
    with pytest.raises(Untranslatable):
        steps_of(change(empty), empty)
