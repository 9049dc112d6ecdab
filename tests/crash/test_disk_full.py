"""A disk that is really full: a small file system in memory, a node on it, a real client."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from headwater.node import Node
from headwater.settings import LogSettings, NodeSettings, WireSettings
from tests.waiting import LONG

BALLAST_BYTES = 8 * 1024**2
CYCLES = 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount the small file system this test fills")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


class Load:
    """Numbered records to one topic; remembers which were acknowledged, and with what the others failed."""

    def __init__(self, address: str) -> None:
        self.acked: list[int] = []
        self.errors: set[int] = set()
        self._sent = 0
        # No retries in the client: the first word of the broker is what counts here.
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": "all",
                "retries": 0,
                "message.timeout.ms": 1000 * LONG,
                "linger.ms": 0,
            }
        )

    def send(self, count: int) -> None:
        for number in range(self._sent, self._sent + count):
            self._producer.produce("t", b"%d:" % number + bytes(50_000), callback=self._note)
        self._sent += count
        assert self._producer.flush(LONG) == 0

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.add(error.code())
        else:
            self.acked.append(number_of(message))


def number_of(message: Message) -> int:
    return int((message.value() or b"").split(b":")[0])


def numbers_in_topic(address: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
    found: list[int] = []
    try:
        while (message := consumer.poll(LONG)) is not None:
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, KafkaException(error)
                return found
            found.append(number_of(message))
    finally:
        consumer.close()
    raise AssertionError("the topic could not be read to its end")


def settings() -> NodeSettings:
    return NodeSettings(log=LogSettings(topic_defaults=(("segment.bytes", "1000000"),)), wire=WireSettings(port=0))


def test_a_full_disk_is_reported_to_producers_and_reading_and_then_writing_continue(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with Node(small_disk / "data", settings()) as node:
        load = Load(node.kafka_address)
        for _ in range(CYCLES):
            ballast.write_bytes(bytes(BALLAST_BYTES))
            load.errors.clear()
            while not load.errors:
                load.send(20)
            assert load.errors == {KafkaError.KAFKA_STORAGE_ERROR}
            assert numbers_in_topic(node.kafka_address) == sorted(load.acked), "reads continue"
            ballast.unlink()
            before = len(load.acked)
            load.send(5)
            assert len(load.acked) == before + 5, "service is back with the space, without a restart"
            node.log.partition("t", 0).delete_records(node.log.partition("t", 0).end_offset - 5)
            load.acked = load.acked[-5:]
    with Node(small_disk / "data", settings()) as node:
        assert numbers_in_topic(node.kafka_address) == load.acked
