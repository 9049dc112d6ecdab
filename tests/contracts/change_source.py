"""What a runner relies on from a source of changes that can be read again. Subclass, give a `system` fixture, done.

A system is the source's database or the like. It knows how to write a numbered change there, how to open a source on
itself as a new process would, and which number a record has. (Metrics by UDP cannot be read again: they have no such
system.)
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Protocol

import pytest

from headwater.capture.appender import LogAppender
from headwater.capture.change import Change, SourcePosition
from headwater.capture.notes import Note, Notes
from headwater.capture.runner import Runner
from headwater.capture.source import ChangeSource
from headwater.clock import SystemClock
from headwater.log.log import Log
from headwater.record import Record
from tests.waiting import patience

PATIENCE_SECONDS = 30
WRITING = ("before append", "after append", "after sync")
NOTING, CONFIRMING = ("after notes",), ("before confirm", "after confirm")
TOPIC = "numbers"


class System(Protocol):
    def write(self, *numbers: int) -> None:
        """In one transaction, where there are such."""

    def source(self) -> ChangeSource:
        """As a new process would make it; its changes go to TOPIC."""

    def released(self) -> None:
        """Return when another may open a source."""

    def number_of(self, record: Record) -> int: ...


class Stopped(Exception):
    """The process ends here, so to speak."""


class Stopping:
    def __init__(self, point: str) -> None:
        self.left = point

    def __call__(self, name: str) -> None:
        if name == self.left:
            self.left = ""
            raise Stopped


def collect(source: ChangeSource, count: int) -> tuple[list[Change], dict[str, Note]]:
    """So many changes, and the notes that were durable before the first of them was emitted."""
    changes, notes = list[Change](), dict[str, Note]()
    deadline = patience() + PATIENCE_SECONDS
    while len(changes) < count:
        assert patience() < deadline, f"{len(changes)} of {count} changes came"
        batch = source.poll(0.05)
        changes += batch.changes
        if not changes:
            notes |= {what: note for what, note in batch.notes.items() if note is not None}
    return changes, notes


def positions(changes: list[Change]) -> list[SourcePosition]:
    return [change.position for change in changes]


class ChangeSourceContract:
    points: ClassVar[tuple[str, ...]] = (*WRITING, *NOTING, *CONFIRMING)
    """Moments of the runner that this source brings it to."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "point" in metafunc.fixturenames:
            assert metafunc.cls is not None
            metafunc.parametrize("point", metafunc.cls.points)

    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Log]:
        with Log.open(tmp_path / "data") as log:
            yield log

    def test_positions_only_grow(self, system: System) -> None:
        source = system.source()
        source.open({})
        source.poll(0)
        system.write(1, 2, 3)
        system.write(4)
        changes, _ = collect(source, 4)
        source.close()
        assert positions(changes) == sorted(set(positions(changes)))

    def test_a_batch_that_ends_with_a_transaction_says_how_far_all_has_passed(self, system: System) -> None:
        source = system.source()
        source.open({})
        source.poll(0)
        system.write(1, 2, 3)
        emitted, deadline = list[Change](), patience() + PATIENCE_SECONDS
        while len(emitted) < 3:
            assert patience() < deadline, f"{len(emitted)} of 3 changes came"
            batch = source.poll(0.05)
            emitted += batch.changes
        source.close()
        assert not batch.inside
        assert batch.inside is None or batch.passed > emitted[-1].position

    def test_every_change_belongs_to_a_table_that_is_known(self, system: System) -> None:
        source = system.source()
        source.open({})
        source.poll(0)
        system.write(1)
        (change,), _ = collect(source, 1)
        assert change.table.topic == TOPIC
        assert TOPIC in [table.topic for table in source.tables()]
        source.close()

    def test_what_was_not_confirmed_comes_again_from_the_same_positions(self, system: System) -> None:
        source = system.source()
        source.open({})
        begun = {what: note for what, note in source.poll(0).notes.items() if note is not None}
        system.write(1, 2)
        first, notes = collect(source, 2)
        source.close()
        system.released()
        again = system.source()
        again.open(begun | notes)
        second, _ = collect(again, 2)
        again.close()
        assert positions(second) == positions(first)

    def test_a_source_may_be_closed_twice(self, system: System) -> None:
        source = system.source()
        source.open({})
        source.close()
        source.close()

    def test_a_runner_that_is_stopped_anywhere_emits_each_change_once(
        self, system: System, log: Log, tmp_path: Path, point: str
    ) -> None:
        stopping = Stopping("")
        runner = self._run(system, log, tmp_path, stopping)
        stopping.left = point
        system.write(1, 2)
        deadline, emitted = patience() + PATIENCE_SECONDS, list[int]()
        while len(emitted) < 5:
            assert patience() < deadline, f"emitted so far: {emitted}"
            try:
                runner.step(0.05)
            except Stopped:
                runner.abandon()
                system.write(3, 4)
                system.released()
                runner = self._run(system, log, tmp_path, stopping)
                system.write(5)
            emitted = [system.number_of(record) for record in log.read(TOPIC, 0)]
        runner.close()
        assert emitted == [1, 2, 3, 4, 5]

    def _run(self, system: System, log: Log, folder: Path, stopping: Stopping) -> Runner:
        appender = LogAppender(log)
        runner = Runner(
            system.source(), appender, Notes(appender, "shop"),
            folder=folder / "capture", clock=SystemClock(), point=stopping,
        )  # fmt: skip
        runner.open()
        runner.step(0)
        return runner
