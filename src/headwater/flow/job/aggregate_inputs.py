"""In what form headwater's own aggregates are given their columns."""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from headwater.errors import InvalidDeclaration

Input = Callable[[list[Column], DataFrame], Column]

WHOLE = (ByteType, ShortType, IntegerType, LongType)
REAL = (FloatType, DoubleType)


def type_of(column: Column, frame: DataFrame) -> DataType:
    return frame.select(column.alias("_one")).schema[0].dataType


def plain_input(columns: list[Column], frame: DataFrame) -> Column:
    return columns[0]


def number_input(columns: list[Column], frame: DataFrame) -> Column:
    kind = type_of(columns[0], frame)
    if not isinstance(kind, (*WHOLE, *REAL)) and kind.typeName() != "decimal":
        raise InvalidDeclaration(f"a percentile of {kind.simpleString()} is no number", "Use a column of numbers.")
    number = columns[0].cast("double")
    return f.when(~f.isnan(number), number)


def comparable_input(columns: list[Column], frame: DataFrame) -> Column:
    """Whole numbers as the longest, text as it is, all else as Spark writes it."""
    kind = type_of(columns[0], frame)
    if isinstance(kind, WHOLE):
        return columns[0].cast("bigint")
    return columns[0] if isinstance(kind, StringType) else columns[0].cast("string")


def distinct_input(columns: list[Column], frame: DataFrame) -> Column:
    kind = type_of(columns[0], frame)
    return columns[0] if isinstance(kind, BinaryType) else comparable_input(columns, frame)


def frequent_input(columns: list[Column], frame: DataFrame) -> Column:
    kind = type_of(columns[0], frame)
    return columns[0].cast("double") if isinstance(kind, REAL) else comparable_input(columns, frame)


def hashed_input(columns: list[Column], frame: DataFrame) -> Column:
    """Both hashes of a value: see operators/sketches/bloom.py."""
    value = comparable_input(columns, frame)
    hashes = f.struct(f.xxhash64(value).alias("first"), f.xxhash64(value, value).alias("second"))
    return f.when(value.isNotNull(), hashes)


def row_input(columns: list[Column], frame: DataFrame) -> Column:
    """All columns of a user's aggregate, in a row of their own."""
    return f.struct(*(column.alias(f"c{place}") for place, column in enumerate(columns)))


INPUTS: Mapping[str, Input] = {
    "bloom": hashed_input,
    "count_min": comparable_input,
    "distinct": distinct_input,
    "percentile": number_input,
    "top_k": frequent_input,
    "user": row_input,
}
