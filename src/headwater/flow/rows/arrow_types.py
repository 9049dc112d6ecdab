"""Spark's types as Arrow's, as they are everywhere in flows: times are UTC, in microseconds."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

TIMEZONE = "UTC"


def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone=TIMEZONE)


def arrow_type(kind: DataType) -> pa.DataType:
    return arrow_schema(StructType([StructField("only", kind)])).field(0).type


def nullable(kind: pa.DataType) -> pa.DataType:
    """The type with nulls allowed everywhere in it: of columns that are computed in several places, Spark knows of some
    that they have none.

    >>> nullable(pa.struct([pa.field("a", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)]))
    StructType(struct<a: list<element: int64>>)
    """
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, nullable(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, nullable(kind.value_type)))
    return kind


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


def spark_type(kind: pa.DataType) -> DataType:
    return spark_schema(pa.schema([pa.field("only", kind)]))[0].dataType
