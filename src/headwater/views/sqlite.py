"""Views in one SQLite file per app: the default, and nothing to install.

The write-ahead log lets readers read while a batch is written; `synchronous=FULL` makes a batch that is in survive a
power cut. A reader opens the file read-only.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.clock import Clock
from headwater.errors import StoreUnavailable
from headwater.views import sqlite_columns
from headwater.views.changes import Changes
from headwater.views.query import Condition, Order
from headwater.views.shape import Column, Shape, quoted
from headwater.views.sqlite_columns import python_values
from headwater.views.tables import CHANGE, DELETES, SqlStore, Values, listed, on_conflict

BUSY_TIMEOUT_MS = 30_000
CACHE_KIB = 64 * 1024  # a batch touches keys all over the table
PAGES_BETWEEN_CHECKPOINTS = 10_000


class SqliteStore(SqlStore):
    def __init__(self, file: Path, *, read_only: bool, clock: Clock) -> None:
        super().__init__(clock)
        self.where = str(file)
        self._file, self._read_only = file, read_only
        self._open: sqlite3.Connection | None = None
        if not read_only:
            file.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, self._translated():
                self._connection()

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            mode = "ro" if self._read_only else "rwc"
            opened = sqlite3.connect(
                f"{self._file.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            opened.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            if not self._read_only:
                opened.execute("PRAGMA journal_mode=WAL")
                opened.execute("PRAGMA synchronous=FULL")
                opened.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
                opened.execute(f"PRAGMA wal_autocheckpoint={PAGES_BETWEEN_CHECKPOINTS}")
            self._open = opened
        return self._open

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(self.where, str(error)) from error

    def _run(self, sql: str, values: Values = ()) -> list[tuple[object, ...]]:
        with self._lock, self._translated():
            return self._connection().execute(sql, values).fetchall()

    def _scan(self, sql: str, values: Values, rows: int) -> Iterator[list[tuple[object, ...]]]:
        with self._lock, self._translated():
            cursor = self._connection().execute(sql, values)
            while found := cursor.fetchmany(rows):
                yield found

    def _run_many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        with self._lock, self._translated():
            self._connection().executemany(sql, rows)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock:
            try:
                self._run(begin)
                yield
                self._run("COMMIT")
            except BaseException:
                # After some errors SQLite has rolled back by itself; after a failed COMMIT it may not have.
                if self._open is not None and self._open.in_transaction:
                    with self._translated():
                        self._open.rollback()
                raise

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with nullcontext() if self._in_one else self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def _reading(self, tables: Sequence[str] = ()) -> Iterator[None]:
        if self._read_only and not self._file.exists():
            yield  # `_exists` says that nothing is there
            return
        with self._transaction("BEGIN"):
            yield

    def _bind(self, number: int) -> str:
        return f"?{number}"

    def _table(self, name: str) -> str:
        return quoted(name)

    def _exists(self, table: str) -> bool:
        if self._read_only and not self._file.exists():
            return False
        # SQLite's names are the same in upper and lower case.
        sql = "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE"
        return bool(self._run(sql, (table,)))

    def _create_schema(self) -> None:
        """The file is all there is."""

    def _column_type(self, column: Column) -> str:
        return sqlite_columns.column_type(column)

    def _key_clause(self, key: Sequence[str]) -> str:
        return f"PRIMARY KEY ({listed(key)})"

    def _encode(self, column: Column, values: pa.Array) -> pa.Array:
        return sqlite_columns.encode(column, values)

    def _load(self, table: str, shape: Shape, changes: Changes, change: int) -> None:
        if shape.key:
            # A key with a null in it never conflicts in SQLite: such rows are removed before they come again.
            self._delete(table, changes.deleted)
            self._delete(table, _with_nulls(changes.present.select(shape.key)))
        parameters = ", ".join(f"?{number}" for number in range(1, len(shape.columns) + 2))
        sql = f"INSERT INTO {quoted(table)} ({listed(shape.names)}, {CHANGE}) VALUES ({parameters})"
        self._run_many(sql + on_conflict(shape), zip(*_lists(changes.present), repeat(change), strict=False))

    def _delete(self, table: str, keys: pa.Table) -> None:
        if keys.num_rows:
            same = " AND ".join(f"{quoted(name)} IS ?{index}" for index, name in enumerate(keys.column_names, start=1))
            self._run_many(f"DELETE FROM {quoted(table)} WHERE {same}", zip(*_lists(keys), strict=True))

    def _load_deletes(self, table: str, keys: pa.Array, change: int) -> None:
        rows = zip(repeat(table), repeat(change), python_values(keys), strict=False)
        self._run_many(f"INSERT INTO {DELETES} (view, change, key) VALUES (?1, ?2, ?3)", rows)

    def _selected(self, column: Column) -> str:
        return quoted(column.name)

    def _decode(self, column: Column, value: object) -> object:
        return sqlite_columns.decode(column, value)

    def _array(self, column: Column, values: Sequence[object]) -> pa.Array:
        return sqlite_columns.array(column, values)

    def _comparison(self, condition: Condition, first: int) -> tuple[str, list[object]]:
        return sqlite_columns.comparison(condition, first)

    def _ordering(self, order: Order) -> str:
        direction = " DESC" if order.descending else ""
        return ", ".join(f"{expression}{direction}" for expression in sqlite_columns.ordering(order.column))


def _lists(table: pa.Table) -> list[list[object]]:
    return [python_values(_whole(table.column(name))) for name in table.column_names]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined: Any = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _with_nulls(keys: pa.Table) -> pa.Table:
    if not any(column.null_count for column in keys.columns):
        return keys.slice(0, 0)
    mask = keys.column(0).is_null()
    for column in keys.columns[1:]:
        mask = pc.or_(mask, column.is_null())
    return keys.filter(mask)
