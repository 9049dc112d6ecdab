"""An app on three brokers of Apache Kafka, run as a user runs it, and what it should make of orders."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.cli.client import Client as Commands
from headwater.errors import HeadwaterError
from headwater.flow.kafka.client import LATEST, Client
from headwater.record import TopicPartition as HeadwaterPartition
from headwater.views.view import View
from tests.clients.brokers.kafka_cluster import KafkaCluster
from tests.waiting import LONG

CITIES = ["Lund", "Oslo", "Kiel", "Riga", "Turku", "Gdańsk"]

APP = """
import headwater as hw

app = hw.App("shop", shards=4)
orders = app.stream("orders", "id long, city string, cents long, at timestamp", time="at", lateness="1 hour")


@app.view(key="city")
def revenue():
    return orders.by("city").agg("count(*) as orders", "sum(cents) as cents")


@app.topic("large", key="id", partitions=4)
def large():
    return orders.where("cents >= 500").select("id", "city", "cents")
"""


class Shop:
    """Orders that the cluster has acknowledged."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
        self._producer, self._random, self.orders = Producer(settings), Random(seed), list[tuple[int, str, int]]()

    def send(self, rows: int) -> None:
        for _ in range(rows):
            order = len(self.orders), self._random.choice(CITIES), self._random.randrange(1000)
            self.orders.append(order)
            at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            value = {"id": order[0], "city": order[1], "cents": order[2], "at": at}
            self._producer.produce("orders", json.dumps(value), str(order[0]))
        assert self._producer.flush() == 0

    def revenue(self) -> dict[str, tuple[int, int]]:
        count, cents = Counter[str](), Counter[str]()
        for _, city, amount in self.orders:
            count[city] += 1
            cents[city] += amount
        return {city: (count[city], cents[city]) for city in count}


def command(folder: Path, cluster: KafkaCluster, *words: str) -> list[str]:
    where = ["--data", str(folder / "data"), "--kafka", cluster.bootstrap]
    return [sys.executable, "-m", "headwater", *words, *where]


@contextmanager
def running(folder: Path, cluster: KafkaCluster) -> Iterator["subprocess.Popen[bytes]"]:
    """The app in a process group of its own, with its JVM and workers; killed at the end of the block."""
    with (folder / "run.log").open("ab") as said:
        process = subprocess.Popen(
            command(folder, cluster, "run", "shop.py"), cwd=folder, stdout=said, stderr=said, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def lag(cluster: KafkaCluster, topic: str) -> int:
    """As tools of Kafka see it: the end of each partition without what the app's group has committed."""
    commands = Commands(cluster.bootstrap)
    (group,) = (name for name in commands.group_names() if "shop" in name)
    committed = commands.committed(group)
    with Client(cluster.bootstrap) as client:
        places = [HeadwaterPartition(topic, number) for number in range(client.partitions([topic])[topic])]
        ends = client.offsets(dict.fromkeys(places, LATEST))
    return sum(end - committed[place.topic, place.partition] for place, end in ends.items())


def seen(folder: Path) -> int:
    return sum(count for count, _ in view_of(folder).values())


def view_of(folder: Path) -> dict[str, tuple[int, int]]:
    try:
        with View.open(folder / "data", "shop", "revenue") as view:
            rows: list[dict[str, Any]] = list(view.rows())
            return {row["city"]: (row["orders"], row["cents"]) for row in rows}
    except HeadwaterError:
        return {}


def done(folder: Path, cluster: KafkaCluster, *words: str) -> None:
    """A command that has to succeed."""
    ended = subprocess.run(command(folder, cluster, *words), cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def written(cluster: KafkaCluster) -> list[tuple[int, str, int]]:
    """What a reader of committed records finds in the app's topic."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    places = [TopicPartition("large", number, 0) for number in range(4)]
    consumer.assign(places)
    rows, ended = [], 0
    while ended < len(places):
        message = consumer.poll(LONG)
        assert message is not None, "the brokers are silent"
        if message.error():
            ended += 1
            continue
        row = json.loads(message.value() or b"")
        rows.append((row["id"], row["city"], row["cents"]))
    consumer.close()
    return rows
