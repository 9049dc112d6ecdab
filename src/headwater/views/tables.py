"""Views as tables of a SQL database: all that SQLite and PostgreSQL have in common.

    <view>                 the columns of the view, and `_change`: the number of the write that last touched the row
    _shadow_<view>         the same while it is being rebuilt
    _replaced_<view>       what a rebuild has replaced, until the next one
    _headwater_views       one row per view: shape, job, batch, position, counters
    _headwater_deletes     keys that went away, with the number of the write; the older ones are forgotten
    _headwater_drivers     the newest driver of each job that has an epoch: what others write is refused

Names are always quoted and values always bound: nothing that is asked for can become SQL.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from threading import RLock

import pyarrow as pa

from headwater.clock import Clock
from headwater.errors import JobRefused, JobTakenOver, UnknownView
from headwater.views.changes import Changes, changes_in
from headwater.views.mark import Epoch, Mark, StoredMark, position_from_json, position_to_json
from headwater.views.postgres_staging import StagedTable
from headwater.views.query import Condition, Order, Query
from headwater.views.shape import Column, Shape, evolved, quoted, shape_of
from headwater.views.store import ChangedRow, Row
from headwater.views.values import from_json_text

VIEWS, DELETES, DRIVERS = "_headwater_views", "_headwater_deletes", "_headwater_drivers"
CHANGE = "_change"
SHADOW, REPLACED = "_shadow_", "_replaced_"
NAME_BYTES_MAX = 48  # PostgreSQL cuts names at 63, and ours are made longer
WRITES_REMEMBERED = 10_000  # whose deletes a subscriber can still receive one by one

SCAN_ROWS = 20_000

_MARK_COLUMNS = "job, batch, position, change, generation, changes_from, updated_ms"

Values = Sequence[object]


def listed(names: Sequence[str], prefix: str = "") -> str:
    return ", ".join(prefix + quoted(name) for name in names)


def on_conflict(shape: Shape) -> str:
    if not shape.key:
        return ""
    others = [name for name in shape.names if name not in shape.key] + [CHANGE]
    updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
    return f" ON CONFLICT ({listed(shape.key)}) DO UPDATE SET {updates}"


class SqlStore(ABC):
    """Subclasses know how to connect, to name types, to load rows and to write a comparison."""

    where: str
    row_lock = ""  # SQL that keeps other writers away from the selected row

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = RLock()
        self._in_one = False

    # What a database brings

    @abstractmethod
    def _run(self, sql: str, values: Values = ()) -> list[tuple[object, ...]]:
        """One statement, inside or outside of a transaction."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[None]:
        """A transaction; takes the lock of this store. Other writers are kept away here, or by `row_lock`."""

    @abstractmethod
    def _reading(self, tables: Sequence[str] = ()) -> AbstractContextManager[None]:
        """A transaction that sees one moment, and those of `tables` that there are as they are at that moment."""

    @abstractmethod
    def _bind(self, number: int) -> str:
        """How the statement refers to its n-th value, from 1."""

    @abstractmethod
    def _table(self, name: str) -> str:
        """The full, quoted name of a table."""

    @abstractmethod
    def _exists(self, table: str) -> bool: ...

    @abstractmethod
    def _column_type(self, column: Column) -> str: ...

    @abstractmethod
    def _key_clause(self, key: Sequence[str]) -> str: ...

    @abstractmethod
    def _encode(self, column: Column, values: pa.Array) -> pa.Array: ...

    @abstractmethod
    def _load(self, table: str, shape: Shape, changes: Changes, change: int) -> None:
        """Upserts the present rows and deletes the deleted keys, a whole batch at a time."""

    def _load_staged(self, table: str, shape: Shape, staged: Sequence[StagedTable], change: int) -> None:
        """The same of rows and keys in tables of their own, which are dropped."""
        raise AssertionError(f"no other process stages rows for {self.where}")

    @abstractmethod
    def _load_deletes(self, table: str, keys: pa.Array, change: int) -> None: ...

    @abstractmethod
    def _scan(self, sql: str, values: Values, rows: int) -> Iterator[list[tuple[object, ...]]]:
        """The answer to one statement in pieces of at most so many rows, inside of a transaction."""

    @abstractmethod
    def _selected(self, column: Column) -> str:
        """How a column is asked for, so that `_decode` understands the answer."""

    @abstractmethod
    def _decode(self, column: Column, value: object) -> object: ...

    @abstractmethod
    def _array(self, column: Column, values: Sequence[object]) -> pa.Array:
        """The answers for a column, decoded all at once."""

    @abstractmethod
    def _comparison(self, condition: Condition, first: int) -> tuple[str, list[object]]:
        """Returns SQL for one condition whose parameters are numbered from `first`; never about nulls."""

    @abstractmethod
    def _ordering(self, order: Order) -> str: ...

    @abstractmethod
    def _create_schema(self) -> None:
        """Creates what must exist before the first table; keeps others from making the same until the end."""

    @abstractmethod
    def close(self) -> None: ...

    # Several writes in one transaction

    @contextmanager
    def in_one_transaction(self) -> Iterator[None]:
        """What is written within is there for readers all at once, or not at all; nothing is read within."""
        with self._writing():
            self._in_one = True
            try:
                yield
            finally:
                self._in_one = False

    # Making and changing views

    def prepare(self, view: str, schema: pa.Schema, key: Sequence[str]) -> None:
        check_name(view)
        wanted = shape_of(view, schema, key)
        with self._writing():
            self._create_catalogue()
            stored = self._stored(view)
            if stored is None:
                self._create(view, wanted, generation=0)
                return
            self._add_columns(view, stored[0], evolved(view, stored[0], wanted))

    def begin_shadow(self, view: str, schema: pa.Schema, key: Sequence[str], *, job: str) -> StoredMark:
        check_name(view)
        shadow, wanted = SHADOW + view, shape_of(view, schema, key)
        with self._writing():
            self._create_catalogue()
            stored = self._stored(shadow)
            if stored is not None and stored[0] == wanted and stored[1].job in (None, job):
                return stored[1]
            self._drop(shadow)
            current = self._stored(view)
            self._create(shadow, wanted, generation=current[1].generation + 1 if current else 0)
            self._run(f"UPDATE {self._table(VIEWS)} SET job = {self._bind(1)} WHERE view = {self._bind(2)}",
                      (job, shadow))  # fmt: skip
            return self._known(shadow)[1]

    def swap(self, view: str, mark: Mark, *, keep: bool | None = False) -> None:
        shadow = SHADOW + view
        with self._writing():
            self._check_driver(mark.job, mark.epoch)
            rebuilt, current = self._stored(shadow), self._stored(view)
            if rebuilt is None:
                if current is not None and current[1].holds(mark):
                    return
                raise JobRefused(f'view "{view}" has no shadow that could replace it', "Begin the rebuild again.")
            if keep is not None:
                self._drop(REPLACED + view)
            if keep and current is not None and current[1].holds(mark) and current[1].batch == mark.batch:
                self._move(view, REPLACED + view)
            self._drop(view)
            self._move(shadow, view)
            change = max(rebuilt[1].change, current[1].change if current else 0) + 1
            generation = current[1].generation + 1 if current else 0
            self._store_mark(view, replace(rebuilt[1], job=mark.job, batch=mark.batch, position=mark.position,
                                           change=change, generation=generation, changes_from=change))  # fmt: skip

    def hand_shadow_over(self, view: str, mark: Mark) -> None:
        with self._writing():
            _, stored = self._known(SHADOW + view)
            if stored.job != mark.job:
                self._store_mark(SHADOW + view, replace(stored, job=mark.job, batch=mark.batch, position=mark.position))

    def drop_shadow(self, view: str) -> None:
        self.drop(SHADOW + view)

    def replaced(self, view: str) -> StoredMark | None:
        return self.mark(REPLACED + view)

    def take_back(self, view: str, job: str) -> None:
        with self._writing():
            if self._stored(REPLACED + view) is not None:
                self._drop(SHADOW + view)
                self._move(REPLACED + view, SHADOW + view)
                self._store_mark(SHADOW + view, replace(self._known(SHADOW + view)[1], job=job))

    def _move(self, table: str, name: str) -> None:
        """Under another name; nobody watches it there."""
        self._run(f"ALTER TABLE {self._table(table)} RENAME TO {quoted(name)}")
        self._run(f"DELETE FROM {self._table(DELETES)} WHERE view = {self._bind(1)}", (table,))
        self._run(f"UPDATE {self._table(VIEWS)} SET view = {self._bind(1)} WHERE view = {self._bind(2)}",
                  (name, table))  # fmt: skip

    def drop(self, view: str) -> None:
        with self._writing():
            if self._exists(VIEWS):
                self._drop(view)
                self._drop(REPLACED + view)

    def rename(self, view: str, new: str) -> None:
        check_name(new)
        with self._writing():
            _, stored = self._known(view)
            if self._stored(SHADOW + view) is not None:
                raise JobRefused(f'view "{view}" is being rebuilt', "Run its app to the end, then rename it.")
            if self._exists(new):
                raise JobRefused(f'{self.where} has a view or table "{new}" already', "Choose another name.")
            self._drop(REPLACED + view)
            index, other = change_index(view, stored.generation), change_index(new, stored.generation)
            self._run(f"DROP INDEX IF EXISTS {self._table(index)}")
            self._run(f"ALTER TABLE {self._table(view)} RENAME TO {quoted(new)}")
            self._run(f"CREATE INDEX {quoted(other)} ON {self._table(new)} ({CHANGE})")
            for table in (DELETES, VIEWS):
                self._run(f"UPDATE {self._table(table)} SET view = {self._bind(1)} WHERE view = {self._bind(2)}",
                          (new, view))  # fmt: skip

    def fence(self, job: str, epoch: Epoch) -> None:
        if not epoch.number:
            return
        with self._writing():
            self._create_schema()
            if not self._exists(DRIVERS):
                self._run(
                    f"CREATE TABLE {self._table(DRIVERS)} (job TEXT PRIMARY KEY, epoch BIGINT NOT NULL, "
                    "owner TEXT NOT NULL, since_ms BIGINT NOT NULL)"
                )
            self._check_driver(job, epoch)
            self._run(f"DELETE FROM {self._table(DRIVERS)} WHERE job = {self._bind(1)}", (job,))
            values = ", ".join(self._bind(number) for number in range(1, 5))
            self._run(
                f"INSERT INTO {self._table(DRIVERS)} (job, epoch, owner, since_ms) VALUES ({values})",
                (job, epoch.number, epoch.owner, epoch.since_ms),
            )

    def _check_driver(self, job: str, epoch: Epoch) -> None:
        """In the transaction that writes: a newer driver waits until it is over, or is seen."""
        if not epoch.number or not self._exists(DRIVERS):
            return
        found = self._run(
            f"SELECT epoch, owner, since_ms FROM {self._table(DRIVERS)} WHERE job = {self._bind(1)}{self.row_lock}",
            (job,),
        )
        for number, owner, since_ms in found:
            if int(str(number)) > epoch.number:
                raise JobTakenOver(job.split("/")[1] if "/" in job else job, str(owner), int(str(since_ms)))

    def adopt(self, view: str, job: str) -> None:
        with self._writing():
            _, stored = self._known(view)
            if stored.job != job:
                self._store_mark(view, replace(stored, job=job, batch=-1))

    # Writing rows

    def write(
        self, view: str, mark: Mark, rows: pa.Table, *, shadow: bool = False, staged: Sequence[StagedTable] = ()
    ) -> bool:
        table = SHADOW + view if shadow else view
        with self._lock:
            shape, stored = self._known(table, locked=False)
            if self._is_in(table, stored, mark):
                return False
            changes = changes_in(shape, rows, self._encode)  # before the transaction, which others may wait for
            with self._writing():
                self._check_driver(mark.job, mark.epoch)
                _, stored = self._known(table)
                if self._is_in(table, stored, mark):
                    return False
                self._write(table, shape, stored, mark, changes, staged)
        return True

    def _is_in(self, view: str, stored: StoredMark, mark: Mark) -> bool:
        if stored.job not in (None, mark.job):
            raise JobRefused(
                f'view "{view}" in {self.where} is written by job {stored.job}, not by {mark.job}: '
                "two writers would undo each other",
                "Give this one another name, or stop the other job and drop its view.",
            )
        return stored.holds(mark)

    def _write(
        self, table: str, shape: Shape, stored: StoredMark, mark: Mark, changes: Changes, staged: Sequence[StagedTable]
    ) -> None:
        change = stored.change if changes.empty and not staged else stored.change + 1
        if shape.one_row and (not changes.empty or any(one.present or one.gone for one in staged)):
            self._run(f"DELETE FROM {self._table(table)}")
        if staged:
            self._load_staged(table, shape, staged, change)
        if not changes.empty:
            self._load(table, shape, changes, change)
        if len(changes.deleted_keys):
            self._load_deletes(table, changes.deleted_keys, change)
        forgotten = self._forget_deletes(table, stored, change)
        self._store_mark(table, replace(stored, job=mark.job, batch=mark.batch, position=mark.position,
                                        change=change, changes_from=forgotten))  # fmt: skip

    def _forget_deletes(self, table: str, stored: StoredMark, change: int) -> int:
        """In large steps, so that most batches do nothing here. Answers up to where they are forgotten."""
        if change - stored.changes_from < 2 * WRITES_REMEMBERED:
            return stored.changes_from
        until = change - WRITES_REMEMBERED
        self._run(
            f"DELETE FROM {self._table(DELETES)} WHERE view = {self._bind(1)} AND change <= {self._bind(2)}",
            (table, until),
        )
        return until

    # The catalogue

    def mark(self, view: str, *, shadow: bool = False) -> StoredMark | None:
        table = SHADOW + view if shadow else view
        with self._reading():
            stored = self._stored(table, locked=False) if self._exists(VIEWS) else None
        return stored[1] if stored else None

    def views(self) -> list[str]:
        with self._reading():
            return self._names()

    def _names(self) -> list[str]:
        if not self._exists(VIEWS):
            return []
        names = [str(view) for (view,) in self._run(f"SELECT view FROM {self._table(VIEWS)}")]
        return sorted(name for name in names if not name.startswith((SHADOW, REPLACED)))

    def _create_catalogue(self) -> None:
        self._create_schema()
        if self._exists(VIEWS):
            return
        self._run(
            f"CREATE TABLE {self._table(VIEWS)} (view TEXT PRIMARY KEY, shape TEXT NOT NULL, job TEXT, "
            "batch BIGINT NOT NULL, position TEXT NOT NULL, change BIGINT NOT NULL, generation BIGINT NOT NULL, "
            "changes_from BIGINT NOT NULL, updated_ms BIGINT NOT NULL)"
        )
        self._run(
            f"CREATE TABLE {self._table(DELETES)} (view TEXT NOT NULL, change BIGINT NOT NULL, key TEXT NOT NULL)"
        )
        self._run(f"CREATE INDEX {quoted(DELETES + '_order')} ON {self._table(DELETES)} (view, change)")

    def _create(self, table: str, shape: Shape, *, generation: int) -> None:
        if self._exists(table):
            raise JobRefused(
                f'{self.where} has a table "{table}" that is not a view of this app',
                "Give the view another name, or move that table away.",
            )
        columns = [f"{quoted(column.name)} {self._column_type(column)}" for column in shape.columns]
        parts = [*columns, f"{CHANGE} BIGINT NOT NULL", *([self._key_clause(shape.key)] if shape.key else [])]
        self._run(f"CREATE TABLE {self._table(table)} ({', '.join(parts)})")
        # SQLite cannot rename an index, so that of a rebuilt view has a number of its own.
        index = change_index(table.removeprefix(SHADOW), generation)
        self._run(f"CREATE INDEX {quoted(index)} ON {self._table(table)} ({CHANGE})")
        parameters = ", ".join(self._bind(number) for number in range(1, 7))
        self._run(
            f"INSERT INTO {self._table(VIEWS)} (view, shape, batch, position, change, generation, changes_from, "
            f"updated_ms) VALUES ({parameters}, 0, 0)",
            (table, shape.to_json(), -1, "{}", 0, generation),
        )

    def _add_columns(self, view: str, stored: Shape, grown: Shape) -> None:
        added = grown.columns[len(stored.columns) :]
        for column in added:
            self._run(f"ALTER TABLE {self._table(view)} ADD COLUMN {quoted(column.name)} {self._column_type(column)}")
        if added:
            self._run(f"UPDATE {self._table(VIEWS)} SET shape = {self._bind(1)} WHERE view = {self._bind(2)}",
                      (grown.to_json(), view))  # fmt: skip

    def _drop(self, view: str) -> None:
        if self._stored(view) is None:
            return
        self._run(f"DROP TABLE IF EXISTS {self._table(view)}")
        self._run(f"DELETE FROM {self._table(DELETES)} WHERE view = {self._bind(1)}", (view,))
        self._run(f"DELETE FROM {self._table(VIEWS)} WHERE view = {self._bind(1)}", (view,))

    def _stored(self, view: str, *, locked: bool = True) -> tuple[Shape, StoredMark] | None:
        lock = self.row_lock if locked else ""
        found = self._run(
            f"SELECT shape, {_MARK_COLUMNS} FROM {self._table(VIEWS)} WHERE view = {self._bind(1)}{lock}", (view,)
        )
        return (Shape.from_json(str(found[0][0])), _stored_mark(found[0][1:])) if found else None

    def _known(self, view: str, *, locked: bool = True) -> tuple[Shape, StoredMark]:
        stored = self._stored(view, locked=locked) if self._exists(VIEWS) else None
        if stored is None:
            raise UnknownView(view, self.where, self._names())
        return stored

    def _store_mark(self, view: str, mark: StoredMark) -> None:
        values = (mark.job, mark.batch, position_to_json(mark.position), mark.change, mark.generation,
                  mark.changes_from, self._clock.now_ms())  # fmt: skip
        names = _MARK_COLUMNS.split(", ")
        settings = ", ".join(f"{name} = {self._bind(number)}" for number, name in enumerate(names, start=1))
        self._run(
            f"UPDATE {self._table(VIEWS)} SET {settings} WHERE view = {self._bind(len(names) + 1)}", (*values, view)
        )

    # Reading rows

    @contextmanager
    def snapshot(self, view: str) -> "Iterator[SqlSnapshot]":
        with self.snapshots([view]) as (snapshot,):
            yield snapshot

    @contextmanager
    def snapshots(self, views: Sequence[str]) -> "Iterator[list[SqlSnapshot]]":
        with self._reading(views):
            yield [SqlSnapshot(self, view, *self._known(view, locked=False)) for view in views]


class SqlSnapshot:
    def __init__(self, store: SqlStore, view: str, shape: Shape, mark: StoredMark) -> None:
        self._store, self._view = store, view
        self.shape, self.mark = shape, mark

    def select(self, query: Query) -> list[Row]:
        clauses, values = self._clauses(query)
        rows = self._rows(self.shape.columns, clauses, values)
        return [self._row(self.shape.columns, row) for row in rows]

    def scan(self, names: Sequence[str], query: Query) -> Iterator[pa.RecordBatch]:
        columns = [self.shape.column(name) for name in names]
        clauses, values = self._clauses(query)
        selected = ", ".join(self._store._selected(column) for column in columns)
        sql = f"SELECT {selected} FROM {self._store._table(self._view)}{clauses}"
        for rows in self._store._scan(sql, values, SCAN_ROWS):
            arrays = [
                self._store._array(column, each) for column, each in zip(columns, zip(*rows, strict=True), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))

    def count(self, query: Query) -> int:
        clauses, values = self._clauses(query)
        sql = f"SELECT count(*) FROM {self._store._table(self._view)}{clauses}"
        ((number,),) = self._store._run(sql, values)
        assert isinstance(number, int)
        return number

    def changes_after(self, change: int) -> Iterator[ChangedRow]:
        return (changed for _, changed in self.numbered_changes_after(change))

    def numbered_changes_after(self, change: int, until: int | None = None) -> list[tuple[int, ChangedRow]]:
        bind, last = self._store._bind, self.mark.change if until is None else until
        deleted = self._store._run(
            f"SELECT change, key FROM {self._store._table(DELETES)} "
            f"WHERE view = {bind(1)} AND change > {bind(2)} AND change <= {bind(3)}", (self._view, change, last)
        )  # fmt: skip
        columns = self.shape.columns
        between = f" WHERE {CHANGE} > {bind(1)} AND {CHANGE} <= {bind(2)}"
        rows = self._rows(columns, between, [change, last], extra=CHANGE)
        events: list[tuple[int, ChangedRow]] = [
            (int(str(number)), ChangedRow(self._key(str(key)), None)) for number, key in deleted
        ]
        for row in rows:
            values = self._row(columns, row)
            events.append((int(str(row[-1])), ChangedRow({name: values[name] for name in self.shape.key}, values)))
        # Deletes come first within a write, and sorting keeps that: a key is never both in one write.
        events.sort(key=lambda event: event[0])
        return events

    def last_write_within(self, change: int, rows_max: int) -> int:
        bind, store = self._store._bind, self._store
        found = store._run(
            f"SELECT {CHANGE} FROM {store._table(self._view)} WHERE {CHANGE} > {bind(1)} "
            f"ORDER BY {CHANGE} LIMIT 1 OFFSET {bind(2)}", (change, rows_max)
        )  # fmt: skip
        return max(int(str(found[0][0])) - 1, change + 1) if found else self.mark.change

    def changed_since(self, change: int) -> int:
        """How many rows changed and keys went; cheaper than to read them."""
        bind, store = self._store._bind, self._store
        ((rows,),) = store._run(f"SELECT count(*) FROM {store._table(self._view)} WHERE {CHANGE} > {bind(1)}", [change])
        ((deleted,),) = store._run(
            f"SELECT count(*) FROM {store._table(DELETES)} WHERE view = {bind(1)} AND change > {bind(2)}",
            (self._view, change),
        )
        return int(str(rows)) + int(str(deleted))

    def matching_since(self, change: int, query: Query, until: int | None = None) -> list[Row]:
        """Rows that changed after a write, and fit."""
        clauses, values = self._clauses(query)
        values += [change, self.mark.change if until is None else until]
        joint, bind = " AND" if query.where else " WHERE", self._store._bind
        between = f"{CHANGE} > {bind(len(values) - 1)} AND {CHANGE} <= {bind(len(values))}"
        rows = self._rows(self.shape.columns, f"{clauses}{joint} {between}", values)
        return [self._row(self.shape.columns, row) for row in rows]

    def _key(self, text: str) -> Row:
        key = from_json_text(text, self.shape.key_type)
        assert isinstance(key, dict)
        return key

    def _rows(
        self, columns: Sequence[Column], clauses: str, values: Values, extra: str = ""
    ) -> list[tuple[object, ...]]:
        selected = [self._store._selected(column) for column in columns] + ([extra] if extra else [])
        return self._store._run(f"SELECT {', '.join(selected)} FROM {self._store._table(self._view)}{clauses}", values)

    def _row(self, columns: Sequence[Column], row: Sequence[object]) -> Row:
        return {
            column.name: None if value is None else self._store._decode(column, value)
            for column, value in zip(columns, row, strict=False)
        }

    def _clauses(self, query: Query) -> tuple[str, list[object]]:
        values: list[object] = []
        terms = []
        for condition in query.where:
            term, bound = self._term(condition, len(values) + 1)
            terms.append(term)
            values += bound
        sql = f" WHERE {' AND '.join(terms)}" if terms else ""
        if query.order:
            sql += f" ORDER BY {', '.join(self._store._ordering(order) for order in query.order)}"
        if query.limit is not None:
            values.append(query.limit)
            sql += f" LIMIT {self._store._bind(len(values))}"
        if query.skip:
            values.append(query.skip)
            sql += f" OFFSET {self._store._bind(len(values))}"
        return sql, values

    def _term(self, condition: Condition, first: int) -> tuple[str, list[object]]:
        name = quoted(condition.column.name)
        if condition.null:
            return f"{name} IS {'NOT ' if condition.operator == '!=' else ''}NULL", []
        present = tuple(value for value in condition.values if value is not None)
        if not present:
            return (f"{name} IS NULL" if condition.values else "1 = 0"), []
        term, bound = self._store._comparison(condition._replace(values=present), first)
        return (f"({term} OR {name} IS NULL)" if len(present) < len(condition.values) else term), bound


def change_index(view: str, generation: int) -> str:
    return f"_change_{view}_{generation}"


def check_name(view: str) -> None:
    if not view or view.startswith("_") or "\0" in view or len(view.encode()) > NAME_BYTES_MAX:
        raise JobRefused(
            f"{view[:80]!r} cannot name a view or table",
            f"Use up to {NAME_BYTES_MAX} bytes that do not begin with an underscore.",
        )


def _stored_mark(row: Sequence[object]) -> StoredMark:
    job, batch, position, *counters = row
    change, generation, changes_from, updated_ms = (int(str(counter)) for counter in counters)
    offsets = position_from_json(str(position))
    return StoredMark(
        None if job is None else str(job), int(str(batch)), offsets, change, generation, changes_from, updated_ms
    )
