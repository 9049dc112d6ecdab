"""Where hashes are in a sorted array (compiled, pure).

Hashes are spread evenly: from one that was just found, the next is about as many rows on as its value is. A guess and
a few steps around it touch one or two pages, where a binary search of ten million rows touches a dozen. Whatever the
values are, no search takes more than about twice the steps of a binary one.
"""

import numpy as np
from numba import njit

from headwater.flow.state.equality import Integers

FIRST_STEP = 16


@njit(cache=True, nogil=True)
def first_at_or_above(hashes: Integers, wanted: Integers) -> Integers:
    """For each wanted hash the first place whose hash is not below it; both are ascending.

    >>> first_at_or_above(np.array([10, 20, 20, 30]), np.array([5, 20, 25, 31])).tolist()
    [0, 1, 3, 4]
    """
    count = len(hashes)
    places = np.empty(len(wanted), np.int64)
    low = 0  # all before it are below what is wanted
    for number in range(len(wanted)):
        target = wanted[number]
        if low < count and hashes[low] < target:
            begin, end = _bracket(hashes, target, low)
            while end - begin > 1:
                middle = (begin + end) // 2
                if hashes[middle] < target:
                    begin = middle
                else:
                    end = middle
            low = end
        places[number] = low
    return places


@njit(cache=True, nogil=True)
def _bracket(hashes: Integers, target: int, low: int) -> tuple[int, int]:
    """Places (begin, end) with hashes[begin] < target, and at `end` a hash that is not below it, or no more."""
    count = len(hashes)
    span = float(hashes[count - 1]) - float(hashes[low])
    share = (float(target) - float(hashes[low])) / span if span > 0 else 1.0
    guess = min(max(low + int(share * (count - 1 - low)), low), count - 1) if share < 1.0 else count - 1
    step = FIRST_STEP
    if hashes[guess] < target:
        begin, end = guess, guess + step
        while end < count and hashes[end] < target:
            begin, step = end, step * 2
            end = begin + step
        return begin, min(end, count)
    begin, end = guess - step, guess
    while begin > low and hashes[begin] >= target:
        end, step = begin, step * 2
        begin = end - step
    return max(begin, low), end


def warm_up() -> None:
    """Have the code compiled, or loaded, before the first look-up needs it: workers forked afterwards have it too."""
    mapped = np.zeros(1, np.int64)
    mapped.flags.writeable = False  # as runs are; for numba that is a type of its own
    first_at_or_above(mapped, np.zeros(1, np.int64))
