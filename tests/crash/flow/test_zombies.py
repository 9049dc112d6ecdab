"""A driver that is suspended in the middle of a batch, and wakes up when another one has taken its job over: whatever
it then writes is refused, where it writes it, and it stops with a sentence that says by whom."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
import pyarrow.dataset as ds
import pytest

from headwater.node import Node
from headwater.record import Record
from headwater.testing import running_node
from tests.crash.flow.zombie_process import POINTS
from tests.waiting import LONG

FIRST, ALL = 60, 110


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "log") as found:
        found.log.create_topic("orders")
        yield found


@dataclass
class Shop:
    node: Node
    folder: Path
    state: str
    output: str

    def feed(self, first: int, end: int) -> None:
        rows = [json.dumps({"id": one, "amount": one % 5}).encode() for one in range(first, end)]
        self.node.log.append("orders", [Record(row, timestamp_ms=1_700_000_000_000) for row in rows])

    @contextmanager
    def driver(self, machine: str, *options: str) -> "Iterator[Driver]":
        """On a machine of its own: nothing of its folder is another's."""
        arguments = [str(self.folder / machine), self.node.kafka_address, self.state, self.output, str(self.folder)]
        with (self.folder / f"{machine}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.flow.zombie_process", *arguments, *options],
                stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
            try:
                assert process.stdout is not None
                with process.stdout:
                    yield Driver(process, process.stdout, self.folder / f"{machine}.log")
            finally:
                process.kill()
                process.wait()

    def rows(self) -> list[int]:
        """The ids that the output has."""
        if self.output == "topic":
            records = self.node.log.read("out", 0)
            return sorted(json.loads(record.value or b"")["id"] for record in records)
        if self.output == "parquet":
            return sorted(ds.dataset(self.folder / "out", format="parquet").to_table()["id"].to_pylist())
        with psycopg.connect(self.output) as connection:
            return sorted(int(row[0]) for row in connection.execute("SELECT id FROM out").fetchall())

    def counts(self) -> dict[Any, Any]:
        if self.output.startswith("postgresql://"):
            with psycopg.connect(self.output) as database:
                return dict(database.execute("SELECT amount, orders FROM shop.counts").fetchall())
        connection = sqlite3.connect(self.folder / "counts.sqlite")
        try:
            return dict(connection.execute("SELECT amount, orders FROM counts").fetchall())
        finally:
            connection.close()


@dataclass
class Driver:
    process: "subprocess.Popen[bytes]"
    said: IO[bytes]
    log: Path

    def next(self) -> dict[str, Any]:
        line = self.said.readline()
        assert line, self.log.read_text()[-3000:]
        found: dict[str, Any] = json.loads(line)
        return found

    def ends(self) -> int:
        return self.process.wait(LONG)


def lived_through(shop: Shop, point: str, *, plant: str = "", other: str = "") -> dict[str, Any]:
    """What the driver says that woke up too late; the one that took over has a bug too."""
    shop.feed(0, FIRST)
    with shop.driver("first", "--stop-at", point, "--plant", plant) as zombie:
        assert "stops" in zombie.next()
        shop.feed(FIRST, ALL)
        with shop.driver("second", "--once", "--plant", other) as second:
            assert (second.said.read(), second.ends()) == (b"", 0), second.log.read_text()[-3000:]
        os.kill(zombie.process.pid, signal.SIGCONT)
        said = zombie.next()
        assert zombie.ends() == 1
    return said


def check_outputs(shop: Shop) -> None:
    if shop.output:
        assert shop.rows() == list(range(ALL))
    assert shop.counts() == Counter(one % 5 for one in range(ALL))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "kept")


# Point, output, and the error with which the place itself refuses.
REFUSED = [
    ("commits state", "", "JobTakenOver: .*_commit"),
    ("sends records", "topic", "StaleProducerEpoch: .*_produce"),
    # Its batch is in the view already, written by the other driver; tests/views/test_fencing.py has one that is not.
    ("begins a transaction", "", "StaleProducerEpoch: .*_produce"),
    ("begins to publish files", "parquet", "JobTakenOver: .*_refuse_older"),
    ("names files", "parquet", ".*Error: .*rename"),
    ("notes the batch as finished", "", "JobTakenOver: .*finish"),
    ("commits offsets", "", "JobTakenOver: .*_commit_offsets .*check_own"),
]
# PostgreSQL ends the connection of the older driver; what comes by a new one is refused (tests/views/test_fencing.py).
IN_POSTGRES = [
    ("begins a transaction", "AdminShutdown|OperationalError"),
    ("holds the locks of a transaction", "AdminShutdown|OperationalError"),
]


@pytest.mark.parametrize("point, output, refusal", REFUSED, ids=[one[0] for one in REFUSED])
def test_what_a_zombie_writes_is_refused(
    node: Node, tmp_path: Path, place: str, point: str, output: str, refusal: str
) -> None:
    shop = Shop(node, tmp_path, place, output)
    said = lived_through(shop, point)
    assert re.match(refusal, said["refused"][0]), said["refused"]
    assert re.fullmatch(r"job .* was taken over by process \d+ on .* at .*Z; this process stops", said["sentence"])
    check_outputs(shop)


@pytest.mark.parametrize("point, refusal", IN_POSTGRES, ids=[one[0] for one in IN_POSTGRES])
def test_what_a_zombie_writes_is_refused_by_postgresql(
    node: Node, tmp_path: Path, place: str, postgres_url: str, point: str, refusal: str
) -> None:
    shop = Shop(node, tmp_path, place, postgres_url)
    said = lived_through(shop, point)
    assert re.match(refusal, said["refused"][0]), said["refused"]
    assert "was taken over by process" in said["sentence"]
    check_outputs(shop)


def test_what_a_zombie_writes_is_refused_by_s3(node: Node, tmp_path: Path, s3: str) -> None:
    shop = Shop(node, tmp_path, s3, "parquet")
    said = lived_through(shop, "commits state")
    assert re.match("JobTakenOver: .*_commit", said["refused"][0]), said["refused"]
    check_outputs(shop)


@pytest.mark.parametrize(
    "point, output, refusal, plant, other",
    [
        ("begins to publish files", "parquet", "JobTakenOver: .*_refuse_older", "files do not check the epoch", ""),
        ("names files", "parquet", ".*Error: .*rename", "", "a stage of an older driver is left"),
        ("sends records", "topic", "StaleProducerEpoch: .*_produce", "", "the producer keeps its epoch"),
    ],
    ids=["files", "stage", "topic"],
)
def test_a_place_that_does_not_check_is_found(
    node: Node, tmp_path: Path, place: str, point: str, output: str, refusal: str, plant: str, other: str
) -> None:
    shop = Shop(node, tmp_path, place, output)
    said = lived_through(shop, point, plant=plant, other=other)
    assert not re.match(refusal, said["refused"][0]), said["refused"]


def test_every_point_is_lived_through() -> None:
    assert {point for point, *_ in [*REFUSED, *IN_POSTGRES]} == POINTS.keys()
