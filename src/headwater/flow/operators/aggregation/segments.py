"""Columns of grouped rows reduced to a value per group (pure): counts, sums, products and bits.

Rows of a group lie side by side. Nulls are skipped; a sum, a product or bits of nothing but nulls is null.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import NumberOverflow
from headwater.flow.state.runs.equality import Integers, Mask, valid

SAFE = 2**62
"""Sums of 64-bit integers that cannot reach this are added without a check for overflow."""
WORD = np.int64(0xFFFFFFFF)
Values = npt.NDArray[Any]
BITS: dict[str, tuple[np.ufunc, int]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
}
"""Each with the value that changes nothing."""


@dataclass(frozen=True)
class Segments:
    """Groups of rows: the row at which each begins, the first being 0, and the number of all rows. None is empty."""

    begins: Integers
    rows: int

    @classmethod
    def of(cls, firsts: Mask) -> "Segments":
        """Groups of rows of which those are marked at which a group begins."""
        return cls(np.flatnonzero(firsts), len(firsts))

    def __len__(self) -> int:
        return len(self.begins)

    @cached_property
    def bounds(self) -> Integers:
        """The begins, and the end of the last group."""
        return np.append(self.begins, self.rows)

    @cached_property
    def lengths(self) -> Integers:
        """The number of rows of each group."""
        return np.diff(self.bounds)

    @cached_property
    def numbers(self) -> Integers:
        """The number of the group of each row."""
        return np.repeat(np.arange(len(self)), self.lengths)


def counted(column: pa.Array | None, segments: Segments) -> Integers:
    """The number of values of each group that are not null; of all rows if there is no column."""
    if column is None or not column.null_count:
        return segments.lengths
    return totals(valid(column).astype(np.int64), segments)


def totals(values: Values, segments: Segments) -> Values:
    """Plain sums of numbers, whatever they may come to."""
    with np.errstate(all="ignore"):
        return np.add.reduceat(values, segments.begins) if len(segments) else values[:0]


def filled(column: pa.Array, value: float) -> Values:
    """The numbers of a column with a value in the place of nulls."""
    whole = pc.fill_null(column, pa.scalar(value, column.type)) if column.null_count else column
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def where_any(values: Values, column: pa.Array, segments: Segments) -> pa.Array:
    """A column of values of groups, null where all rows of a group are null in `column`."""
    if not column.null_count:
        return pa.array(values)
    return pa.array(values, mask=counted(column, segments) == 0)


def added(column: pa.Array, segments: Segments, kind: pa.DataType, name: str) -> pa.Array:
    """Sums of a type as Spark has it: bigint, double or decimal. NumberOverflow if one does not fit."""
    if pa.types.is_floating(kind):
        # −0.0 added changes nothing, not even the sign of a sum of zeros.
        doubles = column.cast(kind)
        return where_any(totals(filled(doubles, -0.0), segments), doubles, segments)
    decimal = pa.types.is_decimal(kind)
    if pa.types.is_decimal(column.type):
        lows, highs = decimal_words(column)
    else:
        lows = filled(column.cast(pa.int64()), 0)
        highs = None
    largest = 10**kind.precision - 1 if decimal else 2**63 - 1
    if (highs is None or (highs == lows >> 63).all()) and _bound(lows, segments) < min(SAFE, largest):
        low = totals(lows, segments)
        high = low >> 63
    else:
        low, high, fits = exact_totals(lows, lows >> 63 if highs is None else highs, segments)
        if not (fits & within(low, high, -largest if decimal else -largest - 1, largest)).all():
            raise NumberOverflow(f'"{name}"', f"its type {kind}")
    return decimals_of(low, high, counted(column, segments) > 0, kind) if decimal else where_any(low, column, segments)


def multiplied(column: pa.Array, segments: Segments) -> pa.Array:
    """Products of doubles."""
    with np.errstate(all="ignore"):
        return where_any(np.multiply.reduceat(filled(column, 1.0), segments.begins), column, segments)


def joined_bits(column: pa.Array, segments: Segments, kind: str) -> pa.Array:
    """What `bit_and`, `bit_or` or `bit_xor` makes of the integers of each group."""
    operation, neutral = BITS[kind]
    return where_any(operation.reduceat(filled(column, neutral), segments.begins), column, segments)


def decimal_words(column: pa.Array) -> tuple[Integers, Integers]:
    """The low and the high half of each decimal without its point; 0 for null."""
    if not len(column):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)[column.offset : column.offset + len(column)]
    if not column.null_count:
        return words[:, 0], words[:, 1]
    there = valid(column)
    return np.where(there, words[:, 0], 0), np.where(there, words[:, 1], 0)


def decimals_of(low: Integers, high: Integers, there: Mask, kind: pa.DataType) -> pa.Array:
    """Decimals made of such halves, null where there is none."""
    words = np.stack([low, high], axis=1)
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(low), [bits, pa.py_buffer(words)])


def _bound(values: Integers, segments: Segments) -> int:
    """What no sum of a group can exceed."""
    return max(abs(int(values.max())), abs(int(values.min()))) * int(segments.lengths.max())


def exact_totals(
    lows: Integers, highs: Integers, segments: Segments, weights: Integers | None = None
) -> tuple[Integers, Integers, Mask]:
    """Sums of 128-bit integers, and whether each fits into 128 bits itself: quarters are added, then carried. Of each
    integer as often as its weight says, which is small, and may be negative."""
    quarters = [lows & WORD, (lows >> 32) & WORD, highs & WORD, highs >> 32]
    if weights is not None:
        quarters = [quarter * weights for quarter in quarters]
    one, two, three, four = (totals(quarter, segments) for quarter in quarters)
    two += one >> 32
    three += two >> 32
    four += three >> 32
    low, high = (one & WORD) | (two << 32), (three & WORD) | (four << 32)
    return low, high, four == (four << 32) >> 32


def within(low: Integers, high: Integers, least: int, most: int) -> Mask:
    """Which 128-bit integers lie between two, both included."""
    unsigned = low.view(np.uint64)
    (low_of_least, high_of_least), (low_of_most, high_of_most) = (
        (np.uint64(one % 2**64), np.int64(one >> 64)) for one in (least, most)
    )
    above = (high > high_of_least) | ((high == high_of_least) & (unsigned >= low_of_least))
    below = (high < high_of_most) | ((high == high_of_most) & (unsigned <= low_of_most))
    return np.asarray(above & below, np.bool_)
