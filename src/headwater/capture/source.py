"""The contract of everything that changes can be captured from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from headwater.capture.change import NOWHERE, CapturedTable, Change, SourcePosition
from headwater.capture.notes import Note
from headwater.capture.run import Run


@dataclass
class Batch:
    """The result of one poll: changes in the order of their positions, and notes to write once they are durable."""

    changes: list[Change] = field(default_factory=list)
    notes: dict[str, Note | None] = field(default_factory=dict)
    """To be written when the changes are durable, and before anything is confirmed."""

    safe: int | None = None
    """Once the changes are durable, all before this address of the source may be confirmed."""

    runs: list[tuple[int, Run]] = field(default_factory=list)
    """Many changes at once, each with its index: how many of `changes` come before it. Only for who allowed them."""

    inside: bool | None = None
    """Whether more changes of its transaction follow the last change; None where there are no transactions.
    A batch that has the end of a transaction ends with one: no reader could see where else it ended."""

    passed: SourcePosition = NOWHERE
    """All changes before this position have been given, in this batch or earlier, and no later change only in part."""

    more: bool = False
    """Whether more has come already, and was left for the next poll so as not to cut a transaction."""

    @property
    def count(self) -> int:
        """Of changes, those of runs included."""
        return len(self.changes) + sum(run.rows for _, run in self.runs)


@dataclass
class TableProgress:
    """How far the snapshot of a table is."""

    table: str
    rows: int = 0
    estimate: int = 0
    done: bool = False


@dataclass
class SourceStatus:
    """The state that a source reports."""

    position: str = ""
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    """For how long the oldest change has been waiting that is not durable here yet."""

    retained_bytes: int | None = None
    warning: str = ""
    pause_others: bool = False
    """Whether other captures of the node have to wait until this one has caught up: as was declared for its limit."""

    snapshots: list[TableProgress] = field(default_factory=list)


class ChangeSource(Protocol):
    """Another system's changes, in order, from where they were last confirmed.

    A source repeats what was not confirmed, from the same positions; the reader skips what the log has. Opened
    again after any failure it resumes without a gap, or raises SourceGap.
    """

    def open(self, notes: Mapping[str, Note]) -> None:
        """Connect and resume. `notes` are all that this source has ever given, as far as they became durable."""

    def tables(self) -> Sequence[CapturedTable]:
        """The tables that it follows, once it is open: they have topics before anything happens to them."""

    def poll(self, timeout_seconds: float) -> Batch:
        """Returns the available changes; waits at most `timeout_seconds` for the first one."""

    def confirm(self, address: int) -> None:
        """All before this address is durable: the source may forget it. Addresses never go back."""

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        """Read this row soon, unless it is going to be read anyhow: the topic has it with a gap. `moved`: it has come
        to this key from another. Nothing after its change is safe before the row has arrived."""

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        """Read tables once more while changes are captured: all of them if none is named, or rows with a condition."""

    def status(self) -> SourceStatus: ...

    def close(self) -> None:
        """Disconnect. What was not confirmed comes again."""


@runtime_checkable
class Guarded(Protocol):
    """A source that costs its system something even when no capture reads it, and can be monitored without opening it.
    SourceGap if it had to be given up."""

    def guard(self) -> SourceStatus: ...


@runtime_checkable
class Drained(Protocol):
    """A source that holds something back: when it is stopped it is asked for that first."""

    def drain(self) -> Batch: ...
