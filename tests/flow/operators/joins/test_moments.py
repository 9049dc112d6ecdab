"""Searches in groups that are sorted by time find what a plain loop finds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.joins.moments import first_of, last_that_counts

ALWAYS = -(2**62)
moments = st.integers(-3, 8)
rows = st.lists(st.tuples(st.integers(0, 2), moments, st.sampled_from([ALWAYS, -1, 2, 5])), max_size=12)
"""A group, a time, and from when on it counts."""
WANTED = [(group, moment) for moment in range(-4, 10) for group in (2, -1, 0, 3, 1)]
"""All that can be asked for, in no order."""
Row = tuple[int, int, int]


def columns(values: list[tuple[int, ...]], width: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.array([value[place] for value in values], np.int64) for place in range(width)]


@settings(max_examples=100, deadline=None)
@given(found=rows)
def test_the_first_row_that_is_not_before_a_time_is_found(found: list[Row]) -> None:
    lying = sorted(found)
    groups, times, _ = columns([*lying], 3)
    places = first_of(groups, times, *columns([*WANTED], 2))
    for (group, time), place in zip(WANTED, places.tolist(), strict=True):
        before = [row for row in lying if row[:2] < (group, time)]
        assert place == len(before), "the number of rows before it"


@settings(max_examples=100, deadline=None)
@given(found=rows)
def test_the_last_row_that_counted_at_a_moment_is_found(found: list[Row]) -> None:
    lying = sorted(found)
    places = last_that_counts(*columns([*lying], 3), *columns([*WANTED], 2))
    for (group, moment), place in zip(WANTED, places.tolist(), strict=True):
        counting = [
            number
            for number, (own, time, seen) in enumerate(lying)
            if own == group and time <= moment and seen <= moment
        ]
        assert place == (counting[-1] if counting else -1)


def test_times_at_the_ends_of_what_is_kept_are_found() -> None:
    groups, times = np.array([0, 0], np.int64), np.array([-(2**62), 2**62], np.int64)
    wanted = np.array([0, 0, 0], np.int64)
    assert first_of(groups, times, wanted, np.array([-(2**62), 0, 2**62 + 1], np.int64)).tolist() == [0, 1, 2]
