"""Places in sorted parts of an array (compiled, pure)."""

import numpy as np
from numba import njit

from headwater.flow.state.runs.equality import Integers


@njit(cache=True, nogil=True)
def first_from(values: Integers, begins: Integers, ends: Integers, targets: Integers) -> Integers:
    """In each part [begin, end) of an array, which is ascending there, the first place not below the target.

    >>> first_from(np.array([1, 5, 0, 9]), np.array([0, 2]), np.array([2, 4]), np.array([2, 10])).tolist()
    [1, 4]
    """
    found = np.empty(len(targets), np.int64)
    for number in range(len(targets)):
        low, high, target = np.uintp(begins[number]), np.uintp(ends[number]), targets[number]
        while low < high:
            middle = (low + high) // np.uintp(2)
            if values[middle] < target:
                low = middle + np.uintp(1)
            else:
                high = middle
        found[number] = low
    return found


def warm_up() -> None:
    none = np.zeros(1, np.int64)
    first_from(none, none, none, none)
