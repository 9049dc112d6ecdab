"""Counts, sums, averages and variances over tables: every row is added with its weight, and taken away with −1.

Nothing is rounded before the result is: whole numbers and decimals are added as 38 digits, doubles as whole numbers of
the smallest one (exact_sums.py). What is not finite is counted apart, so that it leaves nothing behind when it goes.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import NumberOverflow
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.averages import average, average_type, sum_type
from headwater.flow.operators.aggregation.kinds.kind import Columns, Partial, Tolerance, column_sql
from headwater.flow.operators.aggregation.kinds.moments import doubles, numbers
from headwater.flow.operators.aggregation.kinds.sums import add
from headwater.flow.operators.aggregation.segments import (
    Segments,
    decimal_words,
    decimals_of,
    exact_totals,
    filled,
    totals,
    within,
)
from headwater.flow.operators.grouping.changed_rows import ChangedRows
from headwater.flow.operators.grouping.exact_sums import DIGITS, Doubles, added_digits, spread_of, total_of
from headwater.flow.operators.grouping.held import Changed, Held, Parts
from headwater.flow.state.runs.equality import Integers, Mask, valid

NEAR = "near"
ROUNDING = 1e-13
"""Of what is added in absolute values: how far a sum may be off that was rounded at every addition."""
MOST = 10**38 - 1
OUTSIDE = ("nan", "over", "under")
"""Values that have no place in an exact sum: not a number, and beyond all numbers on either side."""


class Counts(Held):
    def kept(self, spec: Aggregate) -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__count", pa.int64()),)

    def changed(self, spec: Aggregate, given: ChangedRows, old: Columns, parts: Parts) -> Changed:
        among = None if spec.column is None else valid(given.rows.column(spec.column))
        return Changed([pa.array(old_counts(old[0]) + given.counted(among))])

    def finish(self, spec: Aggregate, kept: Columns) -> pa.Array:
        return kept[0].fill_null(0)


class Sums(Held):
    """Sums and averages."""

    def kept(self, spec: Aggregate) -> tuple[Partial, ...]:
        return sum_columns(spec, "sum")

    def changed(self, spec: Aggregate, given: ChangedRows, old: Columns, parts: Parts) -> Changed:
        column = given.column(str(spec.column), spec.input_type)
        return Changed(added_columns(spec, column, given.weights, given.segments, old))

    def finish(self, spec: Aggregate, kept: Columns) -> pa.Array:
        return summed(spec, kept)

    def tolerance(self, spec: Aggregate) -> Tolerance | None:
        """Doubles that a query adds one after another lose what they cancel; here they do not."""
        if not pa.types.is_floating(spec.input_type):
            return None
        most = f"{ROUNDING} * sum(abs(cast({column_sql(spec)} as double)))"
        return Tolerance(NEAR, most if spec.kind == "sum" else f"{most} / count({column_sql(spec)})")


class Variances(Held):
    """From the sums of values and of their squares, both exact: what both nearly have in common is not lost."""

    def kept(self, spec: Aggregate) -> tuple[Partial, ...]:
        names = [Partial(f"{spec.name}__{name}", DIGITS) for name in ("digits", "squares")]
        outside = [Partial(f"{spec.name}__{name}", pa.int64()) for name in ("count", "nan")]
        return (*outside, *names)

    def changed(self, spec: Aggregate, given: ChangedRows, old: Columns, parts: Parts) -> Changed:
        column = given.column(str(spec.column), spec.input_type)
        there = valid(column)
        values = numbers(column)
        finite = there & np.isfinite(values)
        sums = _digits(values, given.weights, given.segments, finite, old[2:4])
        found = [given.counted(there), given.counted(there & ~finite)]
        return Changed([*(pa.array(old_counts(one) + more) for one, more in zip(old, found, strict=False)), *sums])

    def finish(self, spec: Aggregate, kept: Columns) -> pa.Array:
        count, outside = (old_counts(one) for one in kept[:2])
        with np.errstate(all="ignore"):
            spread = np.where(outside > 0, np.nan, spread_of(count, kept[2], kept[3]))
            less = 1 if spec.kind.endswith("_samp") else 0
            variance = spread / np.maximum(count - less, 1)
            return doubles(np.sqrt(variance) if spec.kind.startswith("stddev") else variance, count > less)


def old_counts(column: pa.Array) -> Integers:
    return np.asarray(column.fill_null(0).to_numpy(), np.int64)


def sum_columns(spec: Aggregate, name: str) -> tuple[Partial, ...]:
    """The count of the values that are not null, and their sum."""
    count = Partial(f"{spec.name}__{name}_count", pa.int64())
    if not pa.types.is_floating(spec.input_type):
        return count, Partial(f"{spec.name}__{name}", pa.decimal128(38, _scale(spec)))
    outside = (Partial(f"{spec.name}__{name}_{one}", pa.int64()) for one in OUTSIDE)
    return count, Partial(f"{spec.name}__{name}", DIGITS), *outside


def added_columns(spec: Aggregate, column: pa.Array, weights: Integers, segments: Segments, old: Columns) -> Columns:
    """Those of groups after values of each of them were added as often as they weigh."""
    there = valid(column)
    count = pa.array(old_counts(old[0]) + totals(np.where(there, weights, 0), segments))
    if not pa.types.is_floating(spec.input_type):
        return [count, add(_added(spec, column, weights, segments), old[1].fill_null(0), spec)]
    values = numbers(column)
    finite = there & np.isfinite(values)
    (digits,) = _digits(values, weights, segments, finite, old[1:2])
    outside = (np.isnan(values), np.isposinf(values), np.isneginf(values))
    counts = [totals(np.where(there & one, weights, 0), segments) for one in outside]
    counted = [pa.array(old_counts(one) + more) for one, more in zip(old[2:], counts, strict=True)]
    return [count, digits, *counted]


def summed(spec: Aggregate, kept: Columns) -> pa.Array:
    """The sum, or the average; null of no values."""
    count = old_counts(kept[0])
    averaged = spec.kind.startswith("avg")
    if pa.types.is_floating(spec.input_type):
        total = _with_outside(total_of(kept[1]), *(old_counts(one) > 0 for one in kept[2:]))
        with np.errstate(all="ignore"):
            return doubles(total / np.maximum(count, 1) if averaged else total, count > 0)
    total = pc.if_else(pa.array(count > 0), kept[1], None)
    if averaged:
        return average(total, pa.array(count), average_type(spec.input_type))
    try:
        return total.cast(sum_type(spec.input_type))
    except pa.ArrowInvalid:
        raise NumberOverflow(f'"{spec.name}"', f"its type {sum_type(spec.input_type)}") from None


def _scale(spec: Aggregate) -> int:
    return int(spec.input_type.scale) if pa.types.is_decimal(spec.input_type) else 0


def _added(spec: Aggregate, column: pa.Array, weights: Integers, segments: Segments) -> pa.Array:
    kind = pa.decimal128(38, _scale(spec))
    if pa.types.is_decimal(column.type):
        lows, highs = decimal_words(column)
    else:
        lows = np.asarray(filled(column.cast(pa.int64()), 0), np.int64)
        highs = lows >> 63
    low, high, fits = exact_totals(lows, highs, segments, weights)
    if not (fits & within(low, high, -MOST, MOST)).all():
        raise NumberOverflow(f'"{spec.name}"', f"its type {kind}")
    return decimals_of(low, high, np.ones(len(low), np.bool_), kind)


def _digits(
    values: Doubles, weights: Integers, segments: Segments, finite: Mask,
    old: Columns,
) -> Columns:  # fmt: skip
    """Exact sums; the second, if it is asked for, of squares."""
    lengths = totals(finite.astype(np.int64), segments)
    bounds = np.append(0, np.cumsum(lengths))
    own = values[finite], weights[finite], bounds
    return [added_digits(one, *own, squares=number == 1) for number, one in enumerate(old)]


def _with_outside(total: Doubles, nan: Mask, over: Mask, under: Mask) -> Doubles:
    total = np.where(over, np.inf, np.where(under, -np.inf, total))
    return np.where(nan | (over & under), np.nan, total)
