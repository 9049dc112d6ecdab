"""A small crowd follows a view; the large one is python -m tests.serve.crowd."""

import asyncio
from pathlib import Path

from tests.serve.crowd import play


def test_no_subscriber_of_many_misses_a_write_or_gets_one_twice_when_the_node_is_killed(tmp_path: Path) -> None:
    found = asyncio.run(play(tmp_path, subscribers=40, stalled=8, seconds=4, changes_per_second=400))
    assert found["faults"] == []
    assert found["complete"] == 32
    assert found["resumed"] >= 32
    assert found["grown_mib"] < 64
