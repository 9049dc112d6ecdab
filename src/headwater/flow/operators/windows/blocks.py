"""Which folds of neighbours a range of time is made of, so that the same rows are always merged in one order (pure).

What overlapping windows held before a batch is folded again from state, and has to be what was emitted of them to the
last bit: a sum of floating-point numbers depends on the order of additions, and a sketch on that of merges. So the
order must not depend on which other rows are looked at meanwhile, but on times alone.

    times     0   1   2   3   4   5   6   7   8        a block is [n · 2^l, (n + 1) · 2^l)
    range         [ 1 |  2  3 |  4  5 |  6 )           the largest blocks within it, from left to right

A block with rows in both halves is the fold of the left one with that of the right one; where one half is empty it is
the other. Rows that are not there yet change nothing, as long as a merge with nothing changes nothing.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from headwater.flow.state.runs.equality import Integers


class Blocks(NamedTuple):
    """What is to be folded, in rounds: rows are numbered from 0, and each merge makes the next row."""

    merges: list[tuple[Integers, Integers]]
    """Rounds of merges: the rows on the left, and those on the right."""
    rounds: list[tuple[Integers, Integers]]
    """Of each range its first block, its second, and so on: which ranges have one, and its row."""


def blocks_of(times: Integers, first: Integers, end: Integers, low: Integers, high: Integers) -> Blocks:
    """For ranges of time [low, high), whose rows are [first, end): there times are ascending and different.

    >>> ranges = [np.array([number]) for number in (1, 5, 1, 7)]
    >>> blocks_of(np.array([0, 1, 2, 3, 6, 9]), *ranges)
    Blocks(merges=[(array([2]), array([3]))], rounds=[(array([0]), array([1])), (array([0]), array([6])), \
(array([0]), array([4]))])
    """
    counts = _count_blocks(times, first, end, low, high)
    begins, ends = _find_blocks(times, first, end, low, high, int(counts.sum()))
    nodes, lefts, rights, heights, found = _tree(times, begins, ends)
    rows = np.arange(2 * len(times))
    merges, made = [], len(times)
    for height in range(1, int(heights.max(initial=0)) + 1):
        mine = np.flatnonzero(heights == height)
        merges.append((rows[lefts[mine]], rows[rights[mine]]))
        rows[nodes[mine]] = made + np.arange(len(mine))
        made += len(mine)
    starts = np.cumsum(counts) - counts
    rounds = []
    for number in range(int(counts.max(initial=0))):
        ranges = np.flatnonzero(counts > number)
        rounds.append((ranges, rows[found[starts[ranges] + number]]))
    return Blocks(merges, rounds)


@njit(cache=True, nogil=True)
def _block_end(times: Integers, place: int, end: int, low: int, high: int) -> int:
    """Behind the last row of the largest block within a range that begins with a row's half of it."""
    time = times[np.uintp(place)]
    level = 0
    while level < 62:
        start = time >> (level + 1) << (level + 1)
        if start < low or start + (1 << (level + 1)) > high:
            break
        level += 1
    return _first_from(times, place + 1, end, ((time >> level) + 1) << level)


@njit(cache=True, nogil=True)
def _first_from(times: Integers, begin: int, end: int, target: int) -> int:
    while begin < end:
        middle = (begin + end) // 2
        if times[np.uintp(middle)] < target:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True, nogil=True)
def _count_blocks(times: Integers, first: Integers, end: Integers, low: Integers, high: Integers) -> Integers:
    counts = np.zeros(len(first), np.int64)
    for number in range(len(first)):
        place = np.uintp(number)
        at = first[place]
        while at < end[place]:
            at = _block_end(times, at, end[place], low[place], high[place])
            counts[place] += 1
    return counts


@njit(cache=True, nogil=True)
def _find_blocks(
    times: Integers, first: Integers, end: Integers, low: Integers, high: Integers, count: int
) -> tuple[Integers, Integers]:
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    made = 0
    for number in range(len(first)):
        place = np.uintp(number)
        at = first[place]
        while at < end[place]:
            begins[np.uintp(made)] = at
            at = _block_end(times, at, end[place], low[place], high[place])
            ends[np.uintp(made)] = at
            made += 1
    return begins, ends


@njit(cache=True, nogil=True)
def _half(times: Integers, begin: int, end: int) -> int:
    """Where the right half of the smallest block around some rows begins."""
    last = times[np.uintp(end - 1)]
    differing, level = times[np.uintp(begin)] ^ last, 0
    while differing >> (level + 1):
        level += 1
    return _first_from(times, begin, end, last >> level << level)


@njit(cache=True, nogil=True)
def _node(times: Integers, begin: int, end: int) -> int:
    """The number of a block: that of its only row; or, behind all rows, that of the row before its right half."""
    return begin if end - begin == 1 else len(times) + _half(times, begin, end) - 1


@njit(cache=True, nogil=True)
def _tree(times: Integers, begins: Integers, ends: Integers) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """Blocks that have to be made by merging two, each once and behind its halves: their numbers, those of both halves,
    and how many merges come one after another; and for each block that is asked for its number."""
    rows = len(times)
    seen = np.zeros(2 * rows, np.int64)
    spans_begin, spans_end, count = np.empty(rows, np.int64), np.empty(rows, np.int64), 0
    found = np.empty(len(begins), np.int64)
    for number in range(len(begins)):
        place = np.uintp(number)
        found[place] = node = _node(times, begins[place], ends[place])
        if node >= rows and not seen[np.uintp(node)]:
            seen[np.uintp(node)] = 1
            spans_begin[np.uintp(count)], spans_end[np.uintp(count)] = begins[place], ends[place]
            count += 1
    done = 0
    nodes, lefts, rights = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    while done < count:  # blocks are found from above, each one once
        place = np.uintp(done)
        begin, end = spans_begin[place], spans_end[place]
        half = _half(times, begin, end)
        nodes[place] = rows + half - 1
        lefts[place], rights[place] = _node(times, begin, half), _node(times, half, end)
        for low, high, node in ((begin, half, lefts[place]), (half, end, rights[place])):
            if node >= rows and not seen[np.uintp(node)]:
                seen[np.uintp(node)] = 1
                spans_begin[np.uintp(count)], spans_end[np.uintp(count)] = low, high
                count += 1
        done += 1
    heights = np.zeros(count, np.int64)
    depth = np.zeros(2 * rows, np.int64)
    order = np.argsort((spans_end[:count] - spans_begin[:count]), kind="mergesort")
    for number in order:
        place = np.uintp(number)
        height = 1 + max(depth[np.uintp(lefts[place])], depth[np.uintp(rights[place])])
        heights[place] = depth[np.uintp(nodes[place])] = height
    return nodes[:count], lefts[:count], rights[:count], heights, found
