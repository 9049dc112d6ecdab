"""The outbox in the user's database: made, kept in step with the tables, read, and taken away again.

headwater_<capture>_<token>          every change, in the order of commits: SQLite lets one transaction write at a time,
                                     so the next number goes to the next commit
headwater_<capture>_<token>_doomed   see triggers.py; between two statements it means nothing
headwater_<capture>_<token>_shape    each version of each captured table: its columns and its key
headwater_<capture>_<token>_copy     how far the copies of tables are
headwater_<capture>_<token>_last     and the key of the row each has come to

Copies go through the outbox too: a chunk of rows is read and written into it in one short transaction, together with
how far the copy is. So a row that was read stands in order between the changes, and nothing has to be remembered
anywhere else.
"""

import json
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from headwater.capture.source import TableProgress
from headwater.capture.sqlite_outbox.tables import Table, quoted, tables
from headwater.capture.sqlite_outbox.triggers import (
    EMPTIED,
    ENDED,
    MOMENTS,
    NOW_MS,
    READ,
    doomed_columns,
    doomed_name,
    outbox_columns,
    trigger_name,
    triggers,
)
from headwater.capture.sqlite_outbox.values import Value

CHUNK_ROWS = 1_000
FIXED = ("number", "shape", "operation", "at_ms", "mark", "copy")
PARTS = ("", "_doomed", "_shape", "_copy", "_last")


class Entry(NamedTuple):
    """A row of the outbox."""

    number: int
    shape: int
    operation: str
    at_ms: int
    mark: int
    copy: str
    before: tuple[Value, ...]
    after: tuple[Value, ...]


class Shape(NamedTuple):
    """One version of a table."""

    id: int
    table: str
    columns: tuple[str, ...]
    key: tuple[int, ...]


class Outbox:
    """One connection, one thread. What is written is written in transactions of its own."""

    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self._database, self.name = database, name
        self._shapes: dict[int, Shape] = {}

    @property
    def exists(self) -> bool:
        found = self._database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (self.name,))
        return found.fetchone() is not None

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    # -- making it, and taking it away -------------------------------------------------------------------------------

    def make(self) -> None:
        name = self.name
        for statement in (
            f"CREATE TABLE {quoted(name)} (number INTEGER PRIMARY KEY AUTOINCREMENT, shape INTEGER, operation TEXT, "
            "at_ms INTEGER, mark INTEGER DEFAULT (random()), copy TEXT)",
            f"CREATE TABLE {quoted(doomed_name(name))} (shape INTEGER, id)",
            f"CREATE TABLE {quoted(name + '_shape')} (id INTEGER PRIMARY KEY AUTOINCREMENT, tab TEXT, columns TEXT, "
            '"key" TEXT)',
            f"CREATE TABLE {quoted(name + '_copy')} (tab TEXT PRIMARY KEY, id TEXT, condition TEXT, began INTEGER, "
            "copied INTEGER, estimate INTEGER, renews INTEGER, done INTEGER)",
            f"CREATE TABLE {quoted(name + '_last')} (tab TEXT, place INTEGER, value)",
        ):
            self._database.execute(statement)

    def drop(self) -> None:
        """Nothing of it stays, but for sqlite_sequence, which SQLite itself never lets go of."""
        with self.writing():
            made = self._database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger' AND substr(name, 1, ?) = ?",
                (len(self.name) + 1, f"{self.name}_"),
            ).fetchall()
            for (trigger,) in made:
                self._database.execute(f"DROP TRIGGER {quoted(trigger)}")
            for part in PARTS:
                self._database.execute(f"DROP TABLE IF EXISTS {quoted(self.name + part)}")
        self._shapes = {}

    # -- in step with the tables -------------------------------------------------------------------------------------

    def follow(self, patterns: Sequence[str], *, copying: bool) -> list[Table]:
        """Makes sure that every wanted table, as it is now, has triggers; within `writing`.

        A table without its triggers may have missed changes (it was dropped and created again, or they were removed):
        it is copied, and what it no longer has is ended. One whose columns changed is copied as well, because a new
        column was not captured until now.
        """
        found = tables(self._database, patterns)
        current = {shape.table: shape for shape in self.shapes().values()}  # the last of each table
        for table in found:
            shape = current.get(table.name)
            there = self._triggers_of(table.name)
            # SQLite itself writes a renamed column into the triggers: so their text alone is not enough.
            same = shape is not None and (shape.columns, shape.key) == (table.columns, table.key)
            if shape is not None and same and there == triggers(self.name, shape.id, table):
                continue
            self._install(table)
            if copying or shape is not None:
                self.copy_again(table.name, renews=shape is not None and len(there) < len(MOMENTS))
        names = [table.name for table in found]
        self._database.execute(
            f"UPDATE {quoted(self.name + '_copy')} SET done = 1 WHERE tab NOT IN ({', '.join('?' * len(names))})", names
        )
        return found

    def _triggers_of(self, table: str) -> dict[str, str]:
        names = [trigger_name(self.name, table, moment) for moment in MOMENTS]
        marks = ", ".join("?" * len(names))
        rows = self._database.execute(
            f"SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND name IN ({marks})",
            (table, *names),
        )
        return dict(rows.fetchall())

    def _install(self, table: Table) -> None:
        for moment in MOMENTS:
            name = trigger_name(self.name, table.name, moment)
            self._database.execute(f"DROP TRIGGER IF EXISTS {quoted(name)}")
        self._widen(self.name, outbox_columns(len(table.columns)))
        self._widen(doomed_name(self.name), doomed_columns(len(table.columns)))
        cursor = self._database.execute(
            f'INSERT INTO {quoted(self.name + "_shape")} (tab, columns, "key") VALUES (?, ?, ?)',
            (table.name, json.dumps(table.columns), json.dumps(table.key)),
        )
        assert cursor.lastrowid is not None
        for statement in triggers(self.name, cursor.lastrowid, table).values():
            self._database.execute(statement)

    def _widen(self, table: str, columns: Sequence[str]) -> None:
        rows = self._database.execute("SELECT name FROM pragma_table_info(?)", (table,))
        known = {name for (name,) in rows.fetchall()}
        for column in columns:
            if column not in known:
                self._database.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {column}")

    def shapes(self) -> dict[int, Shape]:
        """All of them: a few at most are new since they were last asked for."""
        rows = self._database.execute(
            f'SELECT id, tab, columns, "key" FROM {quoted(self.name + "_shape")} WHERE id > ? ORDER BY id',
            (max(self._shapes, default=0),),
        )
        for id, table, columns, key in rows.fetchall():
            self._shapes[id] = Shape(id, table, tuple(json.loads(columns)), tuple(json.loads(key)))
        return self._shapes

    # -- what it holds -----------------------------------------------------------------------------------------------

    def newest(self) -> int:
        """The number of the last change.

        A reader that sees one change of a transaction sees all: a transaction ends here.
        """
        (number,) = self._database.execute(f"SELECT max(number) FROM {quoted(self.name)}").fetchone()
        return number or 0

    def entries(self, after: int, until: int, limit: int) -> list[Entry]:
        cursor = self._database.execute(
            f"SELECT * FROM {quoted(self.name)} WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
            (after, until, limit),
        )
        names = [column[0] for column in cursor.description]
        index = {name: number for number, name in enumerate(names)}
        shapes, found = self.shapes(), []
        for row in cursor.fetchall():
            number, shape, operation, at_ms, mark, copy = (row[index[name]] for name in FIXED)
            count = len(shapes[shape].columns)
            before = tuple(row[index[f"b{column}"]] for column in range(count))
            after_row = tuple(row[index[f"a{column}"]] for column in range(count))
            found.append(Entry(number, shape, operation, at_ms, mark, copy or "", before, after_row))
        return found

    def mark_of(self, number: int) -> int | None:
        row = self._database.execute(f"SELECT mark FROM {quoted(self.name)} WHERE number = ?", (number,)).fetchone()
        return None if row is None else int(row[0])

    def forget(self, before: int) -> None:
        with self.writing():
            self._database.execute(f"DELETE FROM {quoted(self.name)} WHERE number < ?", (before,))

    def waiting(self, after: int) -> tuple[int, int | None]:
        """How many changes wait after a number, and when the first of them was made."""
        count, at_ms = self._database.execute(
            f"SELECT count(*), min(at_ms) FROM {quoted(self.name)} WHERE number > ?", (after,)
        ).fetchone()
        return count, at_ms

    # -- copies ------------------------------------------------------------------------------------------------------

    def copy_again(self, table: str, *, where: str = "", renews: bool = False) -> None:
        """Begin to copy a table, from its first row on; within `writing`."""
        if where:
            self._database.execute(f"SELECT 1 FROM {quoted(table)} WHERE ({where}) LIMIT 0")
        (estimate,) = self._database.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()
        began = self._database.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (self.name,)).fetchone()
        self._database.execute(f"DELETE FROM {quoted(self.name + '_last')} WHERE tab = ?", (table,))
        self._database.execute(
            f"INSERT OR REPLACE INTO {quoted(self.name + '_copy')} VALUES (?, ?, ?, ?, 0, ?, ?, 0)",
            (table, uuid.uuid4().hex[:12], where, (began[0] if began else 0) + 1, estimate, renews),
        )

    def copy_some(self) -> bool:
        """Put the next rows of a copy into the outbox; whether there were any to copy."""
        row = self._database.execute(
            f"SELECT tab, id, condition, began, renews FROM {quoted(self.name + '_copy')} WHERE NOT done LIMIT 1"
        ).fetchone()
        if row is None:
            return False
        table, id, condition, began, renews = row
        shape = {one.table: one for one in self.shapes().values()}[table]
        with self.writing():
            if shape.key:
                copied, done = self._copy_chunk(shape, id, condition)
            else:
                self._mark(shape, EMPTIED, id)
                copied, done = self._copy_rows(shape, id, condition, "", ()), True
            if done and renews and shape.key:
                self._mark(shape, ENDED, str(began))
            self._database.execute(
                f"UPDATE {quoted(self.name + '_copy')} SET copied = copied + ?, done = ? WHERE tab = ?",
                (copied, done, table),
            )
        return True

    def _mark(self, shape: Shape, operation: str, copy: str) -> None:
        self._database.execute(
            f"INSERT INTO {quoted(self.name)} (shape, operation, at_ms, copy) VALUES (?, ?, {NOW_MS}, ?)",
            (shape.id, operation, copy),
        )

    def _copy_chunk(self, shape: Shape, id: str, condition: str) -> tuple[int, bool]:
        """Rows in the order of their key, after the one that the copy has reached.

        Rows with a NULL in their key (SQLite lets them be) have no position in that order: they are read with the
        first.
        """
        names = [quoted(shape.columns[index]) for index in shape.key]
        rows = self._database.execute(
            f"SELECT value FROM {quoted(self.name + '_last')} WHERE tab = ? ORDER BY place", (shape.table,)
        )
        last = [value for (value,) in rows.fetchall()]
        whole = " AND ".join(f"{name} IS NOT NULL" for name in names)
        copied = 0
        if not last:
            copied = self._copy_rows(shape, id, condition, f"NOT ({whole})", ())
        order = f"({', '.join(names)}) > ({', '.join('?' * len(names))}) AND " if last else ""
        limit = f" ORDER BY {', '.join(names)} LIMIT {CHUNK_ROWS}"
        found = self._copy_rows(shape, id, condition, f"{order}{whole}", last, limit)
        if found:
            self._note_last(shape)
        return copied + found, found < CHUNK_ROWS

    def _copy_rows(
        self, shape: Shape, id: str, condition: str, more: str, values: Sequence[Value], limit: str = ""
    ) -> int:
        columns = ", ".join(quoted(column) for column in shape.columns)
        targets = ", ".join(f"a{index}" for index in range(len(shape.columns)))
        conditions = " AND ".join(f"({one})" for one in (condition, more) if one) or "1"
        cursor = self._database.execute(
            f"INSERT INTO {quoted(self.name)} (shape, operation, at_ms, copy, {targets}) "
            f"SELECT {shape.id}, '{READ}', {NOW_MS}, ?, {columns} FROM {quoted(shape.table)} "
            f"WHERE {conditions}{limit}",
            (id, *values),
        )
        return cursor.rowcount

    def _note_last(self, shape: Shape) -> None:
        columns = ", ".join(f"a{index}" for index in shape.key)
        row = self._database.execute(
            f"SELECT {columns} FROM {quoted(self.name)} ORDER BY number DESC LIMIT 1"
        ).fetchone()
        self._database.execute(f"DELETE FROM {quoted(self.name + '_last')} WHERE tab = ?", (shape.table,))
        self._database.executemany(
            f"INSERT INTO {quoted(self.name + '_last')} VALUES (?, ?, ?)",
            [(shape.table, index, value) for index, value in enumerate(row)],
        )

    def copies(self) -> list[TableProgress]:
        rows = self._database.execute(f"SELECT tab, copied, estimate, done FROM {quoted(self.name + '_copy')}")
        return [TableProgress(f"main.{table}", count, estimate, bool(done)) for table, count, estimate, done in rows]
