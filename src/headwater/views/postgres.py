"""Views in PostgreSQL 15 or newer, in a schema named after the app.

A batch goes in by COPY, as a whole, to a temporary table and from there into the view: a few round trips, however many
rows. What other processes have staged (postgres_staging.py) goes in from their tables, in the same transaction. The key
is a unique constraint under which nulls are equal, because a group may well be the one without a name.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import psycopg
import pyarrow as pa
from psycopg import RawCursor
from psycopg.conninfo import conninfo_to_dict

from headwater.clock import Clock
from headwater.errors import StoreUnavailable, UnstorableValue
from headwater.views import postgres_columns
from headwater.views.changes import Changes
from headwater.views.mark import Epoch, Mark
from headwater.views.own_postgres import read_access, runs
from headwater.views.postgres_columns import csv_text
from headwater.views.postgres_staging import GONE, KEY_TEXT, PostgresStaging, StagedTable, prefix_of
from headwater.views.query import Condition, Order
from headwater.views.shape import Column, Shape, quoted
from headwater.views.tables import CHANGE, DELETES, SHADOW, SqlStore, Values, listed, on_conflict

STAGE, STAGE_GONE = "_headwater_stage", "_headwater_stage_gone"
OLDEST_VERSION = 150_000
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ"

Connection = psycopg.Connection[tuple[object, ...]]


class PostgresStore(SqlStore):
    row_lock = " FOR UPDATE"

    def __init__(self, url: str, schema: str, *, read_only: bool, clock: Clock) -> None:
        super().__init__(clock)
        self._url, self._schema, self._read_only = url, schema, read_only
        self.where = _spoken(url, schema)
        self._open: Connection | None = None
        self._affected = 0
        """How many rows the last statement has changed."""

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _connection(self) -> Connection:
        if self._open is None or self._open.closed:
            opened = psycopg.connect(self._url, autocommit=True, prepare_threshold=None, cursor_factory=RawCursor)
            if opened.info.server_version < OLDEST_VERSION:
                version = opened.info.server_version // 10_000
                opened.close()
                raise StoreUnavailable(self.where, f"it is PostgreSQL {version}, and views need 15 or newer")
            opened.execute("SET TimeZone TO 'UTC'")
            opened.execute("SET DateStyle TO 'ISO'")
            if self._read_only:
                opened.execute("SET default_transaction_read_only TO on")
            self._open = opened
        return self._open

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.DataError as error:
            raise UnstorableValue(f"{self.where} does not take a value: {_sentence(error)}") from error
        except psycopg.Error as error:
            raise StoreUnavailable(self.where, _sentence(error)) from error

    def _run(self, sql: str, values: Values = ()) -> list[tuple[object, ...]]:
        with self._lock, self._translated():
            cursor = self._connection().execute(sql.encode(), values)
            self._affected = cursor.rowcount
            return cursor.fetchall() if cursor.description else []

    def _scan(self, sql: str, values: Values, rows: int) -> Iterator[list[tuple[object, ...]]]:
        with self._lock, self._translated():
            cursor = self._connection().execute(sql.encode(), values)
            while found := cursor.fetchmany(rows):
                yield found

    def _copy(self, target: str, rows: pa.Table) -> None:
        with self._lock, self._translated(), self._connection().cursor() as cursor:
            sql = f"COPY {target} ({listed(rows.column_names)}) FROM STDIN (FORMAT csv)"
            with cursor.copy(sql.encode()) as copy:
                copy.write(csv_text(rows))

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock:
            try:
                if begin:
                    self._run(begin)
                yield
                self._run("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        """A connection that cannot even roll back is given up, and the server does it."""
        if self._open is None or self._open.closed:
            return
        try:
            self._open.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with nullcontext() if self._in_one else self._transaction("BEGIN"):
            yield

    @contextmanager
    def _reading(self, tables: Sequence[str] = ()) -> Iterator[None]:
        with self._lock:
            held = bool(tables) and self._begin_holding(tables)
            with self._transaction("" if held else BEGIN_READING):
                yield

    def _begin_holding(self, tables: Sequence[str]) -> bool:
        """Begin with a lock that only a swap waits for: PostgreSQL finds a table by its name as it is now, but its rows
        as they were when the transaction first looked, and these two must not be on different sides of a swap."""
        self._run(BEGIN_READING)
        try:
            with self._translated():
                # In one order, so that two who hold several cannot wait for each other.
                names = ", ".join(self._table(table) for table in sorted(set(tables)))
                self._connection().execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE".encode())
        except StoreUnavailable as error:
            self._roll_back()
            if isinstance(error.__cause__, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
                return False
            raise
        return True

    def _bind(self, number: int) -> str:
        return f"${number}"

    def _table(self, name: str) -> str:
        return f"{quoted(self._schema)}.{quoted(name)}"

    def _exists(self, table: str) -> bool:
        return self._run("SELECT to_regclass($1) IS NOT NULL", (self._table(table),)) == [(True,)]

    def fence(self, job: str, epoch: Epoch) -> None:
        """Connections of older drivers are ended: one that is stopped in the middle of a transaction would hold its
        locks for as long as it is."""
        if epoch.number:
            name = f"headwater {hashlib.sha256(job.encode()).hexdigest()[:16]} "
            self._run("SELECT set_config('application_name', $1, false)", (f"{name}{epoch.number:010d}",))
            self._run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user "
                "AND starts_with(application_name, $1) AND application_name < $2", (name, f"{name}{epoch.number:010d}")
            )  # fmt: skip
        super().fence(job, epoch)

    def _create_schema(self) -> None:
        self._run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", (f"headwater views {self._schema}",))
        self._run(f"CREATE SCHEMA IF NOT EXISTS {quoted(self._schema)}")

    def _column_type(self, column: Column) -> str:
        return postgres_columns.column_type(column)

    def _key_clause(self, key: Sequence[str]) -> str:
        return f"UNIQUE NULLS NOT DISTINCT ({listed(key)})"

    def _encode(self, column: Column, values: pa.Array) -> pa.Array:
        return postgres_columns.encode(column, values)

    def _load(self, table: str, shape: Shape, changes: Changes, change: int) -> None:
        if changes.deleted.num_rows:
            self._stage(STAGE_GONE, shape.key_columns, changes.deleted)
            nulls = [name for name in shape.key if changes.deleted[name].null_count]
            self._delete_staged(table, f"pg_temp.{STAGE_GONE}", shape.key, nulls)
        if changes.present.num_rows:
            self._stage(STAGE, shape.columns, changes.present)
            self._insert_staged(table, f"pg_temp.{STAGE}", shape, change)

    def _stage(self, stage: str, columns: Sequence[Column], rows: pa.Table) -> None:
        self._run(f"DROP TABLE IF EXISTS pg_temp.{stage}")  # another view's, of the same transaction
        self._run(f"CREATE TEMP TABLE {stage} ({self._declared(columns)}) ON COMMIT DROP")
        self._copy(f"pg_temp.{stage}", rows)

    def _declared(self, columns: Sequence[Column]) -> str:
        return ", ".join(f"{quoted(column.name)} {self._column_type(column)}" for column in columns)

    def _insert_staged(self, table: str, source: str, shape: Shape, change: int) -> None:
        names = listed(shape.names)
        self._run(
            f"INSERT INTO {self._table(table)} ({names}, {CHANGE}) "
            f"SELECT {names}, {change} FROM {source}{on_conflict(shape)}"
        )

    def _delete_staged(self, table: str, source: str, key: Sequence[str], nulls: Collection[str]) -> None:
        """Nulls are compared only where there are some: no index helps with that."""
        same = [
            f"(old.{column} = gone.{column} OR (old.{column} IS NULL AND gone.{column} IS NULL))"
            if name in nulls else f"old.{column} = gone.{column}"
            for name, column in zip(key, map(quoted, key), strict=True)
        ]  # fmt: skip
        self._run(f"DELETE FROM {self._table(table)} AS old USING {source} AS gone WHERE {' AND '.join(same)}")

    # What other processes stage

    def staging(self, view: str, mark: Mark, *, shadow: bool = False) -> PostgresStaging | None:
        """How rows of a batch are staged; None if the view holds it. Tables that earlier runs have left are dropped."""
        table = SHADOW + view if shadow else view
        shape, stored = self._known(table, locked=False)
        if self._is_in(table, stored, mark):
            return None
        names = self._run(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' "
            "AND starts_with(relname, $2)", (quoted(self._schema), prefix_of(table)),
        )  # fmt: skip
        for (name,) in names:
            # One that a process still copies into, which does not know that its job has ended, is left for later.
            with suppress(StoreUnavailable), self._writing():
                self._check_driver(mark.job, mark.epoch)
                self._run("SET LOCAL lock_timeout TO '1s'")
                self._run(f"DROP TABLE IF EXISTS {self._table(str(name))}")
        return PostgresStaging(self._url, self._schema, table, shape.to_json())

    def staging_transaction(self) -> AbstractContextManager[None]:
        return self._writing()

    def create_staged(self, name: str, columns: Sequence[Column]) -> None:
        self._run(f"CREATE UNLOGGED TABLE {self._table(name)} ({self._declared(columns)})")

    def copy_staged(self, name: str, rows: pa.Table) -> None:
        self._copy(self._table(name), rows)

    def encode(self, column: Column, values: pa.Array) -> pa.Array:
        return self._encode(column, values)

    def _load_staged(self, table: str, shape: Shape, staged: Sequence[StagedTable], change: int) -> None:
        for one in staged:
            if one.gone:
                source = self._table(one.name + GONE)
                if shape.key:
                    self._delete_staged(table, source, shape.key, one.nulls)
                keys = f"SELECT $1, {change}, {KEY_TEXT} FROM {source}"
                self._run(f"INSERT INTO {self._table(DELETES)} (view, change, key) {keys}", (table,))
                self._check_moved(one.name, one.gone)
                self._run(f"DROP TABLE {source}")
            self._insert_staged(table, self._table(one.name), shape, change)
            self._check_moved(one.name, one.present)
            self._run(f"DROP TABLE {self._table(one.name)}")

    def _check_moved(self, name: str, wanted: int) -> None:
        if self._affected != wanted:
            raise StoreUnavailable(self.where, f"{name} has {self._affected} rows of {wanted} that were copied into it")

    def _load_deletes(self, table: str, keys: pa.Array, change: int) -> None:
        views, changes = pa.repeat(table, len(keys)), pa.repeat(change, len(keys))
        self._copy(self._table(DELETES), pa.table({"view": views, "change": changes, "key": keys}))

    def _selected(self, column: Column) -> str:
        return f"{quoted(column.name)}::text" if column.nested else quoted(column.name)

    def _decode(self, column: Column, value: object) -> object:
        return postgres_columns.decode(column, value)

    def _array(self, column: Column, values: Sequence[object]) -> pa.Array:
        return postgres_columns.array(column, values)

    def _comparison(self, condition: Condition, first: int) -> tuple[str, list[object]]:
        values = postgres_columns.bound(condition)
        parameters = [f"${first + index}" for index in range(len(values))]
        name = quoted(condition.column.name)
        if condition.operator == "in":
            return f"{name} IN ({', '.join(parameters)})", values
        return f"{name} {condition.operator} {parameters[0]}", values

    def _ordering(self, order: Order) -> str:
        """Nulls where Spark and SQLite have them."""
        return f"{quoted(order.column.name)} {'DESC NULLS LAST' if order.descending else 'ASC NULLS FIRST'}"


class NodePostgresStore(PostgresStore):
    """In the PostgreSQL of a data directory, which is there while a node runs (own_postgres.py)."""

    def __init__(self, data: Path, schema: str, *, read_only: bool, clock: Clock) -> None:
        access = read_access(data)
        super().__init__(access.url() if access else "", schema, read_only=read_only, clock=clock)
        self._data = data
        self.where = f"the PostgreSQL of {data} (schema {schema})"

    def _connection(self) -> Connection:
        if (self._open is None or self._open.closed) and not runs(self._data):
            raise StoreUnavailable(
                self.where, f'no node runs there. Start one with "headwater start --data {self._data}"'
            )
        return super()._connection()


def _spoken(url: str, schema: str) -> str:
    """Never the password."""
    parts = conninfo_to_dict(url)
    return f"PostgreSQL {parts.get('host', 'localhost')}/{parts.get('dbname', '')}, schema {schema}"


def _sentence(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
