"""The fields that stored queries ask of: texts, exact strings, typed columns and points (pure).

Typed values are compared as whole numbers: microseconds, days, decimals without their point, and floats by their bits,
which have the order of the numbers.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.formats.schema import nearest
from headwater.flow.operators.search.analysis import Analyzer, analyzer
from headwater.flow.operators.search.tree import QueryMistake
from headwater.flow.state.runs.equality import Integers, Mask, valid

LEAST, MOST = -(2**63) + 1, 2**63 - 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SIGN_BIT = 63
DIGITS_MAX = 18
"""Of a decimal, so that it fits."""


class Point(NamedTuple):
    """A name for a pair of columns of degrees."""

    name: str
    latitude: str
    longitude: str


@dataclass(frozen=True)
class Fields:
    """`text` are the analyzed columns, with the names of their analyzers; `columns` all that documents have."""

    text: tuple[tuple[str, str], ...]
    columns: pa.Schema
    points: tuple[Point, ...] = ()

    @property
    def texts(self) -> list[str]:
        return [name for name, _ in self.text]

    @property
    def exact(self) -> list[str]:
        """Columns of strings that are compared as they are."""
        return [one.name for one in self.columns if _is_string(one.type) and one.name not in self.texts]

    @property
    def worded(self) -> list[str]:
        """Fields that have words; a field's number is its place here."""
        return [*self.texts, *self.exact]

    @property
    def typed(self) -> list[str]:
        """Columns that have an order of numbers or of time."""
        return [one.name for one in self.columns if _is_typed(one.type)]

    @property
    def needed(self) -> list[str]:
        """All columns that matching looks at."""
        degrees = [name for one in self.points for name in (one.latitude, one.longitude)]
        return list(dict.fromkeys([*self.worded, *self.typed, *degrees]))

    def analyzer_of(self, name: str) -> Analyzer | None:
        """None for exact strings."""
        return next((analyzer(said) for one, said in self.text if one == name), None)

    def check(self, name: str) -> None:
        """QueryMistake if a query names a field that there is not."""
        known = [*self.worded, *self.typed, *(one.name for one in self.points)]
        if name not in known:
            raise QueryMistake(f"there is no field {name}. {nearest(name, known)}")


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_typed(kind: pa.DataType) -> bool:
    some = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_date32, pa.types.is_boolean)
    return any(one(kind) for one in some) or (pa.types.is_decimal(kind) and kind.precision <= DIGITS_MAX)


def as_numbers(column: pa.Array) -> tuple[Integers, Mask]:
    """The values of a typed column by their order, and which are there."""
    kind, there = column.type, valid(column)
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).fill_null(0).to_numpy() + 0.0  # no negative zero
        return _ordered_bits(values), there & ~np.isnan(values)
    if pa.types.is_decimal(kind):
        scaled = [0 if one is None else int(one.scaleb(kind.scale)) for one in column.to_pylist()]
        return np.array(scaled, np.int64), there
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    return column.cast(pa.int64()).fill_null(0).to_numpy(), there


def _ordered_bits(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Integers:
    bits = values.view(np.int64)
    return np.asarray(bits ^ ((bits >> SIGN_BIT) & np.int64(2**63 - 1)), np.int64)


def bounds_of(
    kind: pa.DataType, low: str | None, high: str | None, *, with_low: bool = True, with_high: bool = True
) -> tuple[int, int]:
    """The whole numbers that a range of values covers, both ends included; QueryMistake if a bound is no value.

    >>> bounds_of(pa.int64(), "1", "2.5"), bounds_of(pa.int32(), "1", None, with_low=False)[0]
    ((1, 2), 2)
    """
    first, last = LEAST, MOST
    if low is not None:
        begins, ends = _span(kind, low)
        first = begins if with_low else ends + 1
    if high is not None:
        begins, ends = _span(kind, high)
        last = ends if with_high else begins - 1
    return max(first, LEAST), min(last, MOST)


def _span(kind: pa.DataType, text: str) -> tuple[int, int]:
    """The first whole number that is not below a value, and the last that is not above; of a day, all of it."""
    try:
        if pa.types.is_boolean(kind):
            value = {"true": 1, "false": 0}[text.lower()]
            return value, value
        if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
            return _span_of_time(kind, text)
        number = Decimal(text)
        if pa.types.is_floating(kind):
            bits = int(_ordered_bits(np.array([float(number) + 0.0]))[0])
            return bits, bits
        scaled = number.scaleb(kind.scale) if pa.types.is_decimal(kind) else number
        return int(scaled.to_integral_value("ROUND_CEILING")), int(scaled.to_integral_value("ROUND_FLOOR"))
    except (KeyError, ValueError, InvalidOperation, OverflowError):
        raise QueryMistake(f"{text} is no {kind}") from None


def _span_of_time(kind: pa.DataType, text: str) -> tuple[int, int]:
    if pa.types.is_date32(kind):
        day = date.fromisoformat(text).toordinal() - EPOCH.toordinal()
        return day, day
    moment = datetime.fromisoformat(text)
    begins = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    ends = begins + DAY - timedelta.resolution if len(text) == len("2026-01-01") else begins
    microsecond = timedelta.resolution
    return begins // microsecond, ends // microsecond
