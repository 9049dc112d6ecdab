"""Conditional appends: how many events a second are stored durably, each only if its stream is at the expected version.

Every contender syncs before it answers. Writers are threads of one process, as programs with a store in them are: one
writer on one stream, and many writers on a thousand streams, each on its own ones, so that nobody conflicts.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import local
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg
from eventsourcing.persistence import ApplicationRecorder, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

from benchmarks.plan import Plan
from benchmarks.process_clock import now_seconds
from benchmarks.progress import Progress
from benchmarks.results import Case, Results
from headwater.log.log import Log
from headwater.log.streams.condition import Append, StreamWrite
from headwater.log.streams.event import NewEvent
from headwater.log.streams.event_topic import EventTopic
from tests.servers.postgres_cluster import empty_database, running_cluster

SECTION = "events"
HEADWATER, POSTGRESQL = "headwater, embedded", "PostgreSQL, unique (stream, version)"
ON_SQLITE, ON_POSTGRESQL = "eventsourcing on SQLite", "eventsourcing on PostgreSQL"
DATA = json.dumps({"user": "ada", "text": "x" * 70}).encode()
STREAMS = 1000
MEASURED = {"one writer, one stream": (1, 1), "20 writers, 1,000 streams": (20, STREAMS)}

Store = Callable[[str, int], Any]
"""Appends one event to a stream that is at a version."""


def measure(folder: Path, plan: Plan, results: Results, progress: Progress) -> None:
    with running_cluster(fsync="on") as cluster:
        url = empty_database(cluster, "events")
        opened: dict[str, Callable[[], Any]] = {
            HEADWATER: lambda: embedded(folder / "events"),
            POSTGRESQL: lambda: table(url),
            ON_SQLITE: lambda: on_sqlite(folder / "events.sqlite"),
            ON_POSTGRESQL: lambda: on_postgresql(url),
        }
        for who, contender in opened.items():
            progress.say(f"events: {who}")
            with contender() as store:
                for words, (writers, streams) in MEASURED.items():
                    for number in range(plan.rounds):
                        rate = appended_per_second(store, plan.event_appends, writers, streams, f"{words}-{number}")
                        results.add(Case(SECTION, (words,)), who, rate=rate)


def appended_per_second(store: Store, count: int, writers: int, streams: int, name: str) -> float:
    def write(writer: int) -> None:
        own = range(writer, streams, writers)
        for number in range(count // writers):
            turn, row = divmod(number, len(own))
            store(f"{name}-{own[row]}", turn)

    store(f"{name}-warm", 0)
    begin = now_seconds()
    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    return count // writers * writers / (now_seconds() - begin)


@contextmanager
def embedded(folder: Path) -> Iterator[Store]:
    with Log.open(folder) as log:
        topic = EventTopic.open(log, "events")
        yield lambda stream, version: topic.append(Append((StreamWrite(stream, [NewEvent("Said", DATA)], version),)))


@contextmanager
def table(url: str) -> Iterator[Store]:
    mine = local()

    def connection() -> "psycopg.Connection[Any]":
        if not hasattr(mine, "connection"):
            mine.connection = psycopg.connect(url, autocommit=True)
        found: psycopg.Connection[Any] = mine.connection
        return found

    connection().execute(
        "CREATE TABLE said (place bigserial PRIMARY KEY, stream text NOT NULL, version bigint NOT NULL, "
        "type text NOT NULL, data bytea NOT NULL, UNIQUE (stream, version))"
    )
    insert = "INSERT INTO said (stream, version, type, data) VALUES (%s, %s, 'Said', %s)"
    yield lambda stream, version: connection().execute(insert, (stream, version + 1, DATA))


@contextmanager
def on_sqlite(path: Path) -> Iterator[Store]:
    recorder = SQLiteApplicationRecorder(SQLiteDatastore(str(path), pool_timeout=60, lock_timeout=60))
    recorder.create_table()
    yield recorded(recorder)
    recorder.datastore.close()


@contextmanager
def on_postgresql(url: str) -> Iterator[Store]:
    said = urlsplit(url)
    found = psycopg.conninfo.conninfo_to_dict(url)
    datastore = PostgresDatastore(
        str(found["dbname"]), str(found["host"]), str(found.get("port", said.port or 5432)), str(found["user"]),
        str(found.get("password", "")), pool_size=25, max_waiting=100,
    )  # fmt: skip
    recorder = PostgresApplicationRecorder(datastore)
    recorder.create_table()
    yield recorded(recorder)
    datastore.close()


def recorded(recorder: ApplicationRecorder) -> Store:
    ids: dict[str, UUID] = {}

    def store(stream: str, version: int) -> None:
        recorder.insert_events([StoredEvent(ids.setdefault(stream, uuid4()), version + 1, "Said", DATA)])

    return store
