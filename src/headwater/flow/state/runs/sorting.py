"""Sort rows by columns of integers (compiled, pure): by their digits, in a time that grows with the rows alone."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from headwater.flow.state.runs.equality import Integers

DIGIT_BITS = 11
LEADING_BITS = 2 * DIGIT_BITS
"""So many of the highest bits are enough to bring most rows to their places; neighbours are exchanged then."""
EXCHANGES = 4
"""For each row so many on the average; keys that need more are sorted by all of their bits."""
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
            order = _sorted_places(keys if place == 0 else keys[order], order, (highest - lowest).bit_length())
    return order.astype(np.int64)


def _sorted_places(keys: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    """Places in the order of their keys, of which only the lowest bits are set; those of the same key stay in order."""
    if bits > LEADING_BITS + DIGIT_BITS:
        nearly, found = _by_digits(keys, places, bits - LEADING_BITS, bits)
        if _exchanged(nearly, found, EXCHANGES * len(keys)):
            return found
    return _by_digits(keys, places, 0, bits)[1]


@njit(cache=True, nogil=True)
def _exchanged(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32], most: int
) -> bool:  # pragma: no cover  (compiled)
    """Sort rows that are nearly in order, in place; False if that took more exchanges than so many."""
    for row in range(1, len(keys)):
        key, place, at = keys[row], places[row], row
        while at > 0 and keys[at - 1] > key:
            keys[at], places[at] = keys[at - 1], places[at - 1]
            at -= 1
        keys[at], places[at] = key, place
        most -= row - at
        if most < 0:
            return False
    return True


@njit(cache=True, nogil=True)
def _by_digits(
    keys: npt.NDArray[np.uint64], places: npt.NDArray[np.uint32], lowest: int, bits: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:  # pragma: no cover  (compiled)
    """Keys and places in the order of those bits of the keys; those that are the same in them stay in order."""
    count, digit_bits = len(keys), np.uint64(DIGIT_BITS)
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    begins = np.empty(1 << DIGIT_BITS, np.uint64)
    other_keys, other_places = np.empty_like(keys), np.empty_like(places)
    for digit in range((bits - lowest + DIGIT_BITS - 1) // DIGIT_BITS):
        shift = np.uint64(lowest) + np.uint64(digit) * digit_bits
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
    return keys, places


def warm_up() -> None:
    keys, places = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
    _by_digits(keys, places, 0, 1)
    _exchanged(keys, places, 1)
