"""Spark's types as Arrow's, as they are everywhere in flows: times are UTC, in microseconds."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

TIMEZONE = "UTC"


def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone=TIMEZONE)


def arrow_type(kind: DataType) -> pa.DataType:
    return arrow_schema(StructType([StructField("only", kind)])).field(0).type


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


def spark_type(kind: pa.DataType) -> DataType:
    return spark_schema(pa.schema([pa.field("only", kind)]))[0].dataType
