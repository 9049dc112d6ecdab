"""Which tables a capture follows, and how far their copies are. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from headwater.capture.mariadb_binlog.text_values import ColumnFacts
from headwater.capture.notes import Note
from headwater.errors import InvalidCapture

WILD = "*?["
BASE_TABLE = "BASE TABLE"
CHUNK_ROWS = 10_000
CHUNK_BYTES = 8 * 1024**2
NEVER_LEFT_OUT = 2**62
"""The log has whole rows: no value has to be looked up in the topic."""


class TableFacts(NamedTuple):
    """The current catalog entry of a table."""

    schema: str
    name: str
    kind: str
    engine: str
    transactional: bool
    rows: int
    """An estimate."""

    columns: tuple[ColumnFacts, ...]
    key: tuple[str, ...]
    """Columns of the primary key, in its order."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    def same_form(self, other: "TableFacts | None") -> bool:
        return other is not None and (self.columns, self.key) == (other.columns, other.key)


class Pattern(NamedTuple):
    schema: str
    name: str

    @property
    def wild(self) -> bool:
        return any(sign in self.schema + self.name for sign in WILD)

    def matches(self, schema: str, name: str) -> bool:
        return fnmatchcase(schema, self.schema) and fnmatchcase(name, self.name)


def parse_pattern(text: str, default: str) -> Pattern:
    """`default` is the schema of a name without one: that of the URL.

    >>> parse_pattern("users", "shop"), parse_pattern("shop.order_*", "").wild
    (Pattern(schema='shop', name='users'), True)
    """
    schema, dot, name = text.partition(".")
    if not dot:
        schema, name = default, schema
    if not schema or not name:
        raise InvalidCapture(
            f"{text!r} names no table", "Write DATABASE.TABLE, a pattern such as shop.*, or the database in the URL."
        )
    return Pattern(schema, name)


def chosen(tables: Iterable[TableFacts], patterns: Sequence[Pattern]) -> list[TableFacts]:
    return [
        table
        for table in tables
        if table.kind == BASE_TABLE and any(one.matches(table.schema, table.name) for one in patterns)
    ]


@dataclass(frozen=True)
class TableCopy:
    """How far the copy of one table is, as it is noted down."""

    table: str
    id: str
    """Names this copy: a second one of the same table has another."""

    after: tuple[str, ...] | None = None
    """The last key that was read, as SQL; None before the first chunk."""

    rows: int = 0
    estimate: int = 0
    where: str = ""
    done: bool = False
    renews: int = 0
    """The position from which the stream is whole again. 0: nothing was missed.

    Keys that the topic has from before, and that the copy does not find, are deleted at its end.
    """

    then: tuple[tuple[str, str], ...] = ()
    """Copies that follow when this one is done: the id of each, and its condition."""

    @property
    def begun(self) -> bool:
        return self.after is not None or self.rows > 0

    def advanced(self, *, last: tuple[str, ...] | None, rows: int, done: bool) -> "TableCopy":
        """Returns the copy advanced by `rows`; when it is done, the copy that follows it, if there is one."""
        if done and self.then:
            (id, where), *rest = self.then
            return TableCopy(self.table, id, estimate=self.estimate, where=where, then=tuple(rest))
        return replace(self, after=last or self.after, rows=self.rows + rows, done=done)

    def joined_by(self, asked: "TableCopy") -> "TableCopy":
        """Returns the work when another copy is requested: the rest of this copy is not left out.

        >>> whole = TableCopy("shop.users", "a", after=("500",), rows=500, renews=7)
        >>> whole.joined_by(TableCopy("shop.users", "b", where="id = 3")).then
        (('b', 'id = 3'),)
        >>> whole.joined_by(TableCopy("shop.users", "c"))
        TableCopy(table='shop.users', id='c', after=None, rows=0, estimate=0, where='', done=False, renews=7, then=())
        """
        if self.done:
            return asked
        if asked.where:
            return replace(self, then=(*self.then, (asked.id, asked.where)))
        return replace(asked, renews=max(self.renews, asked.renews))

    def to_note(self) -> Note:
        return {
            "table": self.table, "id": self.id, "after": self.after, "rows": self.rows, "estimate": self.estimate,
            "where": self.where, "done": self.done, "renews": self.renews, "then": self.then,
        }  # fmt: skip

    @classmethod
    def from_note(cls, note: Note) -> "TableCopy":
        after = note.get("after")
        return cls(
            table=str(note["table"]),
            id=str(note["id"]),
            after=None if after is None else tuple(after),  # type: ignore[arg-type]
            rows=int(str(note["rows"])),
            estimate=int(str(note["estimate"])),
            where=str(note["where"]),
            done=bool(note["done"]),
            renews=int(str(note["renews"])),
            then=tuple((str(id), str(where)) for id, where in note.get("then", ())),  # type: ignore[attr-defined]
        )


def rows_of_chunk(rows_read: int, bytes_read: int) -> int:
    """How many rows to ask for: fewer where they are wide, so that a chunk has about the same size always.

    >>> rows_of_chunk(0, 0), rows_of_chunk(100, 100 * 2**20)
    (10000, 8)
    """
    if rows_read == 0:
        return CHUNK_ROWS
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows_read // max(1, bytes_read)))
