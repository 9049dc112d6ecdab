"""Sort rows by columns of integers (compiled, pure): by their digits, in a time that grows with the rows alone."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from headwater.flow.state.equality import Integers

DIGIT_BITS = 11
SMALL = 2048
"""Up to so many rows comparing them is quicker than counting digits."""


def rises(columns: Sequence[Integers]) -> bool:
    """Whether each row is above the one before it, the first column being the most important."""
    above = np.zeros(max(len(columns[0]) - 1, 0), np.bool_)
    for column in reversed(columns):
        above = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & above)
    return bool(above.all())


def sorted_order(columns: Sequence[Integers]) -> Integers:
    """Places of rows in ascending order, the first column being the most important; equal rows keep their order.

    >>> sorted_order([np.array([2, -1, 2]), np.array([7, 5, 6])]).tolist()
    [1, 2, 0]
    """
    if len(columns[0]) <= SMALL:
        return np.lexsort(columns[::-1])
    if len(columns[0]) >= 2**32:
        return np.lexsort(columns[::-1])
    order = np.arange(len(columns[0]), dtype=np.uint32)
    for place, column in enumerate(reversed(columns)):
        lowest, highest = int(column.min()), int(column.max())
        if lowest != highest:
            keys = np.ascontiguousarray(column).view(np.uint64) - np.uint64(lowest % 2**64)
            order = _by_digits(keys if place == 0 else keys[order], order, (highest - lowest).bit_length())
    return order.astype(np.int64)


@njit(cache=True, nogil=True)
def _by_digits(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32], bits: int
) -> npt.NDArray[np.uint32]:  # pragma: no cover  (compiled)
    """Places in the order of their keys, of which only the lowest bits are set; those of the same key stay in order."""
    count, digit_bits = len(keys), np.uint64(DIGIT_BITS)
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    begins = np.empty(1 << DIGIT_BITS, np.uint64)
    other_keys, other_places = np.empty_like(keys), np.empty_like(places)
    for digit in range((bits + DIGIT_BITS - 1) // DIGIT_BITS):
        shift = np.uint64(digit) * digit_bits
        begins[:] = 0
        for row in range(count):
            begins[(keys[np.uintp(row)] >> shift) & mask] += np.uint64(1)
        begin = np.uint64(0)
        for value in range(len(begins)):
            begins[value], begin = begin, begin + begins[value]
        for row in range(count):
            key = keys[np.uintp(row)]
            value = (key >> shift) & mask
            place = begins[value]
            begins[value] = place + np.uint64(1)
            other_keys[place], other_places[place] = key, places[np.uintp(row)]
        keys, other_keys = other_keys, keys
        places, other_places = other_places, places
    return places


def warm_up() -> None:
    _by_digits(np.zeros(1, np.uint64), np.zeros(1, np.uint32), 1)
