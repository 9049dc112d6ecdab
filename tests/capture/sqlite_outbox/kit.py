"""A SQLite database with a capture of it, stepped by the test, and an oracle for the topic."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headwater.capture.appender import LogAppender
from headwater.capture.notes import Notes
from headwater.capture.relay import Relay
from headwater.capture.runner import Runner
from headwater.capture.source import ChangeSource
from headwater.capture.sqlite_outbox.source import SqliteSettings, SqliteSource
from headwater.clock import SystemClock
from headwater.log.log import Log
from headwater.record import Record

QUIET_STEPS = 3


class Captured:
    def __init__(
        self, folder: Path, *tables: str, snapshot: bool = True, partitions: int = 1, events: str | None = None
    ) -> None:
        """`events`: the column that keys them, if the table is one of events."""
        self.folder, self.path = folder, folder / "shop.db"
        self.partitions, self.events = partitions, events
        self.settings = SqliteSettings(
            capture="shop", path=self.path, tables=tables, topic="{table}", name="headwater_shop_1", snapshot=snapshot
        )
        self.log = Log.open(folder / "data")
        self.notes: Notes
        self.source: SqliteSource
        self.runner: Runner

    def start(self) -> "Captured":
        appender = LogAppender(self.log)
        self.source = SqliteSource(self.settings, SystemClock())
        source: ChangeSource = self.source
        if self.events is not None:
            source = Relay(source, key_column=self.events, value_column="payload")
        self.notes = Notes(appender, "shop")
        self.runner = Runner(
            source, appender, self.notes,
            folder=self.folder / "capture", clock=SystemClock(), partitions=self.partitions,
        )  # fmt: skip
        self.runner.open()
        return self

    def caught_up(self) -> "Captured":
        quiet = 0
        while quiet < QUIET_STEPS:
            quiet = 0 if self.runner.step(0) else quiet + 1
        return self

    def stop(self) -> None:
        self.runner.close()

    def crash(self) -> None:
        self.runner.abandon()

    def records(self, topic: str) -> list[Record]:
        count = self.log.topic(topic).partitions
        return [record for partition in range(count) for record in self.log.read(topic, partition)]

    def emitted(self, topic: str) -> list[tuple[str, Any, Any]]:
        """(operation, before, after) of each change."""
        values = [json.loads(record.value) for record in self.records(topic) if record.value is not None]
        return [(value["op"], value["before"], value["after"]) for value in values]

    def rows(self, topic: str) -> dict[str, Any]:
        return replayed(self.records(topic))


def replayed(records: Iterable[Record]) -> dict[str, Any]:
    """The topic folded into a table by a sceptical reader: a row is created where there is none, and what a
    change says was there before was there. Only a row that no copy has come to yet can change uncaptured."""
    table: dict[str, Any] = {}
    seen: set[str] = set()
    for record in records:
        assert record.key is not None
        key = record.key.decode()
        if record.value is None:
            assert key not in table, f"{key} has a tombstone and was not deleted"
            continue
        value = json.loads(record.value)
        operation, before, after = value["op"], value["before"], value["after"]
        if operation == "c":
            assert key not in table, f"{key} is created twice"
        elif operation == "r":
            assert key not in table or table[key] == after, f"{key} is read as it was not"
        elif key in seen:
            assert table.get(key) == before, f"{key} was {table.get(key)} before, and not {before}"
        seen.add(key)
        if after is None:
            table.pop(key, None)
        else:
            table[key] = after
    return table


def table_of(database: sqlite3.Connection, table: str, key: tuple[str, ...] = ("id",)) -> dict[str, Any]:
    cursor = database.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {json.dumps({name: row[name] for name in key}, separators=(",", ":")): row for row in rows}
