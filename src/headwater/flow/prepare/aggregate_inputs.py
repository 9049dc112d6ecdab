"""In what form headwater's own aggregates are given their columns."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

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

WHOLE = (ByteType, ShortType, IntegerType, LongType)
REAL = (FloatType, DoubleType)


class Typed(NamedTuple):
    column: Column
    type: DataType


Input = Callable[[list[Typed]], Column]


def types_of(columns: list[Column], frame: DataFrame) -> list[DataType]:
    """Asked of Spark at once."""
    if not columns:
        return []
    return [field.dataType for field in frame.select(*(one.alias("_one") for one in columns)).schema]


def plain_input(columns: list[Typed]) -> Column:
    return columns[0].column


def number_input(columns: list[Typed]) -> Column:
    column, kind = columns[0]
    if not isinstance(kind, (*WHOLE, *REAL)) and kind.typeName() != "decimal":
        raise InvalidDeclaration(f"a percentile of {kind.simpleString()} is no number", "Use a column of numbers.")
    number = column.cast("double")
    return f.when(~f.isnan(number), number)


def comparable_input(columns: list[Typed]) -> Column:
    """Whole numbers as the longest, text as it is, all else as Spark writes it."""
    column, kind = columns[0]
    if isinstance(kind, WHOLE):
        return column.cast("bigint")
    return column if isinstance(kind, StringType) else column.cast("string")


def distinct_input(columns: list[Typed]) -> Column:
    column, kind = columns[0]
    return column if isinstance(kind, BinaryType) else comparable_input(columns)


def frequent_input(columns: list[Typed]) -> Column:
    column, kind = columns[0]
    return column.cast("double") if isinstance(kind, REAL) else comparable_input(columns)


def hashed_input(columns: list[Typed]) -> Column:
    """Both hashes of a value: see operators/sketches/bloom.py."""
    value = comparable_input(columns)
    hashes = f.struct(f.xxhash64(value).alias("first"), f.xxhash64(value, value).alias("second"))
    return f.when(value.isNotNull(), hashes)


def row_input(columns: list[Typed]) -> Column:
    """All columns of a user's aggregate, in a row of their own."""
    return f.struct(*(one.column.alias(f"c{place}") for place, one in enumerate(columns)))


INPUTS: Mapping[str, Input] = {
    "bloom": hashed_input,
    "count_min": comparable_input,
    "distinct": distinct_input,
    "percentile": number_input,
    "top_k": frequent_input,
    "user": row_input,
}
