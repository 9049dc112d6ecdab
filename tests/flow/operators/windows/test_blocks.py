"""What a range of time is folded from depends on the times in it, and on nothing else."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.windows.blocks import blocks_of

Fold = Any
"""A time, or a pair of what was folded first and what was folded behind it."""
times_strategy = st.lists(st.integers(-40, 40) | st.integers(-(2**50), 2**50), unique=True, max_size=12).map(sorted)
bounds = st.integers(-50, 50) | st.integers(-(2**51), 2**51)
ranges_strategy = st.lists(st.tuples(bounds, bounds).map(sorted).map(tuple), min_size=1, max_size=5)


def folds(times: list[int], ranges: list[tuple[int, int]]) -> list[Fold]:
    """Carried out with pairs in the place of sums."""
    low, high = (np.array(side, np.int64) for side in zip(*ranges, strict=True))
    whole = np.array(times, np.int64)
    blocks = blocks_of(whole, np.searchsorted(whole, low), np.searchsorted(whole, high), low, high)
    rows: list[Fold] = list(times)
    for left, right in blocks.merges:
        rows += [(rows[one], rows[other]) for one, other in zip(left.tolist(), right.tolist(), strict=True)]
    found: list[Fold] = [None] * len(ranges)
    for places, block in blocks.rounds:
        for place, row in zip(places.tolist(), block.tolist(), strict=True):
            found[place] = rows[row] if found[place] is None else (found[place], rows[row])
    return found


def flat(fold: Fold) -> list[int]:
    if fold is None:
        return []
    return [*flat(fold[0]), *flat(fold[1])] if isinstance(fold, tuple) else [fold]


@given(times_strategy, ranges_strategy)
def test_a_range_is_folded_from_all_its_rows_in_the_order_of_time(
    times: list[int], ranges: list[tuple[int, int]]
) -> None:
    assert [flat(fold) for fold in folds(times, ranges)] == [
        [time for time in times if low <= time < high] for low, high in ranges
    ]


@given(times_strategy, ranges_strategy)
def test_rows_outside_of_a_range_and_other_ranges_do_not_change_the_order_of_its_merges(
    times: list[int], ranges: list[tuple[int, int]]
) -> None:
    alone = [folds([time for time in times if low <= time < high], [(low, high)])[0] for low, high in ranges]
    assert folds(times, ranges) == alone


@given(times_strategy, ranges_strategy, st.data())
def test_rows_of_nothing_do_not_change_it_either(
    times: list[int], ranges: list[tuple[int, int]], data: st.DataObject
) -> None:
    empty = data.draw(st.sets(st.sampled_from(times)) if times else st.just(set()))

    def without(fold: Fold) -> Fold:
        if not isinstance(fold, tuple):
            return None if fold in empty else fold
        left, right = map(without, fold)
        return right if left is None else left if right is None else (left, right)

    there = [time for time in times if time not in empty]
    assert [without(fold) for fold in folds(times, ranges)] == folds(there, ranges)


def test_the_number_of_merges_grows_with_rows_and_the_number_of_rounds_with_their_logarithm() -> None:
    times = np.arange(0, 4096 * 1_000_003, 1_000_003)
    low = times - 1_000_003 * 256
    blocks = blocks_of(times, np.searchsorted(times, low), np.arange(4096), low, times)
    assert sum(len(left) for left, _ in blocks.merges) <= len(times)
    assert len(blocks.merges) <= 2 * 8
    assert len(blocks.rounds) <= 4 * 8
