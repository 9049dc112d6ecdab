"""A table read in chunks while its changes are captured: progress, and which rows of a chunk still count. Pure.

A chunk is one query, in the order of the key, after the last key of the chunk before. With it the query's own view of
transactions is asked for (database.py, Visible): exactly those whose work is in the rows. Then a mark is written into
the database's log. All that the query saw was committed before the mark; so where the mark comes by in the change
stream, every transaction has passed that the rows know, and perhaps some that they do not. Rows whose key such a later
transaction has touched are left out: the topic has them, newer. The rest is written there, at the position of the mark.

There is no low mark: where DBLog brackets the query between two marks and drops every key that changed between them, we
ask which transactions the query saw. That is exact, and it covers the commit that is in the log already but not yet
visible to queries, which two marks do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headwater.capture.change import Change
from headwater.capture.notes import Note
from headwater.capture.postgresql.database import Visible
from headwater.capture.postgresql.tables import TableFacts
from headwater.capture.source import TableProgress
from headwater.errors import InvalidCapture

PREFIX = "snapshot/"
CHUNK_ROWS = 10_000
CHUNK_BYTES = 8 * 1024**2
RowKey = tuple[bytes | None, ...]


@dataclass(frozen=True)
class TableSnapshot:
    """How far the copy of one table is, as it is noted down."""

    table: str
    id: str
    """Names this copy: a second one of the same table has another."""

    after: tuple[str, ...] | None = None
    """The last key that was read, as text; None before the first chunk."""

    rows: int = 0
    estimate: int = 0
    where: str = ""
    done: bool = False
    renews: int = 0
    """The address from which the stream is whole again after a gap: keys the topic knows from before it, and that the
    copy does not find, are deleted at the end. 0: there was no gap."""

    entry: int = 0
    """The table's entry in the publication. If it is another one now, changes in between were missed."""

    partitions: tuple[int, ...] | None = None
    """Of a partitioned table: the partitions whose rows the topic has once this copy is done; None if unknown.
    One that is attached brings rows without a change event, and one that is detached takes some away."""

    then: tuple[tuple[str, str], ...] = ()
    """Copies that follow when this one is done: the id of each, and its condition."""

    def advanced(self, *, last: tuple[str, ...] | None, rows: int, done: bool) -> "TableSnapshot":
        """Returns the copy advanced by `rows`; when it is done, the copy that follows it, if there is one."""
        if done and self.then:
            (id, where), *rest = self.then
            return replace(self, id=id, after=None, rows=0, where=where, renews=0, then=tuple(rest))
        return replace(self, after=last or self.after, rows=self.rows + rows, done=done)

    @property
    def progress(self) -> TableProgress:
        return TableProgress(self.table, self.rows, self.estimate, self.done)

    def to_note(self) -> Note:
        return {
            "table": self.table, "id": self.id, "after": self.after, "rows": self.rows, "estimate": self.estimate,
            "where": self.where, "done": self.done, "renews": self.renews, "entry": self.entry,
            "partitions": self.partitions, "then": self.then,
        }  # fmt: skip

    @classmethod
    def from_note(cls, note: Note) -> "TableSnapshot":
        after, partitions = note.get("after"), note.get("partitions")
        return cls(
            table=str(note["table"]),
            id=str(note["id"]),
            after=None if after is None else tuple(after),  # type: ignore[arg-type]
            rows=int(str(note["rows"])),
            estimate=int(str(note["estimate"])),
            where=str(note["where"]),
            done=bool(note["done"]),
            renews=int(str(note.get("renews", 0))),
            entry=int(str(note.get("entry", 0))),
            partitions=None if partitions is None else tuple(partitions),  # type: ignore[arg-type]
            then=tuple((str(id), str(where)) for id, where in note.get("then", ())),  # type: ignore[attr-defined]
        )


def snapshots_of(notes: Mapping[str, Note]) -> dict[str, TableSnapshot]:
    """The copies in the notes, by table."""
    named = {what.removeprefix(PREFIX): note for what, note in notes.items() if what.startswith(PREFIX)}
    return {table: TableSnapshot.from_note(note) for table, note in named.items()}


def joined(known: TableSnapshot | None, asked: TableSnapshot, *, keyed: bool) -> TableSnapshot:
    """Returns the work when another copy is requested: the rest of a running copy is not left out.

    >>> whole = TableSnapshot("public.users", "a", after=("500",), rows=500, renews=7)
    >>> part = joined(whole, TableSnapshot("public.users", "b", where="id = 3"), keyed=True)
    >>> part.rows, part.advanced(last=None, rows=9, done=True).where, joined(part, asked=whole, keyed=True).renews
    (500, 'id = 3', 7)
    """
    if asked.where and not keyed:
        raise InvalidCapture(
            f"table {asked.table} has no primary key: its copy begins by deleting all rows that the topic has of it",
            "Copy it as a whole, without --where.",
        )
    if known is None or known.done:
        return asked
    if asked.where:
        return replace(known, then=(*known.then, (asked.id, asked.where)))
    return replace(asked, renews=max(known.renews, asked.renews))


class Reshaped(NamedTuple):
    """Returns the copies that are needed because a partitioned table has other partitions than before."""

    where: str
    """The rows; all of them if it is empty."""

    vanished: bool
    """Whether rows may have been deleted: then those that the copy does not find are deleted."""


def reshaped(copy: TableSnapshot, now: Sequence[int]) -> Reshaped | None:
    """
    >>> done = TableSnapshot("public.logs", "s", done=True, partitions=(5, 6))
    >>> reshaped(done, [5, 6]), reshaped(done, [5, 6, 7]), reshaped(done, [6])
    (None, Reshaped(where='tableoid IN (7)', vanished=False), Reshaped(where='', vanished=True))
    """
    if copy.partitions is None or set(copy.partitions) == set(now):
        return None
    if not copy.done or set(copy.partitions) - set(now):
        return Reshaped("", True)
    fresh = sorted(set(now) - set(copy.partitions))
    return Reshaped(f"tableoid IN ({', '.join(map(str, fresh))})", False)


def rows_of_chunk(rows_read: int, bytes_read: int) -> int:
    """How many rows to ask for: fewer where they are wide, so that a chunk has about the same size always.

    >>> rows_of_chunk(0, 0), rows_of_chunk(100, 100 * 2**20)
    (10000, 8)
    """
    if rows_read == 0:
        return CHUNK_ROWS
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows_read // max(1, bytes_read)))


@dataclass
class Window:
    """A chunk that was read, from its query until its mark comes by in the stream."""

    snapshot: TableSnapshot
    facts: TableFacts
    visible: Visible
    mark: str
    rows: Sequence[list[bytes | None]]
    last: bool
    """Whether it was the last chunk."""

    completes: bool = False
    """Whether it was read to close gaps of rows, and is no part of a copy."""

    changed: set[RowKey] = field(default_factory=set)
    emptied: bool = False

    def note(self, change: Change, transaction: int) -> None:
        """A change of the same table passes: keys that the rows do not know in this version are remembered."""
        if self.visible.includes(transaction):
            return
        if change.before is None and change.after is None:
            self.emptied = True
        for row in (change.before, change.after):
            if row is not None:
                self.changed.add(tuple(row[index] for index in change.table.key))

    def superseded(self, key: RowKey) -> bool:
        return self.emptied or key in self.changed
