"""Large values as they stand in a capture's topics, so that an update that left one out can be completed.

PostgreSQL does not send a large (TOASTed) value that an update did not change. The topic has it: in the last record of
the same key. This file is an index of the topics for that question only: values of wide rows, by topic and key, with
the offset up to which it has read. It is made from the topics and can be deleted at any time; opened with a lag, it
reads what it missed.

SQLite has no checksums, and a value from here is written to a topic as if the source had said it: so each row has one.
"""

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crc32c import crc32c

from headwater.capture.appender import Appender
from headwater.capture.change import CapturedTable, Row
from headwater.capture.envelope import UNAVAILABLE
from headwater.errors import CaptureError
from headwater.record import Record, TopicPartition

_logger = logging.getLogger(__name__)

BETWEEN = b"\x1f"
"""Stands between the fragments of a kept row: JSON never has it unescaped. An empty one is an unknown value."""

WRONG = "a row is not what was written"
Kept = tuple[str, bytes]
_UNAVAILABLE_TEXT = json.loads(UNAVAILABLE)
_VERSION = 2
_SCHEMA = f"""
CREATE TABLE value(topic TEXT, key BLOB, names TEXT, row BLOB, checksum INTEGER, PRIMARY KEY (topic, key));
CREATE TABLE reached(topic TEXT, partition INTEGER, offset INTEGER, checksum INTEGER, PRIMARY KEY (topic, partition));
PRAGMA user_version={_VERSION};
"""


class LastValues:
    """Rows as JSON fragments by column; a column whose value is unknown is missing. One thread."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        try:
            self._database = _opened(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # the disk, or another process that uses it
            _logger.warning("%s is damaged and is rebuilt from the topics: %s", path, error)
            _delete(path)
            self._database = _opened(path)
        self._pending: dict[tuple[str, bytes], Kept | None] = {}
        self._names: dict[tuple[str, ...], str] = {}
        self._reached: dict[TopicPartition, int] = {}
        with self._undamaged():
            self._topics = {topic for (topic,) in self._database.execute("SELECT DISTINCT topic FROM value")}

    def catch_up(self, appender: Appender, table: CapturedTable, partition: int) -> None:
        """Read what was appended since it was last written."""
        topic = table.topic
        first, end = appender.bounds(topic, partition)
        with self._undamaged():
            row = self._database.execute(
                "SELECT offset, checksum FROM reached WHERE topic = ? AND partition = ?", (topic, partition)
            ).fetchone()
            if row and row[1] != checksum_of(topic, partition, row[0]):
                raise sqlite3.DatabaseError(WRONG)
        reached = row[0] if row and row[0] <= end else first
        for record in appender.read(topic, partition, max(first, reached)):
            self._take_record(table, record)
        self.reach(TopicPartition(topic, partition), end)
        self.flush()

    def _take_record(self, table: CapturedTable, record: Record) -> None:
        after = None if record.value is None else json.loads(record.value).get("after")
        if record.key is None:
            return
        if after is None:
            self.forget(table.topic, record.key)
        else:
            row = [None if after[name] == _UNAVAILABLE_TEXT else _fragment(after[name]) for name in after]
            self._take(table, record.key, tuple(after), row)

    # -- as changes pass ---------------------------------------------------------------------------------------------

    def note(self, table: CapturedTable, key: bytes | None, row: Row) -> None:
        """The row under a key as it now stands in the topic."""
        if key is not None:
            self._take(table, key, table.columns, row)

    def follows(self, topic: str) -> bool:
        """Whether it matters which rows of the topic were deleted."""
        return topic in self._topics

    def note_joined(self, table: CapturedTable, key: bytes, fragments: bytes | None) -> None:
        """As `note` for a wide row, its fragments joined; None for one that was deleted, or is not wide any more."""
        if fragments is None:
            self.forget(table.topic, key)
        else:
            self._keep(table.topic, key, table.columns, fragments)

    def _take(self, table: CapturedTable, key: bytes, columns: tuple[str, ...], row: Row) -> None:
        try:
            narrow = sum(map(len, row)) < table.wide_bytes  # type: ignore[arg-type]
        except TypeError:
            narrow = False  # a value is unknown
        if narrow:
            self.forget(table.topic, key)
        else:
            self._keep(table.topic, key, columns, BETWEEN.join([value or b"" for value in row]))

    def _keep(self, topic: str, key: bytes, columns: tuple[str, ...], joined: bytes) -> None:
        self._topics.add(topic)
        names = self._names.get(columns)
        if names is None:
            names = self._names[columns] = json.dumps(columns, ensure_ascii=False)
        self._pending[topic, key] = (names, joined)

    def forget(self, topic: str, key: bytes | None) -> None:
        if key is not None and topic in self._topics:
            self._pending[topic, key] = None

    def _look_up(self, topic: str, key: bytes | None) -> dict[str, bytes | None] | None:
        if key is None or topic not in self._topics:
            return None
        kept: Kept | None
        if (topic, key) in self._pending:
            kept = self._pending[topic, key]
        else:
            with self._undamaged():
                found = self._database.execute(
                    "SELECT names, row, checksum FROM value WHERE topic = ? AND key = ?", (topic, key)
                ).fetchone()
                if found and found[2] != checksum_of(topic, key, *found[:2]):
                    raise sqlite3.DatabaseError(WRONG)
                kept = found[:2] if found else None
        if kept is None:
            return None
        return {name: value or None for name, value in zip(json.loads(kept[0]), kept[1].split(BETWEEN), strict=True)}

    def completed(self, table: CapturedTable, key: bytes | None, row: Row) -> Row:
        """Returns the row with values from the topic for those that the source left out."""
        known = self._look_up(table.topic, key)
        if known is None:
            return row
        return [known.get(name) if value is None else value for name, value in zip(table.columns, row, strict=True)]

    def gaps_filled(self, table: CapturedTable, key: bytes | None, read: Row) -> Row | None:
        """Returns the topic's row under a key, its gaps filled from the source's row; None if it has no gap."""
        known = self._look_up(table.topic, key)
        if known is None or None not in known.values():
            return None
        return [known.get(name) or value for name, value in zip(table.columns, read, strict=True)]

    # -- its own file ------------------------------------------------------------------------------------------------

    def reach(self, where: TopicPartition, offset: int) -> None:
        self._reached[where] = offset

    def flush(self) -> None:
        kept = [
            (topic, key, *row, checksum_of(topic, key, *row))
            for (topic, key), row in self._pending.items()
            if row is not None
        ]
        deleted = [where for where, row in self._pending.items() if row is None]
        reached = [
            (topic, partition, offset, checksum_of(topic, partition, offset))
            for (topic, partition), offset in self._reached.items()
        ]
        with self._undamaged():
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?, ?)", kept)
            self._database.executemany("DELETE FROM value WHERE topic = ? AND key = ?", deleted)
            self._database.executemany("INSERT OR REPLACE INTO reached VALUES (?, ?, ?, ?)", reached)
            self._database.execute("COMMIT")
        self._pending, self._reached = {}, {}

    @contextmanager
    def _undamaged(self) -> Iterator[None]:
        """A damaged file is deleted; the next open rebuilds it."""
        try:
            yield
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self._database.close()
            _delete(self._path)
            raise CaptureError(f"{self._path} is damaged and is rebuilt from the topics: {error}") from None

    @property
    def pending(self) -> int:
        return len(self._pending)

    def close(self) -> None:
        """Without what was not flushed: it may be of changes that are not in the topics."""
        self._database.close()


def problem_of(path: Path) -> str:
    """Returns the problem of such a file, for `headwater log check`; "" if there is none."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            said = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
            database.execute("SELECT count(*) FROM reached").fetchone()  # an empty file is a sound database of nothing
            if database.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
                rows = database.execute("SELECT * FROM value UNION ALL SELECT *, NULL FROM reached")
                said = WRONG if any(not _sound(row) for row in rows) else said
        finally:
            database.close()
    except sqlite3.Error as error:
        said = str(error)
    return "" if said == "ok" else f"{path} is damaged ({said}); remove it, and it is made again from the topics"


def checksum_of(*values: str | bytes | int) -> int:
    """Of one row, column by column."""
    found = 0
    for value in values:
        found = crc32c(value if isinstance(value, bytes) else str(value).encode(errors="replace"), found)
    return found


def _sound(row: tuple[Any, ...]) -> bool:
    """Of either table; that of `reached` ends with a null."""
    *values, checksum = row if row[-1] is not None else row[:-1]
    return bool(checksum == checksum_of(*values))


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # Lost on a power cut, it is at worst older than the topics, and says so: WAL keeps it consistent.
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        if database.execute("PRAGMA user_version").fetchone()[0] != _VERSION:  # new, or of an earlier release
            database.executescript("DROP TABLE IF EXISTS value; DROP TABLE IF EXISTS reached;" + _SCHEMA)
    except BaseException:
        database.close()
        raise
    return database


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _fragment(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
