"""Rows as JSON are what Spark's to_json writes."""

import json

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from headwater.flow.expressions.evaluation import evaluate_column
from headwater.flow.expressions.tree import Expression, column
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from tests.flow.expressions.values import SCHEMA, rows

ROWS = 200
REAL = {"f", "d", "d2", "ad"}
"""Columns of floating-point numbers, which versions of Java write with more or fewer digits."""


def test_every_type_is_written_as_spark_writes_it(spark: SparkSession) -> None:
    batch = rows(ROWS, 3, arrow_schema(spark.createDataFrame([], SCHEMA).schema))
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), spark_schema(batch.schema))
    whole = f.struct(*(f.col(name) for name in batch.schema.names))
    expected = frame.select(f.to_json(whole, {"ignoreNullFields": "false"})).toArrow()[0].to_pylist()
    given = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    node = Expression("to_json", pa.string(), (column("row", given.type),))
    found = evaluate_column(node, {"row": given}, ROWS).values.to_pylist()
    for ours, theirs in zip(found, expected, strict=True):
        one, other = (json.loads(text, parse_float=str) for text in (ours, theirs))
        for name in batch.schema.names:
            if name in REAL:
                assert as_numbers(one[name]) == as_numbers(other[name]), name
            else:
                assert json.dumps(one[name]) == json.dumps(other[name]), name
        if not REAL & {name for name, value in one.items() if value is not None}:
            assert ours == theirs


def as_numbers(value: object) -> object:
    """The same numbers, however many digits they are written with; NaN is a text."""
    if isinstance(value, list):
        return [as_numbers(one) for one in value]
    return float(value) if isinstance(value, str | int) and value not in ("NaN", "Infinity", "-Infinity") else value
