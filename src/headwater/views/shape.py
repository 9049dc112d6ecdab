"""The shape of a view: its columns and its key, and their evolution when the app changes. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headwater.errors import InvalidQuery, JobRefused, UnstorableValue
from headwater.views.column_types import from_words, nested, plain, spoken, to_words

RESERVED = "_"  # names that begin so are ours
ONE_ROW = ("_all",)
"""Given as the key of a table that has one row and no key: an aggregate of everything."""
COLUMN_NAME_BYTES_MAX = 63  # where PostgreSQL would cut it, without a word


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType

    @property
    def nested(self) -> bool:
        return nested(self.type)


@dataclass(frozen=True)
class Shape:
    """Without a key, the table only grows: each batch appends its rows. With `one_row` it has no key either, and what
    comes takes the place of the row that is there."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    one_row: bool = False

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        return tuple(self._by_name[name] for name in self.key)

    @property
    def key_type(self) -> pa.DataType:
        """The key as one value, as deletes are remembered by."""
        return pa.struct([pa.field(column.name, column.type) for column in self.key_columns])

    def column(self, name: str) -> Column:
        found = self._by_name.get(name)
        if found is None:
            raise InvalidQuery(f'there is no column "{name}"', f"The columns are {', '.join(self.names)}.")
        return found

    def to_json(self) -> str:
        columns = [[column.name, to_words(column.type)] for column in self.columns]
        said: dict[str, object] = {"key": list(self.key), "columns": columns}
        return json.dumps({**said, "one_row": True} if self.one_row else said)

    @classmethod
    def from_json(cls, text: str) -> "Shape":
        data = json.loads(text)
        columns = tuple(Column(name, from_words(words)) for name, words in data["columns"])
        return cls(columns, tuple(data["key"]), bool(data.get("one_row", False)))


def shape_of(view: str, schema: pa.Schema, key: Sequence[str]) -> Shape:
    """The columns of rows that are to be stored. Reserved ones (`_op`, `_before`) are about rows, not part of them."""
    columns = tuple(Column(field.name, plain(field.type)) for field in schema if not field.name.startswith(RESERVED))
    names = [column.name for column in columns]
    _check_names(view, names)
    one_row = tuple(key) == ONE_ROW
    missing = [name for name in key if name not in names and not one_row]
    if missing:
        raise JobRefused(f'view "{view}" has no column "{missing[0]}" to be its key', f"It has {', '.join(names)}.")
    for column in columns:
        _check_storable(view, column)
    return Shape(columns, () if one_row else tuple(key), one_row)


def _check_names(view: str, names: list[str]) -> None:
    same = [name.casefold() for name in names]  # to Spark and SQLite, upper and lower case are the same
    twice = sorted({name for name in names if same.count(name.casefold()) > 1})
    if twice:
        raise JobRefused(f'view "{view}" would have the column "{twice[0]}" twice', "Give one another name.")
    long = [name for name in names if not name or len(name.encode()) > COLUMN_NAME_BYTES_MAX or "\0" in name]
    if long:
        raise JobRefused(
            f'view "{view}" cannot have a column named {long[0][:80]!r}',
            f"A name has 1 to {COLUMN_NAME_BYTES_MAX} bytes.",
        )


def _check_storable(view: str, column: Column) -> None:
    try:
        to_words(column.type)
    except UnstorableValue as error:
        raise UnstorableValue(f'column "{column.name}" of view "{view}": {error.args[0]}', error.hint) from None


def evolved(view: str, stored: Shape, wanted: Shape) -> Shape:
    """Returns the shape that the stored view must get for `wanted`; JobRefused where only a rebuild helps.

    New columns are added. Those that are no longer produced stay, and get nulls from now on.
    """
    way_out = f"Rebuild it from the log with: headwater run APP.py --rebuild {view}"
    if (stored.key, stored.one_row) != (wanted.key, wanted.one_row):
        raise JobRefused(
            f'view "{view}" has the key {_listed(stored.key)}; the app now says {_listed(wanted.key)}', way_out
        )
    held = {column.name: column for column in stored.columns}
    for column in wanted.columns:
        old = held.get(column.name)
        if old is not None and old.type != column.type:
            raise JobRefused(
                f'column "{column.name}" of view "{view}" is {spoken(old.type)}; '
                f"the app now says {spoken(column.type)}",
                way_out,
            )
    added = tuple(column for column in wanted.columns if column.name not in held)
    return Shape(stored.columns + added, stored.key, stored.one_row)


def quoted(name: str) -> str:
    """A name that SQL takes for a name, whatever is in it.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def _listed(key: tuple[str, ...]) -> str:
    return f"({', '.join(key)})"
