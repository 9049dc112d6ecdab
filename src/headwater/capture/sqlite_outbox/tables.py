"""Tables of a SQLite database as they are now, and which of them are wanted. Pure, but for asking."""

import sqlite3
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

SCHEMA = "main"
OUR_PREFIX = "headwater_"
ROWID_NAMES = ("rowid", "_rowid_", "oid")
HIDDEN = 1  # a column of a virtual table that is no column of its rows


class Unique(NamedTuple):
    """Columns of which no two rows have the same values: (name, collation) each."""

    columns: tuple[tuple[str, str], ...]


class Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    key: tuple[int, ...]
    """Indexes of the primary key's columns; () without one."""

    rowid: str
    """By which name its rows' own number can be asked for; "" for a table WITHOUT ROWID."""

    uniques: tuple[Unique, ...]
    expressions: tuple[str, ...]
    """Unique indexes over expressions: what REPLACE deletes through them is not seen."""

    @property
    def full_name(self) -> str:
        return f"{SCHEMA}.{self.name}"


def quoted(name: str) -> str:
    """
    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def wanted(name: str, patterns: Sequence[str]) -> bool:
    """
    >>> wanted("users", ["main.users"]), wanted("users", ["us*"]), wanted("users", ["orders"])
    (True, True, False)
    """
    return any(fnmatchcase(name, pattern) or fnmatchcase(f"{SCHEMA}.{name}", pattern) for pattern in patterns)


def tables(database: sqlite3.Connection, patterns: Sequence[str]) -> list[Table]:
    """Real tables that are wanted: no views, no virtual tables and what these keep their content in, none of ours."""
    names = database.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\' ORDER BY name"
    ).fetchall()
    return [look_at(database, name) for (name,) in names if not name.startswith(OUR_PREFIX) and wanted(name, patterns)]


def look_at(database: sqlite3.Connection, name: str) -> Table:
    rows = database.execute("SELECT name, pk, hidden FROM pragma_table_xinfo(?)", (name,)).fetchall()
    shown = [(column, ordinal) for column, ordinal, hidden in rows if hidden != HIDDEN]
    columns = tuple(column for column, _ in shown)
    key = sorted((ordinal, number) for number, (_, ordinal) in enumerate(shown) if ordinal)
    (without_rowid,) = database.execute(
        "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", (name,)
    ).fetchone()
    taken = {column.lower() for column in columns}
    rowid = "" if without_rowid else next((one for one in ROWID_NAMES if one not in taken), "")
    uniques, expressions = _uniques(database, name)
    key_columns = tuple(number for _, number in key)
    if rowid and len(key_columns) == 1:
        # An INTEGER PRIMARY KEY has no index of its own; for others this only says twice what the index says.
        uniques = [*uniques, Unique(((columns[key_columns[0]], ""),))]
    return Table(name, columns, key_columns, rowid, tuple(dict.fromkeys(uniques)), tuple(expressions))


def _uniques(database: sqlite3.Connection, table: str) -> tuple[list[Unique], list[str]]:
    found, expressions = [], []
    indexes = database.execute('SELECT name FROM pragma_index_list(?) WHERE "unique" ORDER BY name', (table,))
    for (index,) in indexes.fetchall():
        rows = database.execute("SELECT name, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", (index,))
        columns = tuple(rows.fetchall())
        if any(name is None for name, _ in columns):
            expressions.append(index)
        else:
            found.append(Unique(columns))
    return found, expressions
