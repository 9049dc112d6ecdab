from typing import Any

import pytest

from headwater.log.partition import Partition
from headwater.record import TopicPartition
from tests.wire.group_requests import versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import Places, Producer, aborted, undecided

VERSIONS = versions_of("write_txn_markers")


@pytest.fixture
def orders(group_server: RunningServer) -> Partition:
    return group_server.log.partition("orders", 0)


def mark(producer: Producer, version: int, places: Places, *, commit: bool = False, **fields: Any) -> dict[Any, str]:
    one = {
        "producer_id": producer.id, "producer_epoch": producer.epoch, "transaction_result": commit,
        "coordinator_epoch": 0,
        "topics": [{"name": topic, "partition_indexes": numbers} for topic, numbers in places.items()], **fields,
    }  # fmt: skip
    (answer,) = producer.ask("write_txn_markers", version, markers=[one]).markers
    assert answer.producer_id == one["producer_id"]
    return {
        (topic.name, partition.partition_index): partition.error_code.name
        for topic in answer.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_a_transaction_in_a_partition(
    version: int, commit: bool, producer: Producer, orders: Partition
) -> None:
    producer.begin()
    assert mark(producer, version, {"orders": [0]}, commit=commit) == {("orders", 0): "none"}
    assert (undecided(orders), aborted(orders), orders.end_offset) == (0, int(not commit), 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_has_its_own_answer(version: int, producer: Producer, orders: Partition) -> None:
    producer.begin()
    assert mark(producer, version, {"orders": [9, 0], "nowhere": [0]}) == {
        ("orders", 9): "unknown_topic_or_partition",
        ("orders", 0): "none",
        ("nowhere", 0): "unknown_topic_or_partition",
    }
    assert undecided(orders) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_of_an_older_epoch_ends_nothing(
    version: int, producer: Producer, second_client: RawClient, orders: Partition
) -> None:
    newer = Producer(second_client)
    newer.begin()
    assert mark(producer, version, {"orders": [0]}) == {("orders", 0): "invalid_producer_epoch"}
    assert (undecided(orders), orders.end_offset) == (1, 1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit, kept", [(True, [("orders", 0)]), (False, [])])
def test_a_marker_in_the_offsets_topic_settles_the_offsets_of_groups(
    version: int, commit: bool, kept: list[Any], producer: Producer, group_server: RunningServer
) -> None:
    offsets = group_server.log.group_offsets
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
    producer.ask(
        "txn_offset_commit", 5, group_id="g", generation_id=-1, member_id="", group_instance_id=None,
        topics=[{"name": "orders", "partitions": [partition]}],
    )  # fmt: skip
    assert offsets.unstable("g") == {TopicPartition("orders", 0)}
    place = offsets.place_of("g")
    assert mark(producer, version, {place.topic: [place.partition]}, commit=commit) == {place: "none"}
    assert (list(offsets.fetch("g")), offsets.unstable("g")) == (kept, frozenset())
