"""Rows that are fed, drivers that copy them, and what is there in the end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headwater.flow.kafka.client import LATEST, Client
from headwater.flow.source.record_batches.records import decode_batches
from headwater.log.batch_table import find_batches
from headwater.log.partitioner import partition_of
from headwater.node import Node
from headwater.record import TopicPartition
from tests.flow.large_joins.topics import joined, produce, text
from tests.flow.large_outputs.copying import COPIED, ORDERS, PARQUET, PARTITIONS, TOPIC, VIEW
from tests.rules.source import ROOT

BEGIN_MS, USERS, WARM_ROWS = 1_767_225_600_000, 10_000, 1_000
MIB = 1024**2
FETCH_BYTES = MIB
VICTIMS = ("driver", "jvm", "worker")
KILLED_WITHIN_S = 9


class Copies:
    def __init__(self, kind: str, node: Node, target: str) -> None:
        self._kind, self._node, self._target = kind, node, target
        self._fed = 0
        node.log.create_topic(ORDERS, partitions=PARTITIONS)

    def feed(self, rows: int) -> None:
        """Rows that are numbered on, all rows of a user in one partition."""
        ids = np.arange(self._fed, self._fed + rows)
        users = ids * 7919 % USERS
        with Client(self._node.kafka_address) as client:
            for partition in range(PARTITIONS):
                own = users % PARTITIONS == partition
                amounts = text(ids[own] % 1000)
                notes = joined("note of order ", text(ids[own]), " " * 20).cast(pa.string())
                values = joined(
                    '{"id":', text(ids[own]), ',"user_id":', text(users[own]), ',"amount":', amounts, '.5,"note":"',
                    notes, '"}',
                )  # fmt: skip
                place = TopicPartition(ORDERS, partition)
                produce(client, place, None, values, BEGIN_MS + ids[own] // 100, lambda done: None)
        self._fed += rows

    def measured(self, rows: int) -> dict[str, Any]:
        """One driver, which is warm and then copies that many rows."""
        self.feed(WARM_ROWS)
        with self._driver() as driver:
            said(driver)
            idle = said(driver)["idle"]
            self.feed(rows)
            told = order(driver)
        return {
            "rows/s": round(rows / told["seconds"]), "batches": told["batches"], "idle MiB": round(idle / MIB, 1),
            "above idle MiB": round(told["above_idle"] / MIB, 1),
        }  # fmt: skip

    def killed(self, rows: int, kills: int, dice: Random) -> dict[str, int]:
        """Drivers that are killed while they copy, or their JVM, or a worker first; the last one is not."""
        self.feed(rows)
        struck = dict.fromkeys(VICTIMS, 0)
        for number in range(kills):
            victim = VICTIMS[number % len(VICTIMS)]
            with self._driver() as driver:
                said(driver)
                Event().wait(1 + dice.random() * KILLED_WITHIN_S)
                for process in victims(driver.pid, victim):
                    struck[victim] += 1
                    os.kill(process, signal.SIGKILL)
                if victim == "worker":
                    Event().wait(1 + dice.random() * 3)
        with self._driver() as driver:
            said(driver)
            said(driver)
        return struck

    @contextmanager
    def _driver(self) -> Iterator[subprocess.Popen[bytes]]:
        where = [self._kind, str(self._node.data), self._node.kafka_address, self._target]
        command = [sys.executable, "-m", "tests.flow.large_outputs.copying", *where]
        with (self._node.data.parent / "driver.log").open("ab") as log:
            driver = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        with driver:
            try:
                yield driver
            finally:
                below = descendants(driver.pid)
                driver.kill()
                for one in below:
                    end(one)

    # -- what is there -------------------------------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """Every row that was fed, once; and in a topic where its key belongs, in order."""
        if self._kind == PARQUET:
            return differences(ds.dataset(self._target, format="parquet").to_table()["id"].to_numpy(), self._fed)
        if self._kind == TOPIC:
            return self._wrong_in_topic()
        schema = "copies" if self._kind == VIEW else "public"
        with psycopg.connect(self._target) as connection, connection.cursor() as cursor:
            with cursor.copy(f"COPY (SELECT id FROM {schema}.{COPIED}) TO STDOUT") as copy:
                ids = np.array([int(line) for piece in copy for line in bytes(piece).split()])
            left = cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '_headwater_stage%'").fetchall()
        return differences(ids, self._fed) + ([] if left == [(0,)] else [f"{left[0][0]} tables are left behind"])

    def _wrong_in_topic(self) -> list[str]:
        found, anomalies = [], []
        with Client(self._node.kafka_address) as client:
            for partition in range(PARTITIONS):
                ids, users = rows_of(client, TopicPartition(COPIED, partition))
                found.append(ids)
                strangers = [
                    user for user in np.unique(users).tolist()
                    if partition_of(b'{"user_id":%d}' % user, PARTITIONS) != partition
                ]  # fmt: skip
                anomalies += [f"user {user} is in partition {partition}" for user in strangers[:3]]
                order = np.argsort(users, kind="stable")
                back = (np.diff(ids[order]) <= 0) & (np.diff(users[order]) == 0)
                anomalies += [f"{int(back.sum())} rows come after later ones of their user"] if back.any() else []
        return anomalies + differences(np.concatenate(found), self._fed)


def rows_of(client: Client, place: TopicPartition) -> tuple[Any, Any]:
    """The ids and users of a partition's records."""
    at, end, found = 0, client.offsets({place: LATEST})[place], []
    while at < end:
        records = client.fetch(place, at, bytes_max=FETCH_BYTES).records
        table = find_batches(records)
        values = decode_batches(records[: table.length], at, end, headers=False).values.cast(pa.string())
        found.append(pc.extract_regex(values, r'^\{"id":(?P<id>\d+),"user_id":(?P<user>\d+),'))
        at = table.next_offset
    numbers = [
        np.concatenate([one.field(name).cast(pa.int64()).to_numpy() for one in found]) for name in ("id", "user")
    ]
    return numbers[0], numbers[1]


def differences(ids: Any, fed: int) -> list[str]:
    """
    >>> differences(np.array([0, 2, 2]), 3)
    ['1 of 3 rows are missing, such as [1]', '1 rows are there more than once, such as [2]']
    """
    counts = np.bincount(ids, minlength=fed)
    missing, many = np.flatnonzero(counts == 0), np.flatnonzero(counts > 1)
    told = [f"{len(missing)} of {fed} rows are missing, such as {missing[:3].tolist()}"] if len(missing) else []
    return told + ([f"{len(many)} rows are there more than once, such as {many[:3].tolist()}"] if len(many) else [])


# -- processes ---------------------------------------------------------------------------------------------------------


def said(driver: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line, "the driver ended by itself"
    told: dict[str, Any] = json.loads(line)
    return told


def order(driver: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert driver.stdin is not None
    driver.stdin.write(b"copy\n")
    driver.stdin.flush()
    return said(driver)


def victims(driver: int, kind: str) -> list[int]:
    """The driver itself, its JVM, or one of the processes that work for that."""
    if kind == "driver":
        return [driver]
    below = descendants(driver)
    java = [one for one in below if name_of(one) == "java"]
    if kind == "jvm":
        return java
    workers = [one for one in below if name_of(one).startswith("python") and not descendants(one)]
    return workers[-1:]


def descendants(process: int) -> list[int]:
    """All processes that a process has started, itself or through others."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(folder.name))
    found, at = [], 0
    found += parents.get(process, [])
    while at < len(found):
        found += parents.get(found[at], [])
        at += 1
    return found


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def end(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
