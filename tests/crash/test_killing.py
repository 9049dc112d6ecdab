"""The short form of `make torture`: kill -9 under load, a history, and the checker."""

from pathlib import Path

import pytest

from tests.crash.killing import Killing

ROUNDS = 8


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_node_that_is_killed_again_and_again_keeps_its_word(tmp_path: Path) -> None:
    outcome = Killing(tmp_path, seed=1).run(ROUNDS)
    for note in outcome.notes:
        print(note)
    assert outcome.anomalies == []
    assert outcome.rounds == ROUNDS
    assert outcome.acknowledged > 1_000
