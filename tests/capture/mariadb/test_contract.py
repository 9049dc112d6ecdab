import json
from typing import Any

import pytest

from headwater.capture.mariadb_binlog.source import MariadbSettings, MariadbSource
from headwater.capture.relay import Relay
from headwater.capture.source import ChangeSource
from headwater.clock import SystemClock
from headwater.record import Record
from tests.capture.mariadb.kit import run
from tests.contracts.change_source import NOTING, TOPIC, WRITING, ChangeSourceContract


class MariadbSystem:
    def __init__(self, database: Any, url: str) -> None:
        self.database, self.url = database, url
        run(database, "CREATE TABLE numbers (id INT PRIMARY KEY, payload TEXT)")

    def write(self, *numbers: int) -> None:
        run(self.database, "BEGIN", *(f"INSERT INTO numbers VALUES ({one}, '{one}')" for one in numbers), "COMMIT")

    def source(self) -> ChangeSource:
        settings = MariadbSettings(
            capture="shop", url=self.url, tables=("numbers",), topic=TOPIC, name="headwater_shop_1", snapshot=False
        )
        return MariadbSource(settings, SystemClock())

    def released(self) -> None:
        """The server ends the older of two readers by itself."""

    def number_of(self, record: Record) -> int:
        return int(json.loads(record.value or b"")["after"]["id"])


class EventsSystem(MariadbSystem):
    def source(self) -> ChangeSource:
        return Relay(super().source(), key_column="id", value_column="payload")

    def number_of(self, record: Record) -> int:
        return int(record.value or b"")


class TestMariadb(ChangeSourceContract):
    points = (*WRITING, *NOTING)  # nothing is confirmed to the server

    @pytest.fixture
    def system(self, database: Any, url: str) -> MariadbSystem:
        return MariadbSystem(database, url)


class TestEvents(ChangeSourceContract):
    points = (*WRITING, *NOTING)

    @pytest.fixture
    def system(self, database: Any, url: str) -> EventsSystem:
        return EventsSystem(database, url)
