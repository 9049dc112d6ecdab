"""Rows that are fed, drivers that copy them, and what is there in the end."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from tests.crash.flow.moments import WORKER
from tests.flow.large_joins.topics import joined, produce, text
from tests.flow.large_outputs.copying import COPIED, ORDERS, PARTITIONS, board_of
from tests.flow.large_outputs.processes import descendants, end
from tests.flow.large_outputs.strikes import PARQUET, TOPIC, VIEW, Strike
from tests.rules.source import ROOT

BEGIN_MS, USERS, WARM_ROWS = 1_767_225_600_000, 10_000, 1_000
MIB = 1024**2
FETCH_BYTES = MIB


class Copies:
    def __init__(self, kind: str, node: Node, target: str) -> None:
        self._kind, self._node, self._target = kind, node, target
        self._fed = 0
        self._anomalies: list[str] = []
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
            report = order(driver)
        return {
            "rows/s": round(rows / report["seconds"]), "batches": report["batches"], "idle MiB": round(idle / MIB, 1),
            "above idle MiB": round(report["above_idle"] / MIB, 1),
        }  # fmt: skip

    def killed(self, rows: int, strikes: Sequence[Strike]) -> dict[str, int]:
        """Copies rows in as many parts as there are strikes. Each is copied by a driver of its own, which is disturbed;
        the last one, which is not, has what others left. Says which strikes killed, and how often."""
        board = board_of(self._node.data)
        board.folder.mkdir(parents=True, exist_ok=True)
        for number, strike in enumerate(strikes, 1):
            self.feed(rows * number // len(strikes) - rows * (number - 1) // len(strikes))
            before = len(board.struck())
            board.lower_flags()
            with self._driver(strike) as driver:
                said(driver)
                ended = rest_of(driver)
            if board.struck()[before:] != [str(strike)]:
                self._anomalies.append(f"a driver was not struck: {strike.to_json()}")
            elif (strike.victim == WORKER) != ("idle" in ended):
                self._anomalies.append(f"after {strike.to_json()} a driver ended with {ended}; see driver.log")
        with self._driver() as driver:
            said(driver)
            said(driver)
        return dict(Counter(board.struck()))

    @contextmanager
    def _driver(self, *strikes: Strike) -> Iterator[subprocess.Popen[bytes]]:
        where = [self._kind, str(self._node.data), self._node.kafka_address, self._target]
        command = [sys.executable, "-m", "tests.flow.large_outputs.copying", *where]
        command += [strike.to_json() for strike in strikes]
        paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        with (self._node.data.parent / "driver.log").open("ab") as log:
            driver = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=os.environ | paths
            )
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
        """Every row that was fed, once; and in a topic where its key belongs, in order. And what went wrong before."""
        return self._anomalies + self._wrong_rows()

    def _wrong_rows(self) -> list[str]:
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
    report = [f"{len(missing)} of {fed} rows are missing, such as {missing[:3].tolist()}"] if len(missing) else []
    return report + ([f"{len(many)} rows are there more than once, such as {many[:3].tolist()}"] if len(many) else [])


# -- processes ---------------------------------------------------------------------------------------------------------


def said(driver: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line, "the driver ended by itself"
    report: dict[str, Any] = json.loads(line)
    return report


def rest_of(driver: "subprocess.Popen[bytes]") -> str:
    """What a driver says next; nothing if it dies before."""
    assert driver.stdout is not None
    return driver.stdout.readline().decode()


def order(driver: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert driver.stdin is not None
    driver.stdin.write(b"copy\n")
    driver.stdin.flush()
    return said(driver)
