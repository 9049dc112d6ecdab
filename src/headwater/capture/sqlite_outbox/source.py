"""SQLite as a source of changes: triggers write them into an outbox (outbox.py), for every writer; this reads it.

One reading transaction is short: in a database without a WAL no writer can commit while it lasts. What is confirmed is
deleted from the outbox, all but the last row: its mark, which SQLite drew by lot, says when the capture comes back
whether this is still the database that it left.
"""

import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from json import dumps
from pathlib import Path

from headwater.capture.change import (
    CREATE,
    DELETE,
    READ,
    TRUNCATE,
    UPDATE,
    CapturedTable,
    Change,
    Row,
    SourcePosition,
    next_generation,
)
from headwater.capture.notes import Note
from headwater.capture.source import Batch, SourceStatus
from headwater.capture.sqlite_outbox.outbox import Entry, Outbox, Shape
from headwater.capture.sqlite_outbox.tables import SCHEMA, wanted
from headwater.capture.sqlite_outbox.triggers import ENDED
from headwater.capture.sqlite_outbox.values import Value, fragment, text_of
from headwater.capture.topic_names import topic_of
from headwater.clock import Clock
from headwater.errors import InvalidCapture, SourceGap, SourceRefused, SourceUnavailable

URL_PREFIX = "sqlite:///"
VERSION_MIN = (3, 37, 0)
LOCK_SECONDS = 5.0
LOOK_SECONDS = 0.02
BATCH_ROWS = 5_000
STATUS_INTERVAL_MS = 500
NEVER_LEFT_OUT = 2**62


def path_of(url: str) -> Path:
    """
    >>> path_of("sqlite:////var/lib/shop.db").as_posix(), path_of("sqlite:///shop.db").as_posix()
    ('/var/lib/shop.db', 'shop.db')
    """
    return Path(url.removeprefix(URL_PREFIX))


def object_name(capture: str, token: str) -> str:
    """
    >>> object_name("Shop.users", "3f9a1c")
    'headwater_shop_users_3f9a1c'
    """
    return f"headwater_{re.sub(r'[^a-z0-9_]', '_', capture.lower())}_{token}"


@dataclass(frozen=True, kw_only=True)
class SqliteSettings:
    capture: str
    path: Path
    tables: tuple[str, ...]
    topic: str
    """A template: {capture}, {schema} and {table} are filled in."""

    name: str
    """Of the outbox and of all that belongs to it."""

    snapshot: bool = True
    version: str = "headwater"


def connect(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise SourceRefused(f"there is no database {path}", "A capture follows a database that exists: make it first.")
    if sqlite3.sqlite_version_info < VERSION_MIN:
        raise SourceRefused(f"this Python has SQLite {sqlite3.sqlite_version}", "Captures need 3.37 or newer.")
    try:
        database = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        database.text_factory = text_of
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        raise SourceUnavailable(f"{path} cannot be read: {error}") from None
    return database


def drop(path: Path, name: str) -> None:
    """Take away the triggers and the outbox. A deleted database has none."""
    if not path.exists():
        return
    database = connect(path)
    try:
        Outbox(database, name).drop()
    except sqlite3.DatabaseError as error:
        raise SourceUnavailable(f"{path}: {error}") from None
    finally:
        database.close()


class SqliteSource:
    """A ChangeSource; see source.py for the contract."""

    def __init__(self, settings: SqliteSettings, clock: Clock) -> None:
        self.settings, self._clock = settings, clock
        self._pause = threading.Event()
        self._notes: dict[str, Note | None] = {}
        self._generation = self._reached = self._horizon = 0
        self._seen: tuple[int, int] | None = None
        self._schema_version = -1
        self._tables: dict[int, CapturedTable] = {}
        self._status_at_ms = -(10**9)
        self._status = SourceStatus()
        self._database: sqlite3.Connection | None = None

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self, notes: Mapping[str, Note]) -> None:
        self._database = connect(self.settings.path)
        self._file = _identity(self.settings.path)
        self._outbox = Outbox(self._database, self.settings.name)
        with self._trouble():
            self._generation = int(str(notes.get("outbox", {}).get("generation", 0)))
            if "outbox" not in notes or "renew" in notes:
                self._generation = next_generation(self._generation, self._clock.now_ms())
            if "renew" in notes:
                self._renew(notes)
            elif "outbox" in notes:
                self._come_back(notes)
            elif not self._outbox.exists:
                with self._outbox.writing():
                    self._outbox.make()
            if notes.get("outbox", {}).get("generation") != self._generation:
                self._notes |= {"outbox": {"generation": self._generation}}
            self._follow()

    def _come_back(self, notes: Mapping[str, Note]) -> None:
        again = f'Changes may be missing: copy all again with "headwater capture snapshot {self.settings.capture}".'
        if not self._outbox.exists:
            raise SourceGap(f"{self.settings.path} has no outbox {self.settings.name} any more", again)
        self._reached = int(str(notes.get("reached", {}).get("number", 0)))
        if self._reached and self._outbox.mark_of(self._reached) != notes["reached"].get("mark"):
            raise SourceGap(
                f"{self.settings.path} is not the database that the capture left: an earlier state of it, or another",
                again,
            )

    def _renew(self, notes: Mapping[str, Note]) -> None:
        """After a gap: a new outbox, and every table is copied. Positions start a new generation, after all others."""
        self._outbox.drop()
        with self._outbox.writing():
            self._outbox.make()
            for table in self._outbox.follow(self.settings.tables, copying=False):
                self._outbox.copy_again(table.name, renews=True)
        self._notes |= {"renew": None, "reached": None, "confirmed": None}

    def _follow(self) -> None:
        """Look at the tables if anything about them may have changed."""
        (version,) = self._connection.execute("PRAGMA schema_version").fetchone()
        if version == self._schema_version:
            return
        with self._outbox.writing():
            found = self._outbox.follow(self.settings.tables, copying=self.settings.snapshot)
        if not found and self._schema_version < 0:
            raise SourceRefused(
                f"{self.settings.path} has no table {', '.join(self.settings.tables)}", "Make it, or name another."
            )
        (self._schema_version,) = self._connection.execute("PRAGMA schema_version").fetchone()

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._database is not None
        return self._database

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise SourceUnavailable(f"{self.settings.path}: {error}") from None

    # -- tables ------------------------------------------------------------------------------------------------------

    def tables(self) -> Sequence[CapturedTable]:
        newest = {shape.table: shape for shape in self._outbox.shapes().values()}
        return [self._table(shape) for shape in newest.values() if wanted(shape.table, self.settings.tables)]

    def _table(self, shape: Shape) -> CapturedTable:
        if (found := self._tables.get(shape.id)) is None:
            topic = topic_of(self.settings.topic, self.settings.capture, SCHEMA, shape.table)
            found = CapturedTable(SCHEMA, shape.table, topic, shape.columns, shape.key, NEVER_LEFT_OUT)
            self._tables[shape.id] = found
        return found

    # -- changes -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_seconds: float) -> Batch:
        if self._notes:
            # Durable before anything is emitted under this generation.
            notes, self._notes = self._notes, {}
            return Batch(notes=notes)
        deadline_ms = self._clock.elapsed_ms() + int(timeout_seconds * 1000)
        with self._trouble():
            entries = self._entries()
            while not entries and self._clock.elapsed_ms() < deadline_ms:
                self._pause.wait(LOOK_SECONDS)
                entries = self._entries()
            changes = [self._change(entry) for entry in entries]
            self._look_at_status()
        # A change has a position of its own, and a transaction is as many as were seen together.
        inside, passed = self._reached < self._horizon, SourcePosition(self._address(self._reached) + 1, 0, 0)
        if not entries:
            return Batch(changes, inside=inside, passed=passed)
        # Noted with every batch: a note that lags behind the topic could take an earlier state for the one it left.
        notes = {"reached": {"number": self._reached, "mark": entries[-1].mark}}
        return Batch(changes, notes, safe=self._address(self._reached), inside=inside, passed=passed)

    def _entries(self) -> list[Entry]:
        if _identity(self.settings.path) != self._file:
            raise SourceUnavailable(f"{self.settings.path} was replaced by another file; it is reopened")
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if (version, self._reached) == self._seen:
            return []
        self._follow()
        entries = self._next_entries()
        # Copies wait for no pause of the writers, only until what they have written is not too much.
        copied = len(entries) < BATCH_ROWS and self._outbox.copy_some()
        if not entries and copied:
            entries = self._next_entries()
        if entries:
            self._reached = entries[-1].number
        elif not copied:
            self._seen = (version, self._reached)
        return entries

    def _next_entries(self) -> list[Entry]:
        """Up to where a transaction ended when it was looked last; what was committed since comes when that is read."""
        if self._reached >= self._horizon:
            self._horizon = self._outbox.newest()
        return self._outbox.entries(self._reached, self._horizon, BATCH_ROWS)

    def _change(self, entry: Entry) -> Change:
        table = self._table(self._outbox.shapes()[entry.shape])
        position = SourcePosition(self._address(entry.number), 0, 0)
        read = entry.operation == READ
        change = Change(table, entry.operation, position, self._source(entry, table), time_ms=entry.at_ms)
        if entry.operation == ENDED:
            change.operation, change.older_than = TRUNCATE, self._address(int(entry.copy))
        elif entry.copy:
            change.chunk = f"{entry.copy}/{entry.number}".encode()
        if entry.operation in (UPDATE, DELETE):
            change.before = _row(entry.before)
        if read or entry.operation in (CREATE, UPDATE):
            change.after = _row(entry.after)
        return change

    def _address(self, number: int) -> int:
        return (self._generation << 64) + number

    def _source(self, entry: Entry, table: CapturedTable) -> bytes:
        block = {
            "version": self.settings.version,
            "connector": "sqlite",
            "name": self.settings.capture,
            "ts_ms": entry.at_ms,
            "snapshot": "true" if entry.operation == READ else "false",
            "db": self.settings.path.name,
            "schema": SCHEMA,
            "table": table.name,
            "number": entry.number,
        }
        return dumps(block, ensure_ascii=False, separators=(",", ":")).encode()

    def confirm(self, address: int) -> None:
        try:
            self._outbox.forget(address - self._address(0))
        except sqlite3.OperationalError:
            return  # a writer holds the lock for long; the next pass deletes this too
        except sqlite3.DatabaseError as error:
            raise SourceUnavailable(f"{self.settings.path}: {error}") from None

    def read_row(self, table: str, key: tuple[str, ...], *, moved: bool) -> None:
        """Triggers capture whole rows: there is never one to request."""

    def copy_again(self, tables: Sequence[str], *, where: str = "") -> None:
        names = [shape.name for shape in self.tables()]
        chosen = [name for name in names if not tables or wanted(name, tables)]
        if tables and not chosen:
            raise InvalidCapture(f"capture {self.settings.capture} has no table {', '.join(tables)}")
        with self._trouble():
            try:
                with self._outbox.writing():
                    for name in chosen:
                        self._outbox.copy_again(name, where=where)
            except sqlite3.OperationalError as error:
                raise InvalidCapture(f"{where!r} is no condition of {', '.join(chosen)}: {error}") from None
        self._seen = None

    # -- how it is ---------------------------------------------------------------------------------------------------

    def _look_at_status(self) -> None:
        now_ms = self._clock.elapsed_ms()
        if now_ms - self._status_at_ms < STATUS_INTERVAL_MS:
            return
        self._status_at_ms = now_ms
        count, at_ms = self._outbox.waiting(self._reached)
        lag = 0.0 if at_ms is None else max(0.0, (self._clock.now_ms() - at_ms) / 1000)
        self._status = SourceStatus(str(self._reached), None, lag, snapshots=self._outbox.copies())
        if count:
            self._status.warning = f"{count:,} changes wait in the outbox"

    def status(self) -> SourceStatus:
        return self._status


def _row(values: Sequence[Value]) -> Row:
    return [fragment(value) for value in values]


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise SourceUnavailable(f"{path} cannot be reached: {error.strerror}") from None
    return found.st_dev, found.st_ino
