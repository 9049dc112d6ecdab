"""Large values as they stand in a capture's topics, so that an update that left one out can be completed.

PostgreSQL does not send a large (TOASTed) value that an update did not change. The topic has it: in the last record of
the same key. This file is an index of the topics for that question only: values of wide rows, by topic and key, with
the offset up to which it has read. It is made from the topics and can be deleted at any time; opened behind them, it
reads what it missed.
"""

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.capture.appender import Appender
from headwater.capture.change import CapturedTable, Row
from headwater.capture.envelope import UNAVAILABLE
from headwater.errors import CaptureError
from headwater.record import Record, TopicPartition

_logger = logging.getLogger(__name__)

BETWEEN = b"\x1f"
"""Stands between the fragments of a kept row: JSON never has it unescaped. An empty one was told by nobody."""

Kept = tuple[str, bytes]
_UNAVAILABLE_TEXT = json.loads(UNAVAILABLE)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS value(topic TEXT, key BLOB, names TEXT, row BLOB, PRIMARY KEY (topic, key));
CREATE TABLE IF NOT EXISTS reached(topic TEXT, partition INTEGER, offset INTEGER, PRIMARY KEY (topic, partition));
"""


class LastValues:
    """Rows as JSON fragments by column; a column whose value nobody has told is missing. One thread."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        try:
            self._database = _opened(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # the disk, or somebody else who uses it
            _logger.warning("%s is damaged and is made anew from the topics: %s", path, error)
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
                "SELECT offset FROM reached WHERE topic = ? AND partition = ?", (topic, partition)
            ).fetchone()
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
        """Whether it matters which rows of the topic are gone."""
        return topic in self._topics

    def note_joined(self, table: CapturedTable, key: bytes, fragments: bytes | None) -> None:
        """As `note` a wide row, its fragments joined already; None for one that is gone, or not wide any more."""
        if fragments is None:
            self.forget(table.topic, key)
        else:
            self._keep(table.topic, key, table.columns, fragments)

    def _take(self, table: CapturedTable, key: bytes, columns: tuple[str, ...], row: Row) -> None:
        try:
            narrow = sum(map(len, row)) < table.wide_bytes  # type: ignore[arg-type]
        except TypeError:
            narrow = False  # a value was not told
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
                kept = self._database.execute(
                    "SELECT names, row FROM value WHERE topic = ? AND key = ?", (topic, key)
                ).fetchone()
        if kept is None:
            return None
        return {name: value or None for name, value in zip(json.loads(kept[0]), kept[1].split(BETWEEN), strict=True)}

    def completed(self, table: CapturedTable, key: bytes | None, row: Row) -> Row:
        """The row with what the topic knows in place of what the source left out."""
        known = self._look_up(table.topic, key)
        if known is None:
            return row
        return [known.get(name) if value is None else value for name, value in zip(table.columns, row, strict=True)]

    def mended(self, table: CapturedTable, key: bytes | None, read: Row) -> Row | None:
        """The topic's row under a key, its gaps closed with a row read from the source; None if it has no gap."""
        known = self._look_up(table.topic, key)
        if known is None or None not in known.values():
            return None
        return [known.get(name) or value for name, value in zip(table.columns, read, strict=True)]

    # -- its own file ------------------------------------------------------------------------------------------------

    def reach(self, where: TopicPartition, offset: int) -> None:
        self._reached[where] = offset

    def flush(self) -> None:
        kept = [(topic, key, *row) for (topic, key), row in self._pending.items() if row is not None]
        gone = [where for where, row in self._pending.items() if row is None]
        reached = [(topic, partition, offset) for (topic, partition), offset in self._reached.items()]
        with self._undamaged():
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?)", kept)
            self._database.executemany("DELETE FROM value WHERE topic = ? AND key = ?", gone)
            self._database.executemany("INSERT OR REPLACE INTO reached VALUES (?, ?, ?)", reached)
            self._database.execute("COMMIT")
        self._pending, self._reached = {}, {}

    @contextmanager
    def _undamaged(self) -> Iterator[None]:
        """A damaged file is deleted; who opens it next makes it anew."""
        try:
            yield
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self._database.close()
            _delete(self._path)
            raise CaptureError(f"{self._path} is damaged and is made anew from the topics: {error}") from None

    @property
    def pending(self) -> int:
        return len(self._pending)

    def close(self) -> None:
        """Without what was not flushed: it may be of changes that are not in the topics."""
        self._database.close()


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # Lost on a power cut, it is at worst older than the topics, and says so: WAL keeps it consistent.
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")
        database.executescript(_SCHEMA)
    except BaseException:
        database.close()
        raise
    return database


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _fragment(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
