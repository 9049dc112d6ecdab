"""Where rows of a group are that is sorted by time (compiled, pure)."""

import numpy as np
from numba import njit

from headwater.flow.state.runs.equality import Integers


@njit(cache=True, nogil=True)
def first_of(groups: Integers, times: Integers, wanted: Integers, from_: Integers) -> Integers:
    """Where the first row of a wanted group is whose time is not below; both columns are sorted together.

    >>> first_of(np.array([0, 0, 1]), np.array([5, 9, 1]), np.array([0, 1, 1]), np.array([6, 0, 2])).tolist()
    [1, 2, 3]
    """
    found = np.empty(len(wanted), np.int64)
    for number in range(len(wanted)):
        group, time = wanted[number], from_[number]
        begin, end = 0, len(groups)
        while begin < end:
            middle = (begin + end) // 2
            if groups[middle] < group or (groups[middle] == group and times[middle] < time):
                begin = middle + 1
            else:
                end = middle
        found[number] = begin
    return found


@njit(cache=True, nogil=True)
def last_that_counts(
    groups: Integers, times: Integers, seen: Integers, wanted: Integers, moments: Integers
) -> Integers:  # fmt: skip
    """Where the last row of a wanted group is that is not behind a moment, and counted then; −1 if there is none.

    >>> groups, times, seen = np.array([0, 0, 1]), np.array([5, 9, 1]), np.array([0, 20, 0])
    >>> last_that_counts(groups, times, seen, np.array([0, 0, 0, 1]), np.array([4, 9, 20, 0])).tolist()
    [-1, 0, 1, -1]
    """
    found = first_of(groups, times, wanted, moments + 1)
    for number in range(len(wanted)):
        place = found[number] - 1
        while place >= 0 and groups[place] == wanted[number] and seen[place] > moments[number]:
            place -= 1
        found[number] = place if place >= 0 and groups[place] == wanted[number] else -1
    return found
