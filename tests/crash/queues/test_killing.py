"""A real node and share consumers, killed in the middle of everything."""

from pathlib import Path

import pytest

from tests.crash.queues.killing import Killing


@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.torture)])
@pytest.mark.timeout(3600)
def test_every_message_is_acknowledged_or_put_aside_once_whoever_dies(rounds: int, tmp_path: Path) -> None:
    killing = Killing(tmp_path, seed=rounds)
    killing.run(rounds)
    assert killing.anomalies == []
    assert killing.messages > rounds
    assert len(killing.lines.accepted) > rounds
