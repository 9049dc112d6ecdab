"""A real node, killed under transactional producers."""

from pathlib import Path

import pytest

from tests.crash.transactions.history import Fate
from tests.crash.transactions.killing import Killing


@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.torture)])
@pytest.mark.timeout(3600)
def test_transactions_survive_the_death_of_the_node_whole(rounds: int, tmp_path: Path) -> None:
    killing = Killing(tmp_path, seed=rounds)
    outcome = killing.run(rounds)
    assert outcome.anomalies == []
    fates = [one.fate for one in killing.books.history.transactions]
    assert outcome.acknowledged >= rounds
    assert {Fate.COMMITTED, Fate.ABORTED} <= set(fates)
