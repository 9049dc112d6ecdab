"""What is shown of many rounds: the median, the extremes, and the ratio to another contender."""

import pytest

from benchmarks.results import Case, Results, percentile

CASE = Case("produce", ("1 kB",))


def rounds(**rates: list[float]) -> Results:
    results = Results()
    for who, values in rates.items():
        for value in values:
            results.add(CASE, who, megabytes=value)
    return results


def test_the_median_forgets_a_bad_round() -> None:
    results = rounds(headwater=[300, 20, 310])
    assert results.median(CASE, "headwater", "megabytes") == 300
    assert results.spread(CASE, "headwater", "megabytes") == (20, 310)


def test_a_ratio_compares_medians() -> None:
    results = rounds(headwater=[200, 300, 400], kafka=[100, 150, 900])
    assert results.ratio(CASE, "headwater", "kafka", "megabytes") == 2


def test_what_was_not_measured_has_no_number() -> None:
    results = rounds(headwater=[200])
    assert results.median(CASE, "kafka", "megabytes") is None
    assert results.ratio(CASE, "headwater", "kafka", "megabytes") is None


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 99)])
def test_a_percentile_is_a_value_that_occurred(share: float, expected: int) -> None:
    assert percentile(list(range(100)), share) == expected
