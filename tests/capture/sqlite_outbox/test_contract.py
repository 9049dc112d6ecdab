import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.capture.relay import Relay
from headwater.capture.source import ChangeSource
from headwater.capture.sqlite_outbox.source import SqliteSettings, SqliteSource
from headwater.clock import SystemClock
from headwater.record import Record
from tests.contracts.change_source import TOPIC, ChangeSourceContract


class SqliteSystem:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("CREATE TABLE numbers (id INTEGER PRIMARY KEY, payload TEXT)")

    def write(self, *numbers: int) -> None:
        self.database.execute("BEGIN")
        self.database.executemany("INSERT INTO numbers VALUES (?, ?)", [(number, str(number)) for number in numbers])
        self.database.execute("COMMIT")

    def source(self) -> ChangeSource:
        settings = SqliteSettings(
            capture="shop", path=self.path, tables=(TOPIC,), topic=TOPIC, name="headwater_shop_1", snapshot=False
        )
        return SqliteSource(settings, SystemClock())

    def released(self) -> None:
        """Several may read at once."""

    def number_of(self, record: Record) -> int:
        return int(json.loads(record.value or b"")["after"]["id"])


class EventsSystem(SqliteSystem):
    def source(self) -> ChangeSource:
        return Relay(super().source(), key_column="id", value_column="payload")

    def number_of(self, record: Record) -> int:
        return int(record.value or b"")


class TestSqlite(ChangeSourceContract):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Iterator[SqliteSystem]:
        system = SqliteSystem(tmp_path / "shop.db")
        yield system
        system.database.close()


class TestEvents(ChangeSourceContract):
    @pytest.fixture
    def system(self, tmp_path: Path) -> Iterator[EventsSystem]:
        system = EventsSystem(tmp_path / "shop.db")
        yield system
        system.database.close()
