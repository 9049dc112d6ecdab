"""What a runner keeps of changes that it could not write, and of rows that it had to ask for."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.capture.appender import LogAppender
from headwater.capture.change import (
    CREATE,
    READ,
    RECORDS_PER_CHANGE,
    UPDATE,
    CapturedTable,
    Change,
    Plain,
    Row,
    SourcePosition,
)
from headwater.capture.notes import Note, Notes
from headwater.capture.runner import BEHIND_CHANGES, Runner
from headwater.capture.source import Batch, SourceStatus
from headwater.clock import SystemClock
from headwater.errors import CaptureError, SourceUnavailable
from headwater.log.log import Log

USERS = CapturedTable("shop", "users", "users", ("id", "tick", "body"), (0,), wide_bytes=10)


def change(commit: int, id: int, tick: int, body: str | None, operation: str = UPDATE) -> Change:
    after: Row = [b"%d" % id, b"%d" % tick, None if body is None else json.dumps(body).encode()]
    found = Change(USERS, operation, SourcePosition(commit, 0, RECORDS_PER_CHANGE), b"{}", None, after, 1, b"c")
    found.key_text = (str(id),) if body is None else None
    return found


class ScriptedSource:
    """A source that answers polls with what it was given; with an error where that was given."""

    def __init__(self, *answers: Batch | CaptureError) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, tuple[str, ...]]]()

    def open(self, notes: Mapping[str, Note]) -> None: ...

    def tables(self) -> Sequence[CapturedTable]:
        return [USERS]

    def poll(self, timeout_seconds: float) -> Batch:
        answer = self.answers.pop(0) if self.answers else Batch()
        if isinstance(answer, CaptureError):
            raise answer
        return answer

    def confirm(self, address: int) -> None: ...

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        self.asked.append((table, key))

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None: ...

    def status(self) -> SourceStatus:
        return SourceStatus()

    def close(self) -> None: ...


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "data") as log:
        yield log


def begun(source: ScriptedSource, log: Log, folder: Path) -> Runner:
    appender = LogAppender(log)
    runner = Runner(source, appender, Notes(appender, "shop"), folder=folder, clock=SystemClock())
    runner.open()
    return runner


def bodies(log: Log) -> list[tuple[int, str]]:
    rows = [json.loads(record.value or b"")["after"] for record in log.read("users", 0)]
    return [(row["tick"], row["body"]) for row in rows]


def test_a_value_of_a_change_that_was_never_written_does_not_complete_an_earlier_one(log: Log, tmp_path: Path) -> None:
    """The connection is lost between two polls that were to be written together, and all comes again."""
    first = Batch([change(1, 7, 1, "as it was at first", CREATE)])
    runner = begun(ScriptedSource(first), log, tmp_path)
    runner.step(0)
    runner.close()
    later = [change(2, 7, 2, None), change(3, 7, 3, "as it was later")]
    many = [change(4 + number, 1000 + number, 0, "x", CREATE) for number in range(BEHIND_CHANGES)]
    cut = begun(ScriptedSource(Batch([*later, *many]), SourceUnavailable("gone")), log, tmp_path)
    with pytest.raises(SourceUnavailable):
        cut.step(0)
    cut.abandon()
    again = begun(ScriptedSource(Batch([change(2, 7, 2, None), change(3, 7, 3, "as it was later")])), log, tmp_path)
    again.step(0)
    again.close()
    assert bodies(log) == [(1, "as it was at first"), (2, "as it was at first"), (3, "as it was later")]


def test_a_row_that_was_asked_for_is_asked_for_until_it_has_come(log: Log, tmp_path: Path) -> None:
    """Its change is in the topic with a gap, another one after it: when it comes again it is passed over."""
    cut = begun(ScriptedSource(Batch([change(1, 7, 1, None), change(2, 8, 1, "whole", CREATE)], safe=5)), log, tmp_path)
    cut.step(0)
    cut.abandon()
    row = change(3, 7, 1, "read", READ)
    row.superseded = True
    source = ScriptedSource(Batch([change(1, 7, 1, None), change(2, 8, 1, "whole", CREATE)]), Batch([row], safe=6))
    again = begun(source, log, tmp_path)
    assert source.asked == [("shop.users", ("7",))]
    again.step(0)
    again.step(0)
    again.close()
    assert bodies(log)[-1] == (1, "read")
    done = ScriptedSource()
    begun(done, log, tmp_path).close()
    assert done.asked == []


def test_an_event_may_have_a_header_of_the_name_of_ours(log: Log, tmp_path: Path) -> None:
    events = replace(USERS, plain=True)

    def change_at(commit: int) -> Change:
        found = change(commit, commit, 0, "x", CREATE)
        found.table, found.plain = events, Plain(b"k", b"%d" % commit, (("position", b"the user's"),))
        return found

    first = begun(ScriptedSource(Batch([change_at(1), change_at(2)])), log, tmp_path)
    first.step(0)
    first.close()
    again = begun(ScriptedSource(Batch([change_at(2), change_at(3)])), log, tmp_path)
    again.step(0)
    again.close()
    assert [record.value for record in log.read("users", 0)] == [b"1", b"2", b"3"]


def test_an_index_that_is_no_index_is_rebuilt(log: Log, tmp_path: Path) -> None:
    path = filled(log, tmp_path)
    path.write_bytes(b"no database at all" * 100)
    assert completed(log, tmp_path) == (2, "x" * 900)


def test_an_index_that_is_damaged_somewhere_is_rebuilt_at_the_next_attempt(log: Log, tmp_path: Path) -> None:
    path = filled(log, tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:4096].ljust(len(content), b"\xff"))
    with pytest.raises(CaptureError, match="rebuilt"):
        completed(log, tmp_path)
    assert completed(log, tmp_path) == (2, "x" * 900)


def filled(log: Log, folder: Path) -> Path:
    wide = [change(1 + number, number, 1, "x" * 900, CREATE) for number in range(200)]
    runner = begun(ScriptedSource(Batch(wide)), log, folder)
    runner.step(0)
    runner.close()
    return folder / "values.sqlite"


def completed(log: Log, folder: Path) -> tuple[int, str]:
    """What becomes of a change that leaves out a value that the topic has."""
    runner = begun(ScriptedSource(Batch([change(1000, 150, 2, None)])), log, folder)
    runner.step(0)
    runner.close()
    return bodies(log)[-1]
