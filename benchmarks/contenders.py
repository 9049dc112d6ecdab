"""Who is measured: headwater, Apache Kafka as it comes, and the server that only reads and answers."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process_clock import now_seconds
from tests.clients.adapters.confluent import Confluent
from tests.clients.brokers.apache_kafka import start_apache_kafka
from tests.clients.brokers.headwater_node import start_headwater
from tests.clients.brokers.process import BrokerProcess, NotAvailable, launch, read_address
from tests.clients.leaders import wait_for_leaders

HEADWATER = "headwater"
KAFKA = "Kafka"
KAFKA_FLUSHING = "Kafka, flush.messages=1"
BARE_SERVER = "bare server"

KAFKA_SETTINGS = {
    # Measured topics come and go; their bytes shall go with them.
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(frozen=True)
class Contender:
    """A running broker under the name it has in the tables, with the settings its topics get."""

    name: str
    process: BrokerProcess
    configs: Mapping[str, str] = field(default_factory=dict)
    keeps_records: bool = True

    @property
    def address(self) -> str:
        return self.process.address

    @contextmanager
    def topic(self, partitions: int) -> Iterator[str]:
        """A fresh topic that is deleted afterwards. Its name ends with its number of partitions."""
        name = f"bench-{int(now_seconds() * 1000)}-{partitions}"
        if not self.keeps_records:
            yield name
            return
        self.create_topic(name, partitions)
        try:
            yield name
        finally:
            Confluent(self.address).delete_topic(name)

    def create_topic(self, name: str, partitions: int) -> None:
        admin = Confluent(self.address)
        admin.create_topic(name, partitions, self.configs)
        wait_for_leaders(admin, name, partitions)  # raw requests are not tried again


@dataclass(frozen=True)
class Field:
    """All contenders of a run; `notice` says why one is missing."""

    headwater: Contender
    kafka: Contender | None
    bare_server: Contender
    notice: str = ""

    def for_produce(self, acks: int) -> list[Contender]:
        """Kafka answers acks=all from memory; beside it stands the setting that makes it sync as headwater does."""
        found = [self.headwater]
        if self.kafka:
            found.append(self.kafka)
        if self.kafka and acks == -1:
            found.append(Contender(KAFKA_FLUSHING, self.kafka.process, {"flush.messages": "1"}))
        return [*found, self.bare_server]

    def for_fetch(self) -> list[Contender]:
        return [self.headwater, self.kafka] if self.kafka else [self.headwater]


@contextmanager
def running_field(folder: Path) -> Iterator[Field]:
    started: list[BrokerProcess] = []
    try:
        started.append(start_headwater(folder / "headwater"))
        started.append(start_bare_server(folder))
        headwater = Contender(HEADWATER, started[0])
        bare_server = Contender(BARE_SERVER, started[1], keeps_records=False)
        try:
            started.append(start_apache_kafka(folder / "kafka", KAFKA_SETTINGS))
            yield Field(headwater, Contender(KAFKA, started[2]), bare_server)
        except NotAvailable as reason:
            yield Field(headwater, None, bare_server, notice=f"Apache Kafka is missing here: {reason}")
    finally:
        for process in started:
            process.stop()


def start_bare_server(folder: Path) -> BrokerProcess:
    log_path = folder / "bare-server.log"
    process = launch([sys.executable, "-u", "-m", "benchmarks.bare_server"], log_path)
    address = read_address(process, log_path, said_before=0, patience_seconds=20)
    return BrokerProcess(BARE_SERVER, address, process, log_path, folder)
