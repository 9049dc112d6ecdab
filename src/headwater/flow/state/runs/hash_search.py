"""Where hashes are in a sorted array (compiled, pure).

Hashes are spread evenly: from one that was just found, the next is about as many rows on as its value is. A guess and
a few steps around it touch one or two pages, where a binary search of ten million rows touches a dozen. Whatever the
values are, no search takes more than about twice the steps of a binary one.
"""

import numpy as np
from numba import njit

from headwater.flow.state.runs.equality import Integers, Mask

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


@njit(cache=True, nogil=True)
def first_in_time(
    hashes: Integers, times: Integers, places: Integers, wanted: Integers, wanted_times: Integers
) -> Integers:
    """From the first place of each wanted hash on, the first whose time is not below the wanted one.

    >>> held, times = np.array([10, 20, 20, 20, 30]), np.array([1, 1, 3, 5, 1])
    >>> first_in_time(held, times, np.array([1, 1, 1]), np.array([20, 20, 20]), np.array([0, 4, 9])).tolist()
    [1, 3, 4]
    """
    count = np.uintp(len(hashes))
    found = np.empty(len(places), np.int64)
    for number in range(len(places)):
        begin, target, time = np.uintp(places[number]), wanted[number], wanted_times[number]
        if begin < count and hashes[begin] == target and times[begin] < time:
            step, end = np.uintp(1), begin + np.uintp(1)
            while end < count and hashes[end] == target and times[end] < time:
                begin, end, step = end, end + step, step + step
            end = min(end, count)
            while end - begin > np.uintp(1):
                middle = (begin + end) // np.uintp(2)
                if hashes[middle] == target and times[middle] < time:
                    begin = middle
                else:
                    end = middle
            begin = end
        found[number] = begin
    return found


@njit(cache=True, nogil=True)
def matching(hashes: Integers, times: Integers, places: Integers, wanted: Integers, wanted_times: Integers) -> Mask:
    """Whether both hash and time at a place are the wanted ones; a place may lie behind the end."""
    found = np.zeros(len(places), np.bool_)
    count = np.uintp(len(hashes))
    for number in range(len(places)):
        place = np.uintp(places[number])
        if place < count:
            found[number] = hashes[place] == wanted[number] and times[place] == wanted_times[number]
    return found


def expanded(first: Integers, lengths: Integers) -> Integers:
    """All places of some ranges.

    >>> expanded(np.array([3, 10]), np.array([2, 3])).tolist()
    [3, 4, 10, 11, 12]
    """
    starts = np.cumsum(lengths) - lengths
    return np.repeat(first - starts, lengths) + np.arange(lengths.sum())


def warm_up() -> None:
    """Have the code compiled, or loaded, before the first look-up needs it: workers forked afterwards have it too."""
    mapped = np.zeros(1, np.int64)
    mapped.flags.writeable = False  # as runs are; for numba that is a type of its own
    first_at_or_above(mapped, np.zeros(1, np.int64))
    none = np.zeros(1, np.int64)
    first_in_time(mapped, mapped, none, none, none)
    matching(mapped, mapped, none, none, none)
