"""One change of a row of another system: the shape that every source gives and every topic gets.

A row is a list of JSON fragments, one for each column of its table, in the table's order. A fragment is the finished
JSON text of one value, so that a value is converted once, where its type is known, and never looked at again. NULL of
the database is the fragment `null`; None is a column the source did not send: it was not part of a partial `before`, or
it was large, unchanged, and left out by the database.
"""

from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import UndecodableChange
from headwater.record import Header

Row = list[bytes | None]

CREATE, UPDATE, DELETE, READ, TRUNCATE = "c", "u", "d", "r", "t"
BEGIN, END = "BEGIN", "END"
POSITION = b"%X/%X/%d"
"""How a position is written: commit, address, number."""

RECORDS_PER_CHANGE = 4
"""A change makes at most so many records: delete and tombstone of an old key, then the row under its new one."""


class SourcePosition(NamedTuple):
    """Where a record stands in the log of its source; positions of one capture are ordered as tuples are.

    Many rows share an address (COPY writes a page of them at once), and a transaction is only in order by its commit:
    so it takes all three. `number` distinguishes the records that share `commit` and `address`.
    """

    commit: int
    address: int
    number: int

    def header(self) -> bytes:
        """
        >>> SourcePosition(0x1A0, 0x198, 3).header()
        b'1A0/198/3'
        """
        return POSITION % self

    def after(self, number: int) -> "SourcePosition":
        """Returns the position of the record that is `number` records after this one."""
        return SourcePosition(self.commit, self.address, self.number + number)

    @classmethod
    def from_header(cls, text: bytes) -> "SourcePosition":
        """
        >>> SourcePosition.from_header(b"1A0/198/3")
        SourcePosition(commit=416, address=408, number=3)
        """
        try:
            commit, address, number = text.split(b"/")
            return cls(int(commit, 16), int(address, 16), int(number))
        except ValueError:
            raise UndecodableChange(f"{text[:80]!r} is not the position of a change") from None


NOWHERE = SourcePosition(-1, -1, -1)


def next_generation(last: int, now_ms: int) -> int:
    """For sources that count from 1: counts of a later generation lie after all of an earlier one, `generation << 64`.

    It is taken from the clock, because a capture that was removed and created again has forgotten its last one, and its
    topic has not. It must be noted before anything is emitted under it.

    >>> next_generation(0, 1_700_000_000_000), next_generation(1_700_000_000_000, 5)
    (1700000000000, 1700000000001)
    """
    return max(last + 1, now_ms)


class TransactionOrder(NamedTuple):
    """The order of a change among all events of its transaction, and among those of its table; both count from 1."""

    transaction: str
    total: int
    of_table: int

    def next(self) -> "TransactionOrder":
        return TransactionOrder(self.transaction, self.total + 1, self.of_table + 1)


@dataclass(frozen=True, slots=True, eq=False)
class CapturedTable:
    """A table as it was when its changes were written: another version of it is another object."""

    schema: str
    name: str
    topic: str
    columns: tuple[str, ...]
    key: tuple[int, ...]
    """Indexes of the key columns; () for a table without a key."""

    wide_bytes: int = 254
    """Bytes of a row as JSON from which the database may leave out an unchanged value. PostgreSQL does so in rows of
    2,032 bytes and more; as text a row may be shorter than it is on the disk, but not eight times."""

    plain: bool = False
    """Its topic has records as they are (Plain), without an envelope."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


class Plain(NamedTuple):
    """A record as it is going to be in the topic, where there is no row: an event, a line, a metric."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(slots=True, eq=False)
class Change:
    """One row created, updated, deleted or read; or a whole table truncated; or a transaction's begin or end."""

    table: CapturedTable
    operation: str
    position: SourcePosition
    source: bytes
    """The block `source` of the envelope, as JSON; of a begin or end, all there is to say."""

    before: Row | None = None
    after: Row | None = None
    time_ms: int = 0
    """When it was committed, or read."""

    chunk: bytes = b""
    """Of a row read by a snapshot: which snapshot, and which part of it. Read again, it has the same name."""

    key_text: tuple[str, ...] | None = None
    """The key as the source writes it, given where `after` is not whole: with it the row can be asked for."""

    older_than: int = 0
    """Of a truncation: it ends only keys whose last record was committed before this address; 0 ends all."""

    superseded: bool = False
    """Of a row read by a snapshot: a later change of it is in the topic already."""

    order: TransactionOrder | None = None
    """In its transaction, where that is asked for."""

    plain: Plain | None = None
    """The whole record, of a table that is `plain`."""
