"""Exact sums of doubles, and of their squares, from which values can be taken away again (compiled, pure).

A sum that was rounded forgets: 1e300 + 1 − 1e300 is 0. Here a sum is a whole number of the smallest double (or of its
square), so that it depends on nothing but the values that are in it, whatever came and went before. It is kept as a
list:

    [place of the lowest digit, digit, digit, ...]    digits of 32 bits, the lowest first, all with the sign of the sum

An empty list is 0. Values that are not finite have no place in it, and are counted beside it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from headwater.flow.operators.aggregation.extremes import read_only
from headwater.flow.state.runs.equality import Integers, list_lengths, valid

DIGITS = pa.list_(pa.int64())
Doubles = npt.NDArray[np.float64]
PLACES = 140
"""Digits of the largest sum of squares: 2 × 2098 bits, and those that carrying may add."""
BITS = 32
LOWEST = 1074
"""The smallest double is two to the power of minus this."""


def added_digits(
    old: pa.Array, values: Doubles, weights: Integers, bounds: Integers, *, squares: bool = False
) -> pa.Array:
    """The sums of groups of finite values, or of their squares, each as often as its weight says, beside `old` sums.

    `bounds` are where the values of each group begin, and the end of the last.

    >>> nothing = pa.nulls(1, DIGITS)
    >>> many = added_digits(nothing, np.array([1e300, 1.0]), np.array([1, 1]), np.array([0, 2]))
    >>> total_of(added_digits(many, np.array([1e300]), np.array([-1]), np.array([0, 1])))
    array([1.])
    """
    kept, offsets = _opened(old)
    digits, ends = _added(kept, offsets, read_only_doubles(values), read_only(weights), read_only(bounds), squares)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(digits), type=DIGITS)


def total_of(digits: pa.Array, *, squares: bool = False) -> Doubles:
    """The doubles next to such sums."""
    return np.asarray(_totals(*_opened(digits), squares))


def spread_of(count: Integers, digits: pa.Array, square_digits: pa.Array) -> Doubles:
    """Σ(x − mean)² of so many values with these sums and sums of squares: not rounded before it is known."""
    return np.asarray(_spreads(read_only(count), *_opened(digits), *_opened(square_digits)))


def read_only_doubles(values: Doubles) -> Doubles:
    own = np.ascontiguousarray(values, np.float64).view()
    own.setflags(write=False)
    return own


def _opened(column: pa.Array) -> tuple[Integers, Integers]:
    lengths = np.where(valid(column), list_lengths(column), 0)
    return read_only(column.flatten().to_numpy()), read_only(np.append(0, np.cumsum(lengths)))


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _put(sums, whole, place, weight):  # type: ignore[no-untyped-def]  # pragma: no cover  (compiled)
    """Adds a whole number below 2^56 times a small weight at a place of so many bits."""
    digit, by = place >> 5, place & 31
    low, high = (whole & 0xFFFFFFFF) << by, (whole >> 32) << by
    sums[digit] += weight * (low & 0xFFFFFFFF)
    sums[digit + 1] += weight * ((low >> 32) + (high & 0xFFFFFFFF))
    sums[digit + 2] += weight * (high >> 32)


@_compiled
def _carried(sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Digits from 0 to 2^32; −1 if the sum is negative, and the digits are those of its opposite, or else 1."""
    carry = 0
    for place in range(len(sums)):
        whole = sums[place] + carry
        sums[place] = whole & 0xFFFFFFFF
        carry = whole >> 32
    if carry >= 0:
        return 1
    carry = 1
    for place in range(len(sums)):
        whole = (0xFFFFFFFF - sums[place]) + carry
        sums[place] = whole & 0xFFFFFFFF
        carry = whole >> 32
    return -1


@_compiled
def _added(kept, offsets, values, weights, bounds, squares):  # type: ignore[no-untyped-def]  # pragma: no cover
    groups = len(bounds) - 1
    sums = np.zeros(PLACES, np.int64)
    ends = np.zeros(groups + 1, np.int64)
    digits = np.empty(groups * 8 + PLACES + 1, np.int64)
    bits = values.view(np.int64)
    end = 0
    for group in range(groups):
        sums[:] = 0
        begin = offsets[group]
        for place in range(begin + 1, offsets[group + 1]):
            sums[kept[begin] + place - begin - 1] += kept[place]
        for row in range(bounds[group], bounds[group + 1]):
            power, whole, weight = (bits[row] >> 52) & 0x7FF, bits[row] & 0xFFFFFFFFFFFFF, weights[row]
            if power:
                whole |= 1 << 52
                power -= 1
            if squares:
                high, low = whole >> 27, whole & 0x7FFFFFF
                _put(sums, low * low, 2 * power, weight)
                _put(sums, 2 * high * low, 2 * power + 27, weight)
                _put(sums, high * high, 2 * power + 54, weight)
            else:
                _put(sums, whole, power, -weight if bits[row] < 0 else weight)
        sign = _carried(sums)
        first, last = 0, PLACES - 1
        while last >= 0 and sums[last] == 0:
            last -= 1
        while first <= last and sums[first] == 0:
            first += 1
        if end + last - first + 2 > len(digits):
            more = np.empty(2 * len(digits) + PLACES, np.int64)
            more[:end] = digits[:end]
            digits = more
        if last >= first:
            digits[end] = first
            for place in range(first, last + 1):
                digits[end + 1 + place - first] = sign * sums[place]
            end += last - first + 2
        ends[group + 1] = end
    return digits[:end], ends


@_compiled
def _double(digits, begin, end, power, divisor):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The double next to digits of one sign, the lowest of which stands for two to this power; divided."""
    whole = 0.0
    # Four digits decide: those below are less than any rounding.
    first = max(begin, end - 4)
    for place in range(first, end):
        whole += digits[place] * 2.0 ** (BITS * (place - first))
    at = power + BITS * (first - begin)
    # In two steps: two to such a power may not be a double itself.
    half = at // 2
    return whole / divisor * 2.0**half * 2.0 ** (at - half)


@_compiled
def _totals(digits, offsets, squares):  # type: ignore[no-untyped-def]  # pragma: no cover
    totals = np.zeros(len(offsets) - 1)
    lowest = -LOWEST * 2 if squares else -LOWEST
    for group in range(len(totals)):
        begin, end = offsets[group], offsets[group + 1]
        if end > begin:
            totals[group] = _double(digits, begin + 1, end, lowest + BITS * digits[begin], 1.0)
    return totals


@_compiled
def _spreads(counts, digits, offsets, square_digits, square_offsets):  # type: ignore[no-untyped-def]  # pragma: no cover
    """(n·Σx² − (Σx)²) / n: the numerator is a whole number, made digit by digit."""
    spreads = np.zeros(len(counts))
    difference = np.zeros(2 * PLACES + 4, np.int64)
    for group in range(len(counts)):
        if counts[group] <= 0:
            continue
        difference[:] = 0
        begin, end = square_offsets[group], square_offsets[group + 1]
        for place in range(begin + 1, end):
            at = square_digits[begin] + place - begin - 1
            # Counts are below 2^62, and digits below 2^32: halves of the count are taken, so that nothing wraps.
            difference[at] += square_digits[place] * (counts[group] & 0x3FFFFFFF)
            high = square_digits[place] * (counts[group] >> 30)
            difference[at] += (high & 0x3) << 30
            difference[at + 1] += high >> 2
        _carried(difference)
        begin, end = offsets[group], offsets[group + 1]
        for one in range(begin + 1, end):
            for other in range(begin + 1, end):
                at = 2 * digits[begin] + one + other - 2 * begin - 2
                left, right = abs(digits[one]), abs(digits[other])
                # A product of 64 bits has no sign to spare: it is made of halves.
                low = left * (right & 0xFFFF)
                high = left * (right >> 16)
                difference[at] -= (low & 0xFFFFFFFF) + ((high & 0xFFFF) << 16)
                difference[at + 1] -= (low >> 32) + (high >> 16)
        _carried(difference)
        last = len(difference) - 1
        while last >= 0 and difference[last] == 0:
            last -= 1
        if last >= 0:
            spreads[group] = _double(difference, 0, last + 1, -LOWEST * 2, counts[group])
    return spreads


def warm_up() -> None:
    """Compiles what is not compiled yet."""
    one = added_digits(pa.nulls(1, DIGITS), np.ones(1), np.ones(1, np.int64), np.array([0, 1]))
    spread_of(np.ones(1, np.int64), one, one)
    total_of(one)
