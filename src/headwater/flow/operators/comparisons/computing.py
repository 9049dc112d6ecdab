"""Comparisons of windows with earlier ones, all rows at once (pure).

A window without rows is absent: it is not zero. What looks back at it alone is null; averages and means are those of
the windows that are there. Nulls are the same as absent windows.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import NumberOverflow
from headwater.flow.operators.comparisons.kinds import (
    Ago,
    Anomaly,
    Change,
    Comparison,
    Rate,
    Ratio,
    Rolling,
    difference_type,
)
from headwater.flow.state.runs.equality import Integers, Mask, valid

Doubles = npt.NDArray[np.float64]


class Line(NamedTuple):
    """Windows, and for each ago the one they look back at: rows of values, all null where there is none."""

    lengths_us: Integers
    own: pa.RecordBatch
    before: Mapping[Ago, pa.RecordBatch]


class Numbers(NamedTuple):
    """`values` are 0 where there is none."""

    there: Mask
    values: Doubles


def compute(name: str, comparison: Comparison, line: Line) -> pa.Array:
    own = line.own.column(comparison.column)
    earlier = [line.before[ago].column(comparison.column) for ago in comparison.agos]
    match comparison:
        case Rate(per_us=per_us):
            value = doubles(own)
            return _where(value.there, value.values * np.float64(per_us) / line.lengths_us.astype(np.float64))
        case Rolling():
            mean, count = _mean([doubles(column) for column in (own, *earlier)])
            return _where(count > 0, mean)
        case Change():
            return _difference(name, own, earlier[0])
        case Ratio():
            value, other = doubles(own), doubles(earlier[0])
            known = value.there & other.there & (other.values != 0)
            return _where(known, value.values / np.where(known, other.values, 1.0))
        case Anomaly():
            return _anomaly(comparison, doubles(own), [doubles(column) for column in earlier])


def doubles(column: pa.Array) -> Numbers:
    there = valid(column)
    return Numbers(there, pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False))


def _where(there: Mask, values: Doubles) -> pa.Array:
    return pa.array(values, pa.float64(), mask=~there)


def _mean(columns: list[Numbers]) -> tuple[Doubles, Integers]:
    """Added up from the newest to the oldest: so any query that does the same gives the same, to the last bit."""
    total, count = np.zeros(len(columns[0].values)), np.zeros(len(columns[0].values), np.int64)
    for column in columns:
        total += column.values
        count += column.there
    return total / np.maximum(count, 1), count


def _difference(name: str, own: pa.Array, earlier: pa.Array) -> pa.Array:
    kind = difference_type(own.type)
    try:
        if pa.types.is_decimal(kind):
            wide = pa.decimal256(kind.precision + 1, kind.scale)
            return pc.subtract(own.cast(wide), earlier.cast(wide)).cast(kind)
        return pc.subtract_checked(own.cast(kind), earlier.cast(kind))
    except pa.ArrowInvalid:
        raise NumberOverflow(f'"{name}"', f"its type {kind}") from None


def _anomaly(comparison: Anomaly, own: Numbers, earlier: list[Numbers]) -> pa.Array:
    """By the sample's standard deviation, in two passes; null where that is not known."""
    mean, count = _mean(earlier)
    squares = np.zeros(len(mean))
    for column in earlier:
        squares += np.where(column.there, (column.values - mean) * (column.values - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(count - 1, 1))
    odd = np.abs(own.values - mean) > np.float64(comparison.deviations) * deviation
    return pa.array(odd, pa.bool_(), mask=~(own.there & (count >= comparison.least)))
