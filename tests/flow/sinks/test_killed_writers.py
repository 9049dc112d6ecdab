"""kill -9 of a process that writes, at moments it did not choose."""

import subprocess
import sys
from pathlib import Path
from random import Random
from threading import Event

import pytest

from tests.contracts.sink import JOB, Place
from tests.flow.sinks.endless_writer import ROWS_PER_BATCH, place_of
from tests.rules.source import ROOT

ROUNDS = 4


def run_and_kill(kind: str, where: str, *, lines: int, then_seconds: float) -> None:
    command = [sys.executable, "-m", "tests.flow.sinks.endless_writer", kind, where]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        Event().wait(then_seconds)
        process.kill()
        assert all(said), "the writer ended by itself"


def check_killed(kind: str, where: str) -> None:
    dice = Random(3)
    place = place_of(kind, where)
    held = -1
    for _ in range(ROUNDS):
        run_and_kill(kind, where, lines=dice.randint(1, 6), then_seconds=dice.random() * 0.03)
        newest, numbers = settled(place)
        assert newest >= held, "a batch that was in is gone"
        held = newest
        # Files of a batch whose mark is missing are there already, and are replaced when it comes again.
        whole = numbers[: (held + 1) * ROWS_PER_BATCH] if kind == "parquet" else numbers
        assert whole == list(range((held + 1) * ROWS_PER_BATCH))


def settled(place: Place) -> tuple[int, list[int]]:
    """The newest batch, and what is there. A server may still be at the last thing that the dead process asked for."""
    sink = place.open()
    newest, numbers = -1, []
    while (now := sink.committed(JOB)) != newest:
        assert now is not None
        newest, numbers = now, place.numbers()
    sink.close()
    return newest, numbers


def test_a_killed_writer_of_sqlite_leaves_whole_batches(tmp_path: Path) -> None:
    check_killed("view", str(tmp_path))


def test_a_killed_writer_of_postgres_leaves_whole_batches(postgres_url: str) -> None:
    check_killed("view", postgres_url)


@pytest.mark.slow
def test_a_killed_writer_of_parquet_leaves_whole_batches(tmp_path: Path) -> None:
    check_killed("parquet", str(tmp_path / "numbers"))
