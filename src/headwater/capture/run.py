"""Many changes at once: a source that has read them as they came may leave them so, and write their records itself."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from headwater.capture.change import CapturedTable, Change, SourcePosition
from headwater.log.record_contents import Contents


class Route(NamedTuple):
    """Where the records of a table go."""

    partitions: int
    followed: bool
    """Whether last values of this topic are kept, so that it matters which of its rows were deleted."""


class Landed(NamedTuple):
    """Records for one partition, and the position of the last one."""

    table: CapturedTable
    partition: int
    contents: Contents
    last: SourcePosition


class Kept(NamedTuple):
    """The last values of a wide row: its fragments, joined; None if it was deleted, or is not wide any more."""

    table: CapturedTable
    key: bytes
    fragments: bytes | None


class Written(NamedTuple):
    landed: list[Landed]
    kept: list[Kept]
    last_ms: int
    """The time of the last record."""


class Run(Protocol):
    """Changes that follow each other; all rows are whole, none has moved to another key, and positions grow."""

    @property
    def tables(self) -> Sequence[CapturedTable]:
        """Those that have rows among the changes."""

    @property
    def rows(self) -> int:
        """How many changes there are."""

    @property
    def first(self) -> SourcePosition:
        """That of the first change."""

    def changes(self) -> list[Change]:
        """One by one: what `written` writes is what these become."""

    def written(self, routes: Sequence[Route], *, now_ms: int) -> Written:
        """As records; `routes` are those of `tables`."""


@runtime_checkable
class EmitsRuns(Protocol):
    """A source that can emit runs beside changes, to a caller that accepts them."""

    def allow_runs(self) -> None:
        """Say so before it is opened."""
