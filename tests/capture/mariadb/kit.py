"""A capture of MariaDB under a test's hand: a real server, a log in a folder, a runner that is stepped by the test."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from headwater.capture.appender import LogAppender
from headwater.capture.mariadb_binlog.gtid import parse_position
from headwater.capture.mariadb_binlog.source import MariadbSettings, MariadbSource
from headwater.capture.notes import Notes
from headwater.capture.relay import Relay
from headwater.capture.runner import Runner
from headwater.capture.source import ChangeSource
from headwater.clock import SystemClock
from headwater.log.log import Log
from headwater.record import Record
from tests.waiting import patience

PATIENCE_SECONDS = 30


class Captured:
    """Open with `start`; `stop` is clean; `crash` drops everything without closing it."""

    def __init__(
        self, url: str, folder: Path, tables: Sequence[str], *, partitions: int = 1, events: str | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        """`events`: the column that keys them, if the table is one of events."""
        self.settings = MariadbSettings(
            capture="shop", url=url, tables=tuple(tables), topic="{table}", name="headwater_shop_1", **settings
        )
        self.folder, self.partitions, self.events = folder, partitions, events
        self.log = Log.open(folder / "data")
        self.runner: Runner
        self.source: MariadbSource

    def start(self) -> "Captured":
        appender = LogAppender(self.log)
        self.source = MariadbSource(self.settings, SystemClock())
        source: ChangeSource = self.source
        if self.events is not None:
            source = Relay(source, key_column=self.events, value_column="payload")
        self.runner = Runner(
            source, appender, Notes(appender, "shop"),
            folder=self.folder / "capture", clock=SystemClock(), partitions=self.partitions,
        )  # fmt: skip
        self.runner.open()
        return self

    def until(self, reached: Callable[[], bool]) -> "Captured":
        deadline = patience() + PATIENCE_SECONDS
        while not reached():
            self.runner.step(0.05)
            assert patience() < deadline, f"not reached; {self.source.status()}"
        return self

    def copied(self) -> bool:
        return all(table.done for table in self.source.status().snapshots)

    def caught_up(self, connection: Any) -> "Captured":
        """Until all that is committed now has passed, and every table has been read."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@global.gtid_binlog_pos")
            (target,) = cursor.fetchone()
        self.runner.step(0.05)
        self.until(lambda: parse_position(self.source.status().position) == parse_position(target) and self.copied())
        self.runner.step(0)
        self.runner.step(0)
        return self

    def stop(self) -> None:
        self.runner.close()

    def crash(self) -> None:
        self.runner.abandon()

    def close(self) -> None:
        if hasattr(self, "source"):
            self.source.close()
        self.log.close()

    def records(self, topic: str) -> list[Record]:
        return [
            record
            for partition in range(self.log.topic(topic).partitions)
            for record in self.log.read(topic, partition)
        ]

    def values(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value) for record in self.records(topic) if record.value is not None]

    def emitted(self, topic: str) -> list[tuple[str, Any, Any]]:
        """(operation, before, after) of each change."""
        return [(value["op"], value["before"], value["after"]) for value in self.values(topic)]


def run(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def table_of(connection: Any, table: str, key: tuple[str, ...] = ("id",)) -> dict[str, dict[str, Any]]:
    """A table of numbers and text, as a topic folded would be."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {json.dumps({name: row[name] for name in key}, separators=(",", ":")): row for row in rows}
