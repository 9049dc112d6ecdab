"""A quiet table beside a busy one: what the database keeps for its capture is bounded, however long it is quiet. And
when the capture is stopped, what was declared for its limit happens."""

import shutil
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from headwater.capture.definition import Definition, Definitions
from tests.clients.brokers.headwater_node import start_headwater
from tests.servers.postgres_cluster import running_cluster
from tests.waiting import patience

CAPTURE = "quiet"
EVERY_SECONDS = 0.25
STUCK_SECONDS = 60
BEHIND_SECONDS = 45
"""What a slot needs of the past is only known at the next of PostgreSQL's own records of running transactions, which it
writes every 15 seconds; then it has to be confirmed, and a heartbeat sent."""

LIMIT_BYTES = 8 * 2**20
KEPT = (
    "SELECT (pg_current_wal_lsn() - restart_lsn)::bigint, (pg_current_wal_lsn() - '0/0')::bigint "
    "FROM pg_replication_slots"
)


@dataclass
class Retained:
    minutes: float
    written_mib: float = 0.0
    retained_mib: float = 0.0
    """At most, once the first seconds were over."""
    bound_mib: float = 0.0
    said_at_the_limit: str = ""
    anomalies: list[str] = field(default_factory=list)


def retain(minutes: float) -> Retained:
    found, folder = Retained(minutes), Path(tempfile.mkdtemp(prefix="headwater-quiet-capture-"))
    definitions = Definitions(folder / "data")
    with running_cluster() as cluster, psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE quiet (id int PRIMARY KEY)")
        connection.execute("CREATE TABLE busy (id bigserial, body text)")
        definitions.add(Definition(name=CAPTURE, url=cluster.url, tables=("public.quiet",), heartbeat_seconds=5))
        busy = Busy(cluster.url)
        node = start_headwater(folder)
        try:
            wait_for(definitions, "streaming")
            busy.start()
            watch(connection, minutes, found)
        finally:
            node.stop()
        busy.stop()
        exceed(definitions, folder, connection, found)
    if not found.anomalies:
        shutil.rmtree(folder)
    return found


class Busy(threading.Thread):
    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url, self._ending = url, threading.Event()

    def run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._ending.wait(0.1):
                connection.execute("INSERT INTO busy (body) SELECT repeat('x', 500) FROM generate_series(1, 500)")
                connection.execute("DELETE FROM busy WHERE id < (SELECT max(id) FROM busy) - 20000")

    def stop(self) -> None:
        self._ending.set()
        self.join()


def wait_for(definitions: Definitions, state: str) -> dict[str, Any]:
    deadline = patience() + STUCK_SECONDS
    while (status := definitions.status(CAPTURE) or {}).get("state") != state:
        assert patience() < deadline, f"the capture does not become {state}: {status}"
        time.sleep(0.05)
    return status


def watch(connection: psycopg.Connection[Any], minutes: float, found: Retained) -> None:
    """The retained WAL must not be more than what was written in the last seconds, at any time."""
    positions: list[tuple[float, int]] = []
    began = time.monotonic()
    while (now := time.monotonic()) < began + minutes * 60:
        row = connection.execute(KEPT).fetchone()
        assert row is not None
        kept, position = row
        positions.append((now, position))
        found.written_mib = round((position - positions[0][1]) / 2**20, 1)
        if now - began > BEHIND_SECONDS:
            since = next(one for moment, one in positions if moment >= now - BEHIND_SECONDS)
            bound = position - since + 16 * 2**20
            found.retained_mib = max(found.retained_mib, round(kept / 2**20, 1))
            found.bound_mib = max(found.bound_mib, round(bound / 2**20, 1))
            if kept > bound:
                found.anomalies.append(f"{kept:,} bytes are kept after {now - began:.0f} s, and {bound:,} would do")
                return
        time.sleep(EVERY_SECONDS)


def exceed(definitions: Definitions, folder: Path, connection: psycopg.Connection[Any], found: Retained) -> None:
    """It was stopped meanwhile, and the database has kept more than it may."""
    definitions.save(replace(definitions.get(CAPTURE), retained_bytes_max=LIMIT_BYTES))
    while connection.execute(KEPT).fetchone()[0] < LIMIT_BYTES:  # type: ignore[index]
        connection.execute("INSERT INTO busy (body) SELECT repeat('x', 500) FROM generate_series(1, 500)")
    node = start_headwater(folder)
    try:
        found.said_at_the_limit = str(wait_for(definitions, "gap")["said"])
    finally:
        node.stop()
    if connection.execute("SELECT 1 FROM pg_replication_slots").fetchone():
        found.anomalies.append("the slot is still there")
