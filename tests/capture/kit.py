"""A capture under a test's hand: a real database, a log in a folder, and a runner that is stepped by the test."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from headwater.capture.appender import LogAppender
from headwater.capture.notes import Notes
from headwater.capture.postgresql.source import PostgresSettings, PostgresSource
from headwater.capture.runner import Runner
from headwater.clock import SystemClock
from headwater.log.log import Log
from headwater.record import Record
from tests.waiting import patience

PATIENCE_SECONDS = 60


class Captured:
    """Open with `start`; `stop` is clean; `crash` drops everything without closing it."""

    def __init__(self, url: str, folder: Path, tables: Sequence[str], **settings: Any) -> None:
        self.partitions = settings.pop("partitions", 1)
        log = settings.pop("log", None)  # of a node that is running
        self.patience_seconds = settings.pop("patience_seconds", PATIENCE_SECONDS)
        self.settings = PostgresSettings(
            capture="shop", url=url, tables=tuple(tables), topic="{table}", name="headwater_shop_1", **settings
        )
        self.folder = folder
        self.log = log or Log.open(folder / "data")
        self.runner: Runner
        self.source: PostgresSource

    def start(self) -> "Captured":
        appender = LogAppender(self.log)
        self.source = PostgresSource(self.settings, SystemClock())
        self.runner = Runner(
            self.source,
            appender,
            Notes(appender, "shop"),
            folder=self.folder / "capture",
            clock=SystemClock(),
            partitions=self.partitions,
        )
        self.runner.open()
        return self

    def change(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)

    def until(self, reached: Callable[[], bool]) -> "Captured":
        deadline = patience() + self.patience_seconds
        while not reached():
            self.runner.step(0.05)
            assert patience() < deadline, f"not reached; {self.source.status()}"
        return self

    def copied(self) -> "Captured":
        """Until every table has been read."""
        self.runner.step(0.05)
        return self.until(lambda: all(table.done for table in self.source.status().snapshots))

    def caught_up(self, connection: psycopg.Connection[Any]) -> "Captured":
        """Until all that is committed now has passed."""
        row = connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchone()
        assert row is not None
        target = row[0]
        self.copied()
        return self.until(lambda: self.runner._safe >= target)

    def stop(self) -> None:
        self.runner.close()
        self._wait_for_the_slot()

    def _wait_for_the_slot(self) -> None:
        """The server takes a moment to see that the client disconnected."""
        with psycopg.connect(self.settings.url, autocommit=True) as connection:
            deadline = patience() + PATIENCE_SECONDS
            while connection.execute(
                "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active", (self.settings.name,)
            ).fetchone():
                assert patience() < deadline, "the slot stays in use"

    def crash(self) -> None:
        self.runner.abandon()
        self._wait_for_the_slot()

    def close(self) -> None:
        self.log.close()

    def records(self, topic: str) -> list[Record]:
        return [
            record
            for partition in range(self.log.topic(topic).partitions)
            for record in self.log.read(topic, partition)
        ]

    def values(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value) for record in self.records(topic) if record.value is not None]

    def rows(self, topic: str) -> dict[str, dict[str, Any]]:
        """The topic folded into a table, as any consumer would."""
        return fold(self.records(topic))


def fold(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for record in records:
        assert record.key is not None
        key = record.key.decode()
        after = None if record.value is None else json.loads(record.value)["after"]
        if after is None:
            table.pop(key, None)
        else:
            table[key] = after
    return table


def bag(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A topic without keys folded into a table: rows in the order they came, without those that were taken away."""
    table: list[dict[str, Any]] = []
    for record in records:
        value = json.loads(record.value or b"")
        if value["op"] == "t":
            table.clear()
        if value["before"] is not None:
            table.remove(value["before"])
        if value["after"] is not None:
            table.append(value["after"])
    return table


def run(connection: psycopg.Connection[Any], *statements: str) -> None:
    for statement in statements:
        connection.execute(statement)
