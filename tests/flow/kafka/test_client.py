import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import DuplicateSequence, OffsetOutOfRange, OutOfOrderSequence, TopicExists, UnknownTopic
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.kafka.encoding import encode_records
from headwater.flow.source.record_batches.records import decode_batches
from headwater.record import TopicPartition
from headwater.testing import running_node
from tests.clients.brokers.apache_kafka import start_apache_kafka

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of our own node, or of Apache Kafka with HEADWATER_TEST_BROKER=kafka."""
    if os.environ.get("HEADWATER_TEST_BROKER") == "kafka":
        broker = start_apache_kafka(tmp_path_factory.mktemp("kafka"))
        try:
            yield broker.address
        finally:
            broker.stop()
    else:
        with running_node() as node:
            yield node.kafka_address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    name = f"topic-{abs(hash(request.node.name))}"
    client.create_topic(name, partitions=3)
    return name


def batches(rows: int, *, first_ms: int = 1_700_000_000_000, size: int = 200, sequence: int = 0, producer=None):
    values = pa.array([b"value %d" % (sequence + row) for row in range(rows)])
    identity = producer or (-1, -1)
    return encode_records(
        None,
        values,
        first_ms + np.arange(rows),
        producer_id=identity[0],
        epoch=identity[1],
        base_sequence=sequence,
        batch_bytes=size,
    )


def test_a_topic_is_made_and_found(client: Client, topic: str) -> None:
    assert client.topics()[topic] == 3
    assert client.partitions([topic]) == {topic: 3}


def test_a_second_topic_of_the_same_name_is_refused(client: Client, topic: str) -> None:
    with pytest.raises(TopicExists):
        client.create_topic(topic)


def test_a_topic_that_does_not_exist_is_said_so_and_not_made(client: Client) -> None:
    with pytest.raises(UnknownTopic):
        client.partitions(["nowhere"])
    with pytest.raises(UnknownTopic):
        client.offsets({TopicPartition("nowhere", 0): LATEST})
    assert "nowhere" not in client.topics()


def test_batches_are_stored_in_order_in_every_partition(client: Client, topic: str) -> None:
    places = [TopicPartition(topic, number) for number in range(3)]
    producer = client.init_producer_id()
    sent = batches(100, producer=producer)
    stored = client.produce(dict.fromkeys(places, sent))
    assert len(sent) > 10
    assert all(offsets == sorted(offsets) and offsets[0] == 0 for offsets in stored.values())
    assert client.offsets(dict.fromkeys(places, LATEST)) == dict.fromkeys(places, 100)
    fetched = client.fetch(places[2], 0, bytes_max=2**20)
    records = decode_batches(fetched.records, 0, 100, headers=False)
    assert records.values.to_pylist() == [b"value %d" % row for row in range(100)]
    assert fetched.high_watermark == 100


def test_a_batch_sent_again_is_stored_once_and_answers_with_its_offset(client: Client, topic: str) -> None:
    place = TopicPartition(topic, 0)
    producer = client.init_producer_id()
    sent = batches(10, producer=producer)
    first = client.produce({place: sent})
    again = client.produce({place: sent[-3:]})
    assert again[place] == first[place][-3:]
    assert client.offsets({place: LATEST})[place] == 10


def test_a_gap_in_the_sequence_is_refused(client: Client, topic: str) -> None:
    place = TopicPartition(topic, 0)
    producer = client.init_producer_id()
    client.produce({place: batches(3, producer=producer)})
    with pytest.raises((OutOfOrderSequence, DuplicateSequence)):
        client.produce({place: batches(3, producer=producer, sequence=50)})


def test_offsets_are_found_by_time(client: Client, topic: str) -> None:
    place, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client.produce({place: batches(50, first_ms=1000, producer=client.init_producer_id())})
    assert client.offsets({place: 1025, other: EARLIEST}) == {place: 25, other: 0}
    assert client.offsets({place: 2000})[place] == -1


def test_a_batch_larger_than_asked_for_comes_whole(client: Client, topic: str) -> None:
    place = TopicPartition(topic, 0)
    client.produce({place: batches(2000, size=2**20, producer=client.init_producer_id())})
    fetched = client.fetch(place, 1500, bytes_max=100)
    assert len(decode_batches(fetched.records, 0, 2000, headers=False).offsets) == 2000


def test_an_offset_beyond_the_end_is_out_of_range(client: Client, topic: str) -> None:
    with pytest.raises(OffsetOutOfRange, match=r"outside 0\.\.0"):
        client.fetch(TopicPartition(topic, 0), 17, bytes_max=1000)


def test_a_group_without_members_keeps_its_offsets(client: Client, topic: str) -> None:
    committed = {TopicPartition(topic, 0): 12, TopicPartition(topic, 2): 7}
    client.commit_offsets("a-job", committed)
    found = client.committed_offsets("a-job")
    assert {place: offset for place, offset in found.items() if place.topic == topic} == committed


def test_producer_ids_differ(client: Client) -> None:
    assert client.init_producer_id() != client.init_producer_id()


def test_a_broken_connection_is_made_again(client: Client, topic: str) -> None:
    place = TopicPartition(topic, 0)
    producer = client.init_producer_id()
    client.produce({place: batches(2, producer=producer)})
    for connection in client._connections.values():
        connection._socket.close()
    client.produce({place: batches(2, producer=producer, sequence=2)})
    assert client.offsets({place: LATEST})[place] == 4


def test_a_node_that_comes_back_on_the_same_port_is_found_again(tmp_path: Path) -> None:
    from dataclasses import replace

    from headwater.node import Node
    from headwater.settings import NodeSettings

    settings = NodeSettings()
    with Node(tmp_path, replace(settings, wire=replace(settings.wire, port=0))) as node:
        client = Client(node.kafka_address)
        client.create_topic("orders")
        port = int(node.kafka_address.rpartition(":")[2])
    with Node(tmp_path, replace(settings, wire=replace(settings.wire, port=port))):
        assert client.offsets({ORDERS: LATEST}) == {ORDERS: 0}
        client.close()
