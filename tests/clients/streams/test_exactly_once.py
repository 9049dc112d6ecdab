"""A Kafka Streams application with exactly_once_v2 on our port, killed under load: counts and joins are exact."""

import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.adapters.java import JVM_OPTIONS
from tests.clients.brokers.maven import compiled, java_command, streams_class_path
from tests.clients.brokers.process import NotAvailable, launch
from tests.waiting import LONG, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("HEADWATER_STREAMS_KILLS", "1"))
LINES, ORDERS, PARTITIONS = 400, 200, 3
"""For each round."""
WORDS = ["log", "stream", "table", "topic", "offset", "group", "key", "über", "naïve", "日本"]
TOPICS = ("lines", "counts", "orders", "payments", "paid")


@contextmanager
def running(bootstrap: str, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The application; killed at the end of the block."""
    sources = (Path(__file__).parent / "WordCount.java",)
    try:
        classes = compiled("kafka-streams-app", sources, streams_class_path())
    except NotAvailable as reason:
        pytest.skip(str(reason))
    command = [java_command(), *JVM_OPTIONS, "-cp", classes, "WordCount", bootstrap, str(folder / "state")]
    process = launch(command, folder / "streams.log")
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Load:
    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2})
        self._random = Random(7)
        self.words = Counter[str]()
        self.orders: list[str] = []

    def send(self) -> None:
        for number in range(LINES):
            line = self._random.choices(WORDS, k=self._random.randint(1, 4))
            self.words.update(line)
            self._producer.produce("lines", " ".join(line), f"user {number % 17}")
        for _ in range(ORDERS):
            order = f"order {len(self.orders)}"
            self.orders.append(order)
            for topic in self._random.sample(["orders", "payments"], 2):
                self._producer.produce(topic, f"{topic} of {order}", order)
        assert self._producer.flush() == 0


def committed(bootstrap: str, topic: str) -> list[tuple[str, str]]:
    """Key and value of all records that readers of committed records see."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed",
                "enable.partition.eof": True}  # fmt: skip
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, ended = [], 0
    while ended < PARTITIONS:
        message = consumer.poll(LONG)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
    consumer.close()
    return found


@pytest.fixture
def load(bootstrap: str) -> Load:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in TOPICS]).values():
        done.result()
    return Load(bootstrap)


def test_counts_and_joins_are_exact_although_the_application_is_killed(
    bootstrap: str, load: Load, tmp_path: Path
) -> None:
    load.send()
    for _ in range(KILLS):
        with running(bootstrap, tmp_path) as process:
            before = len(committed(bootstrap, "counts"))
            load.send()

            def goes_on(before: int = before, process: "subprocess.Popen[bytes]" = process) -> bool:
                return process.poll() is not None or len(committed(bootstrap, "counts")) > before

            wait_until(goes_on, "more words are counted")
            assert process.poll() is None, (tmp_path / "streams.log").read_text()
    load.send()
    with running(bootstrap, tmp_path):
        wait_until(lambda: len(committed(bootstrap, "counts")) >= load.words.total(), "all words are counted")
        wait_until(lambda: len(committed(bootstrap, "paid")) >= len(load.orders), "all orders are paid")
    counts = defaultdict[str, list[int]](list)
    for word, count in committed(bootstrap, "counts"):
        counts[word].append(int(count))
    assert counts == {word: list(range(1, total + 1)) for word, total in load.words.items()}
    expected = {(order, f"orders of {order} payments of {order}") for order in load.orders}
    paid = committed(bootstrap, "paid")
    assert len(paid) == len(expected)
    assert set(paid) == expected
