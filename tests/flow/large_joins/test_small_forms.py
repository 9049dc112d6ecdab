"""The long runs in a small form, and their oracle against the plainest idea of the same thing."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.flow.large_joins import clicks


def plain_pairs(searches: clicks.Side, others: clicks.Side) -> list[tuple[int, int]]:
    found = [
        (int(searches.ids[one]), int(others.ids[other]))
        for one, other in product(range(len(searches.ids)), range(len(others.ids)))
        if searches.sessions[one] == others.sessions[other]
        and 0 <= others.times_ms[other] - searches.times_ms[one] <= clicks.HOUR_MS
    ]
    alone = {int(id) for id in searches.ids} - {search for search, _ in found}
    return sorted([*found, *((id, clicks.NOBODY) for id in alone)])


@pytest.mark.parametrize("seed", range(3))
def test_the_judge_of_clicks_finds_the_pairs_that_looking_at_all_of_them_finds(seed: int) -> None:
    searches, others = clicks.make(150, seed)
    assert [tuple(pair) for pair in clicks.pairs_of(searches, others).tolist()] == plain_pairs(searches, others)


@pytest.mark.slow
def test_searches_and_clicks_in_a_small_form_are_exact(tmp_path: Path) -> None:
    outcome = clicks.run(800, 2, tmp_path, fed=lambda rows: None, processed=lambda rows: None)
    assert outcome.anomalies == []
    assert outcome.figures["pairs"] > 100
    assert outcome.figures["unclicked"] > 100


def test_one_result_too_many_and_one_too_few_are_both_told() -> None:
    wanted = np.array([[1, 7], [2, clicks.NOBODY]])
    (difference,) = clicks.differences(np.array([[1, 7], [3, 9]]), wanted)
    assert difference == "1 results should not be there, such as [(3, 9)], and 1 are missing, such as [(2, -1)]"
    assert clicks.differences(wanted, wanted) == []
