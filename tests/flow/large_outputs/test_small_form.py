"""The long run in a small form: rows that are missing, or there twice, are found."""

import numpy as np

from tests.flow.large_outputs.copies import differences


def test_a_row_that_is_missing_and_one_that_is_there_twice_are_both_told() -> None:
    assert differences(np.array([2, 0, 1]), 3) == []
    missing, many = differences(np.array([0, 2, 2]), 3)
    assert missing == "1 of 3 rows are missing, such as [1]"
    assert many == "1 rows are there more than once, such as [2]"
