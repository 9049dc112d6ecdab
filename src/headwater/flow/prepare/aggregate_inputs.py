"""In what forms headwater's own aggregates are given their columns: `form` of each kind says in which."""

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


def types_of(columns: list[Column], frame: DataFrame) -> list[DataType]:
    """Asked of Spark at once."""
    if not columns:
        return []
    return [field.dataType for field in frame.select(*(one.alias("_one") for one in columns)).schema]


def as_number(given: Typed) -> Column:
    """A double; NaN is no number."""
    if not isinstance(given.type, (*WHOLE, *REAL)) and given.type.typeName() != "decimal":
        raise InvalidDeclaration(
            f"a percentile of {given.type.simpleString()} is no number", "Use a column of numbers."
        )
    number = given.column.cast("double")
    return f.when(~f.isnan(number), number)


def comparable(given: Typed) -> Column:
    """Whole numbers as the longest, text as it is, all else as Spark writes it."""
    if isinstance(given.type, WHOLE):
        return given.column.cast("bigint")
    return given.column if isinstance(given.type, StringType) else given.column.cast("string")


def comparable_or_binary(given: Typed) -> Column:
    return given.column if isinstance(given.type, BinaryType) else comparable(given)


def comparable_or_double(given: Typed) -> Column:
    return given.column.cast("double") if isinstance(given.type, REAL) else comparable(given)


def hashes(given: Typed) -> Column:
    """Both hashes of a value: see operators/sketches/bloom.py."""
    value = comparable(given)
    both = f.struct(f.xxhash64(value).alias("first"), f.xxhash64(value, value).alias("second"))
    return f.when(value.isNotNull(), both)


FORMS: Mapping[str, Callable[[Typed], Column]] = {
    "plain": lambda given: given.column,
    "number": as_number,
    "comparable": comparable,
    "comparable_or_binary": comparable_or_binary,
    "comparable_or_double": comparable_or_double,
    "hashes": hashes,
}


def in_form(form: str, columns: list[Typed]) -> Column:
    """The columns of an aggregate as one; "row" has all of them."""
    if form == "row":
        return f.struct(*(one.column.alias(f"c{number}") for number, one in enumerate(columns)))
    return FORMS[form](columns[0])
