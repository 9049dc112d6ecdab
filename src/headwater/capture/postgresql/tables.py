"""Which tables a capture follows, and what is their key. Pure."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from struct import Struct
from struct import error as TooShort
from typing import NamedTuple

from headwater.capture.change import CapturedTable, Row
from headwater.capture.postgresql.pgoutput import NULL, TEXT, UNCHANGED, Cells, Relation
from headwater.capture.postgresql.types import Convert, TypeFacts, converter
from headwater.errors import InvalidCapture

FULL, INDEX, NOTHING, DEFAULT = "f", "i", "n", "d"
WILD = "*?["
_INT32 = Struct(">I")


class ColumnFacts(NamedTuple):
    name: str
    type: int
    modifier: int
    type_name: str
    """As SQL writes it."""


class TableFacts(NamedTuple):
    """The current catalog entry of a table."""

    id: int
    schema: str
    name: str
    identity: str
    primary_key: tuple[str, ...]
    index_key: tuple[str, ...]
    """Columns of the index that is its replica identity."""

    columns: tuple[ColumnFacts, ...]
    partition: bool = False
    partitioned: bool = False
    owned: bool = True
    """Whether the role may alter it."""

    readable: bool = True
    rows: int = 0
    """An estimate."""

    toast_target: int = 2032
    """Bytes of a row from which PostgreSQL puts large values elsewhere."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that name a row in every change of it, deletes included."""
        return self.index_key if self.identity == INDEX else self.primary_key

    @property
    def changes_refused(self) -> bool:
        """Whether PostgreSQL would refuse updates and deletes of it once it is in a publication."""
        return self.identity == NOTHING or (self.identity == DEFAULT and not self.primary_key)


class Pattern(NamedTuple):
    schema: str
    name: str

    @property
    def wild(self) -> bool:
        return any(sign in self.schema + self.name for sign in WILD)

    def matches(self, schema: str, name: str) -> bool:
        return fnmatchcase(schema, self.schema) and fnmatchcase(name, self.name)


def parse_pattern(text: str) -> Pattern:
    """
    >>> parse_pattern("users"), parse_pattern("shop.order_*").wild
    (Pattern(schema='public', name='users'), True)
    """
    schema, dot, name = text.partition(".")
    if not dot:
        schema, name = "public", schema
    if not schema or not name:
        raise InvalidCapture(f"{text!r} names no table", "Write SCHEMA.TABLE, or a pattern such as shop.*.")
    return Pattern(schema, name)


def chosen(tables: Iterable[TableFacts], patterns: Iterable[str]) -> list[TableFacts]:
    """Tables that a pattern names; partitions of a table only if they are named themselves."""
    parsed = [parse_pattern(pattern) for pattern in patterns]
    return [
        table
        for table in tables
        if any(one.matches(table.schema, table.name) and not (one.wild and table.partition) for one in parsed)
    ]


class Plan:
    """How the rows of one version of a table become fragments."""

    def __init__(self, table: CapturedTable, relation: Relation, catalog: Mapping[int, TypeFacts]) -> None:
        self.table = table
        self.converters: list[Convert] = [converter(one.type, one.modifier, catalog) for one in relation.columns]
        self.identity = [one.identity for one in relation.columns]
        self._count = len(relation.columns).to_bytes(2, "big")

    def read(self, message: bytes, position: int) -> Row | None:
        """The short way for a tuple that ends its message, with a value for each column that is text or NULL.

        None if it is not so, or not sound: then it is for the decoder to say what it is.
        """
        if message[position : position + 2] != self._count:
            return None
        position += 2
        row: Row = []
        append, int32, text = row.append, _INT32.unpack_from, TEXT
        try:
            for convert in self.converters:
                kind = message[position]
                if kind == text:
                    start = position + 5
                    position = start + int32(message, position + 1)[0]
                    append(convert(message[start:position]))
                elif kind == NULL:
                    append(b"null")
                    position += 1
                else:
                    return None
        except (TooShort, IndexError):
            return None
        return row if position == len(message) else None

    def row(self, cells: Cells) -> Row:
        return [
            b"null" if cell is None else None if cell is UNCHANGED else convert(cell)  # type: ignore[arg-type]
            for cell, convert in zip(cells, self.converters, strict=True)
        ]

    def key_row(self, cells: Cells) -> Row:
        """What is known of an old row when only its identity was sent: the rest comes as NULL, which it need not be."""
        row = self.row(cells)
        return [value if known else None for value, known in zip(row, self.identity, strict=True)]
