"""A large table is copied while others write to it, the node is killed half way, and the copy resumes where it was."""

import json
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from headwater.capture.appender import LogAppender, last_records
from headwater.capture.definition import Definition, Definitions
from headwater.capture.landing import header_of
from headwater.capture.notes import Notes
from headwater.capture.postgresql.snapshot import CHUNK_ROWS
from headwater.log.log import Log
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess
from tests.servers.postgres_cluster import running_cluster
from tests.waiting import patience

TOPIC = "big"
SCHEMA = (
    "CREATE SEQUENCE tick",
    "CREATE TABLE big (id bigint PRIMARY KEY, tick bigint NOT NULL, body text)",
)
MEMORY_MAX_MIB = 256
NEW_ROWS_MAX = 1_000_000
STUCK_SECONDS = 120
CHANGED = re.compile(rb'"after":\{"id":(\d+),"tick":(\d+),').search
Ticks = npt.NDArray[np.int64]


@dataclass
class Copied:
    rows: int
    killed_at_rows: int = 0
    """That the topic had when the node was killed."""
    noted_rows: int = 0
    read_again_rows: int = 0
    changes_meanwhile: int = 0
    memory_mib: float = 0.0
    """Of the node, its own, at most."""
    copy_seconds: float = 0.0
    rows_read_twice: int = 0
    anomalies: list[str] = field(default_factory=list)


def copy(rows: int) -> Copied:
    found, folder = Copied(rows), Path(tempfile.mkdtemp(prefix="headwater-large-capture-"))
    with running_cluster(max_wal_size="16GB") as cluster, psycopg.connect(cluster.url, autocommit=True) as connection:
        fill(connection, rows)
        Definitions(folder / "data").add(Definition(name=TOPIC, url=cluster.url, tables=("public.big",)))
        writer = Writer(cluster.url, rows)
        writer.start()
        began = time.monotonic()
        with node(folder, found) as process:
            wait_until(folder / "data", found, lambda status: copied_rows(status) >= rows // 2)
            process.kill()
        look_at_the_end(folder / "data", found)
        with node(folder, found):
            wait_until(folder / "data", found, lambda status: status.get("state") == "streaming" and fresh(status))
            found.copy_seconds = round(time.monotonic() - began, 1)
            writer.stop()
            catch_up(connection, found)
        found.changes_meanwhile = writer.changes
        compare(connection, folder / "data", found)
    if not found.anomalies:
        shutil.rmtree(folder)
    return found


def fill(connection: psycopg.Connection[Any], rows: int) -> None:
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO big SELECT i, nextval('tick'), 'row ' || i FROM generate_series(1, %s::bigint) i", (rows,)
    )
    connection.execute("ANALYZE big")


class Writer(threading.Thread):
    """Updates anywhere, deletes anywhere, inserts at the end, until it is stopped."""

    def __init__(self, url: str, rows: int) -> None:
        super().__init__(daemon=True)
        self._url, self._rows, self._dice = url, rows, Random(1)
        self._ending = threading.Event()
        self.changes = 0

    def run(self) -> None:
        new = self._rows
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._ending.wait(0.02) and new < self._rows + NEW_ROWS_MAX:
                key = self._dice.randint(1, self._rows)
                statements = (
                    f"UPDATE big SET tick = nextval('tick') WHERE id BETWEEN {key} AND {key + 20}",
                    f"DELETE FROM big WHERE id = {self._dice.randint(1, self._rows)}",
                    f"INSERT INTO big VALUES ({new + 1}, nextval('tick'), 'new')",
                )
                new += 1
                self.changes += sum(connection.execute(statement.encode()).rowcount for statement in statements)

    def stop(self) -> None:
        self._ending.set()
        self.join()


@contextmanager
def node(folder: Path, found: Copied) -> Iterator[BrokerProcess]:
    """As a user starts it; it is stopped in the end, unless it was killed. Its memory is looked at meanwhile."""
    running = start_headwater(folder)
    ending = threading.Event()

    def watch() -> None:
        while not ending.wait(0.25):
            found.memory_mib = max(found.memory_mib, own_memory_mib(running.process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield running
    finally:
        ending.set()
        watcher.join()
        running.stop()


def own_memory_mib(process: int) -> float:
    """Without the pages of files, which the kernel may reclaim at any time."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    said = re.search(r"RssAnon:\s+(\d+) kB", text)
    return int(said[1]) / 1024 if said else 0.0


def copied_rows(status: dict[str, Any]) -> int:
    return sum(table["rows"] for table in status.get("snapshots", []))


def fresh(status: dict[str, Any]) -> bool:
    return bool(status.get("snapshots")) and all(table["done"] for table in status["snapshots"])


def wait_until(data: Path, found: Copied, reached: Any) -> None:
    rows, deadline = -1, patience() + STUCK_SECONDS
    while not reached(status := Definitions(data).status(TOPIC) or {}):
        if copied_rows(status) != rows:
            rows, deadline = copied_rows(status), patience() + STUCK_SECONDS
        assert patience() < deadline, f"it does not get on: {status}"
        time.sleep(0.05)


def look_at_the_end(data: Path, found: Copied) -> None:
    """How far the topic was, and how far the note: what lies between is read again, and written once."""
    with Log.open(data) as log:
        appender = LogAppender(log)
        note = Notes(appender, TOPIC).get("snapshot/public.big")
        assert note is not None
        found.noted_rows = int(str(note["rows"]))
        chunk = f"{note['id']}/{found.noted_rows}".encode()
        tail = last_records(appender, TOPIC, 0, 4 * CHUNK_ROWS)
        found.read_again_rows = sum(header_of(record, "snapshot") == chunk for record in tail)
        found.killed_at_rows = found.noted_rows + found.read_again_rows
    if found.read_again_rows > CHUNK_ROWS:
        found.anomalies.append(f"{found.read_again_rows} rows are read again, which is more than a chunk")


def catch_up(connection: psycopg.Connection[Any], found: Copied) -> None:
    now, deadline = connection.execute("SELECT pg_current_wal_lsn()").fetchone(), patience() + STUCK_SECONDS
    while connection.execute("SELECT 1 FROM pg_replication_slots WHERE confirmed_flush_lsn < %s", now).fetchone():
        if patience() > deadline:
            found.anomalies.append("the capture does not catch up")
            return
        time.sleep(0.1)


def compare(connection: psycopg.Connection[Any], data: Path, found: Copied) -> None:
    size = found.rows + NEW_ROWS_MAX + 1
    expected, captured, reads = (np.zeros(size, dtype=np.int64) for _ in range(3))
    with connection.cursor().copy("COPY (SELECT id, tick FROM big) TO STDOUT") as lines:
        for line in lines:
            for row in bytes(line).splitlines():
                id, _, tick = row.partition(b"\t")
                expected[int(id)] = int(tick)
    with Log.open(data) as log:
        for record in log.read(TOPIC, 0):
            take(record.key or b"", record.value, captured, reads)
    wrong = np.flatnonzero(expected != captured)
    if len(wrong):
        first = int(wrong[0])
        found.anomalies.append(
            f"{len(wrong)} rows differ, the first is {first}: tick {captured[first]}, the table has {expected[first]}"
        )
    found.rows_read_twice = int((reads > 1).sum())
    if found.rows_read_twice:
        found.anomalies.append(f"{found.rows_read_twice} rows were read twice")
    if found.memory_mib > MEMORY_MAX_MIB:
        found.anomalies.append(f"the node had {found.memory_mib:.0f} MiB, and {MEMORY_MAX_MIB} are enough")


def take(key: bytes, value: bytes | None, captured: Ticks, reads: Ticks) -> None:
    changed = CHANGED(value) if value is not None else None
    if changed is None:
        captured[json.loads(key)["id"]] = 0
        return
    id = int(changed[1])
    captured[id] = int(changed[2])
    reads[id] += b'"op":"r"' in value[-120:]  # type: ignore[index]
