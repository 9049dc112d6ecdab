"""Debezium is the oracle: on the same work, the envelopes are the same field by field, but for what is meant."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.capture.kit import Captured, run
from tests.capture.postgres.debezium import Event, alike, differing, running_debezium
from tests.crash.killing import free_port
from tests.servers.postgres_cluster import running_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
Connection = psycopg.Connection[Any]

TYPES = {
    "a_boolean": ("boolean", "true"),
    "a_smallint": ("smallint", "-7"),
    "a_bigint": ("bigint", "9007199254740993"),
    "a_real": ("real", "1.5"),
    "a_double": ("double precision", "0.1"),
    "a_numeric": ("numeric(20,4)", "12345678901234.5678"),
    "a_free_numeric": ("numeric", "1.10"),
    "a_text": ("text", "'it''s \"quoted\" \\ and ünïcode'"),
    "a_char": ("char(5)", "'ab'"),
    "a_varchar": ("varchar(10)", "'abc'"),
    "a_bytea": ("bytea", "'\\x00ff10'"),
    "a_date": ("date", "'2026-01-31'"),
    "a_timestamp": ("timestamp", "'2026-01-31 12:34:56.789012'"),
    "a_timestamptz": ("timestamptz", "'2026-01-31 12:34:56.789012+02'"),
    "a_time": ("time", "'12:34:56.5'"),
    "a_uuid": ("uuid", "'6f1c2d3e-4a5b-4c6d-8e7f-901a2b3c4d5e'"),
    "a_json": ("json", "'{\"a\": [1, 2]}'"),
    "a_jsonb": ("jsonb", "'{\"a\": [1, 2]}'"),
    "a_mood": ("mood", "'happy'"),
    "a_list": ("int[]", "'{1,NULL,3}'"),
    "words": ("text[]", "'{a,\"b, c\"}'"),
    "a_range": ("int4range", "'[1,5)'"),
    "an_address": ("inet", "'198.51.100.1/24'"),
    "a_bit": ("bit(1)", "B'1'"),
    "a_nothing": ("text", "NULL"),
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Event], list[Event]]]:
    """What Debezium and we emit for the same work."""
    folder, port = tmp_path_factory.mktemp("debezium"), free_port()
    tables = ["public.users", "public.full_rows", "public.every_type"]
    with (
        running_cluster(listen_addresses="127.0.0.1", port=str(port)) as cluster,
        psycopg.connect(cluster.url, autocommit=True) as database,
    ):
        prepare(database)
        captured = Captured(cluster.url, folder / "ours", tables, transactions="shop.transaction")
        captured.change(topic="{capture}.{schema}.{table}")
        try:
            captured.start().copied().stop()
            with running_debezium(port, "postgres", tables, folder / "theirs") as debezium:
                debezium.until(lambda events: len(events) >= 4)
                change(database)
                for number, statement in enumerate(ALTERATIONS):
                    # One at a time: Debezium asks the database for columns, and may then miss dropped ones.
                    run(database, f"INSERT INTO users (id) VALUES ({1000 + number})")
                    theirs = debezium.until(lambda events, key=1000 + number: has(events, key))  # type: ignore[misc]
                    run(database, *statement)
            captured.start().caught_up(database)
            yield theirs, events_of(captured)
        finally:
            captured.source.close()
            captured.close()


def prepare(database: Connection) -> None:
    columns = ", ".join(f"{name} {type}" for name, (type, _) in TYPES.items())
    run(
        database,
        "CREATE TYPE mood AS ENUM ('happy', 'sad')",
        "CREATE TABLE users (id int PRIMARY KEY, name text, score numeric(10,2))",
        "CREATE TABLE full_rows (a int, b text, PRIMARY KEY (a, b))",
        "ALTER TABLE full_rows REPLICA IDENTITY FULL",
        f"CREATE TABLE every_type (id bigint PRIMARY KEY, {columns})",
        "INSERT INTO users VALUES (1, 'ada', 1.50), (2, 'bob', NULL)",
        "INSERT INTO full_rows VALUES (1, 'x')",
        every_type(1),
    )


def every_type(id: int) -> str:
    return f"INSERT INTO every_type VALUES ({id}, {', '.join(value for _, value in TYPES.values())})"


def change(database: Connection) -> None:
    with database.transaction():
        run(
            database,
            "INSERT INTO users VALUES (3, 'cyd', 3), (4, 'dan', 4)",
            "UPDATE users SET name = 'eve' WHERE id = 2",
            every_type(2),
        )
    run(
        database,
        "UPDATE users SET id = 7 WHERE id = 2",
        "DELETE FROM users WHERE id = 1",
        "UPDATE full_rows SET b = 'y'",
        "INSERT INTO full_rows VALUES (2, 'z')",
        "DELETE FROM full_rows WHERE a = 1",
    )


ALTERATIONS: tuple[list[str], ...] = (
    ["ALTER TABLE users ADD COLUMN country text", "INSERT INTO users VALUES (5, 'fay', 5, 'de')"],
    ["ALTER TABLE users DROP COLUMN score", "UPDATE users SET name = 'gus' WHERE id = 5"],
    ["ALTER TABLE users RENAME name TO label", "UPDATE users SET label = 'hal' WHERE id = 5"],
    ["ALTER TABLE users ALTER country TYPE varchar(5)", "UPDATE users SET country = 'fr' WHERE id = 5"],
    [],
)


def has(events: list[Event], key: int) -> bool:
    return any(event["key"] == {"id": key} and event["value"] for event in events)


def events_of(captured: Captured) -> list[Event]:
    topics = ("shop.public.users", "shop.public.full_rows", "shop.public.every_type", "shop.transaction")
    return [
        {
            "topic": topic,
            "key": None if record.key is None else json.loads(record.key),
            "value": None if record.value is None else json.loads(record.value),
        }
        for topic in topics
        for record in captured.records(topic)
    ]


def of(events: list[Event], topic: str) -> list[Event]:
    return [alike(event) for event in events if event["topic"] == topic]


Both = tuple[list[Event], list[Event]]


@pytest.mark.parametrize("table", ["users", "full_rows", "every_type"])
def test_envelopes_are_those_of_debezium(both: Both, table: str) -> None:
    theirs, ours = (of(events, f"shop.public.{table}") for events in both)
    assert len(ours) > 1
    assert [event["key"] for event in ours] == [event["key"] for event in theirs]
    pairs = enumerate(zip(ours, theirs, strict=True))
    assert [found for number, (our, their) in pairs for found in differing(f"event {number}", our, their)] == []


def test_transactions_are_written_as_debezium_does(both: Both) -> None:
    theirs, ours = (
        [{**event["value"], "id": event["value"]["id"].partition(":")[0]} for event in events
         if event["topic"] == "shop.transaction"]
        for events in both
    )  # fmt: skip
    assert [event["status"] for event in ours[:2]] == ["BEGIN", "END"]
    assert ours[: len(theirs)] == theirs
