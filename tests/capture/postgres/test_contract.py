import json
from typing import Any

import psycopg
import pytest

from headwater.capture.postgresql.source import PostgresSettings, PostgresSource
from headwater.capture.source import ChangeSource
from headwater.clock import SystemClock
from headwater.record import Record
from tests.contracts.change_source import CONFIRMING, TOPIC, WRITING, ChangeSourceContract

NAME = "headwater_shop_1"


class PostgresSystem:
    def __init__(self, database: psycopg.Connection[Any], url: str) -> None:
        self.database, self.url = database, url
        database.execute("CREATE TABLE numbers (id int PRIMARY KEY)")

    def write(self, *numbers: int) -> None:
        with self.database.transaction():
            for number in numbers:
                self.database.execute("INSERT INTO numbers VALUES (%s)", (number,))

    def source(self) -> ChangeSource:
        settings = PostgresSettings(
            capture="shop", url=self.url, tables=("public.numbers",), topic=TOPIC, name=NAME, snapshot=False
        )
        return PostgresSource(settings, SystemClock())

    def released(self) -> None:
        while self.database.execute(
            "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active", (NAME,)
        ).fetchone():
            pass

    def number_of(self, record: Record) -> int:
        return int(json.loads(record.value or b"")["after"]["id"])


class TestPostgres(ChangeSourceContract):
    points = (*WRITING, *CONFIRMING)  # it notes how far copies are, and here there are none

    @pytest.fixture
    def system(self, database: psycopg.Connection[Any], url: str) -> PostgresSystem:
        return PostgresSystem(database, url)
