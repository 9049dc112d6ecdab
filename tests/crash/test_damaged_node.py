"""A node over a damaged data directory: real clients get what is there, and errors for what is not."""

import json
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from headwater import LogSettings, Node, NodeSettings, WireSettings
from headwater.cli.client import Client
from headwater.errors import TopicOffline
from headwater.settings import HttpSettings
from tests.waiting import LONG

SETTINGS = NodeSettings(
    wire=WireSettings(port=0), http=HttpSettings(port=0), log=LogSettings(topic_defaults=(("segment.bytes", "2000"),))
)
COUNT = 40


def lose(data: Path, name: str) -> None:
    for path in (data / name, (data / name).with_suffix(".copy")):
        path.unlink()


def produce(node: Node, topic: str, count: int) -> int:
    """How many were acknowledged to a producer that numbers what it sends."""
    acknowledged = 0

    def answered(error: KafkaError | None, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer = Producer({"bootstrap.servers": node.kafka_address, "enable.idempotence": True, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number * 40, on_delivery=answered)
        producer.flush()
    return acknowledged


def consume(node: Node, topic: str) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.kafka_address,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    offsets: list[int] = []
    while (message := consumer.poll(LONG)) is not None and message.error() is None:
        offsets.append(message.offset() or 0)
    assert message is not None, "nothing came, not even the end"
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF
    consumer.close()
    return offsets


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Of a stopped node that two topics were written to."""
    with Node(tmp_path, SETTINGS) as node:
        for topic in ("orders", "others"):
            node.log.create_topic(topic)
            assert produce(node, topic, COUNT) == COUNT
    return tmp_path


def test_what_a_new_producer_sends_after_the_identity_was_lost_is_stored(data: Path) -> None:
    lose(data, "identity.json")
    with Node(data, SETTINGS) as node:
        assert produce(node, "orders", 5) == 5
        assert consume(node, "orders") == list(range(COUNT + 5)), "acknowledged, and not dropped as retries"


def test_a_consumer_steps_over_a_deleted_segment(data: Path) -> None:
    first, second, third, *_ = sorted((data / "orders-0").glob("*.log"))
    second.unlink()
    lost = range(int(second.stem), int(third.stem))
    with Node(data, SETTINGS) as node:
        assert consume(node, "orders") == [offset for offset in range(COUNT) if offset not in lost]
        assert consume(node, "others") == list(range(COUNT))
        assert first.exists()


@pytest.mark.parametrize("name", ["topics/orders.json", "topics/_schemas.json", "topics/__consumer_offsets.json"])
def test_a_node_starts_whichever_topic_is_offline_and_says_so(data: Path, name: str) -> None:
    with Node(data, SETTINGS) as node:
        consume(node, "others")
        node.log.create_topic("_schemas")
    for path in (data / name, (data / name).with_suffix(".copy")):
        path.write_bytes(b"")
    topic = Path(name).stem
    with Node(data, SETTINGS) as node:
        assert list(node.log.offline_topics()) == [topic]
        assert produce(node, "others", 1) == 1
        listed = AdminClient({"bootstrap.servers": node.kafka_address}).list_topics(timeout=LONG).topics
        error = listed[topic].error
        assert error is not None
        assert error.code() == KafkaError.KAFKA_STORAGE_ERROR
        assert listed["others"].error is None
        with urlopen(f"{node.http_url}/topics?internal=true") as answer:
            said = {one["name"]: one.get("offline") for one in json.loads(answer.read())}
        assert name in said[topic]
        assert said["others"] is None
        with urlopen(f"{node.http_url}/metrics") as answer:
            assert f'headwater_topic_offline{{topic="{topic}"}} 1' in answer.read().decode()
        with urlopen(f"{node.http_url}/problems") as answer:
            (problem,) = json.loads(answer.read())
        assert (problem["topic"], problem["kind"]) == (topic, "offline")
        assert name in problem["text"]


def test_a_deleted_segment_is_reported_in_the_list_of_topics_in_metrics_and_among_the_problems(data: Path) -> None:
    _, second, third, *_ = sorted((data / "orders-0").glob("*.log"))
    second.unlink()
    first, end = int(second.stem), int(third.stem)
    with Node(data, SETTINGS) as node:
        with urlopen(f"{node.http_url}/topics") as answer:
            gaps = {one["name"]: one["partitions"][0]["unreadable"] for one in json.loads(answer.read())}
        (gap,) = gaps["orders"]
        assert (gap["first"], gap["end"], gaps["others"]) == (first, end, [])
        assert second.name in gap["why"]
        with urlopen(f"{node.http_url}/metrics") as answer:
            metrics = answer.read().decode()
        for figure, orders in (("ranges", 1), ("offsets", end - first)):
            name = f"headwater_partition_unreadable_{figure}"
            assert f'{name}{{topic="orders",partition="0"}} {orders}' in metrics
            assert f'{name}{{topic="others",partition="0"}} 0' in metrics
        with urlopen(f"{node.http_url}/problems") as answer:
            (problem,) = json.loads(answer.read())
        assert (problem["topic"], problem["kind"]) == ("orders", "unreadable")
        assert f"offsets {first} to {end - 1}" in problem["text"]


def test_the_command_says_that_a_topic_is_offline_and_does_not_take_it_for_empty(data: Path) -> None:
    for path in (data / "topics/orders.json", data / "topics/orders.copy"):
        path.write_bytes(b"")
    with Node(data, SETTINGS) as node:
        client = Client(node.kafka_address)
        with pytest.raises(TopicOffline, match="orders"):
            client.partitions("orders")
        assert client.partitions("others") == [0]
