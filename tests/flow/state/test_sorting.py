"""Rows sorted by their digits are those that a comparison sorts."""

import numpy as np
import pytest

from headwater.flow.state.runs.sorting import SMALL, sorted_order

ROWS = 3 * SMALL


@pytest.mark.parametrize("spread", [1, 2**10, 2**30, 2**40, 2**62])
@pytest.mark.parametrize("skewed", [False, True])
def test_rows_are_sorted_and_equal_ones_keep_their_order(spread: int, skewed: bool) -> None:
    random = np.random.default_rng(spread)
    first = random.integers(-spread, spread, ROWS)
    if skewed:  # all but a few differ in their lowest bits alone, and fall
        first[7:] = np.arange(ROWS - 7)[::-1] // 2
        first[:7] = 2**62
    second = random.integers(-3, 3, ROWS)
    for columns in ([first], [second, first], [first, second]):
        assert np.array_equal(sorted_order(columns), np.lexsort(columns[::-1]))
