from typing import Any

import pytest

from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import WRITTEN_MS, Places, Producer

VERSIONS = versions_of("describe_producers")


def describe(caller: Caller, version: int, places: Places) -> dict[Any, Any]:
    topics = [{"name": topic, "partition_indexes": numbers} for topic, numbers in places.items()]
    answer = caller.ask("describe_producers", version, topics=topics)
    return {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_with_an_open_transaction_is_described(version: int, caller: Caller, producer: Producer) -> None:
    producer.begin()
    producer.write()
    found = describe(caller, version, {"orders": [0, 1]})
    (one,) = found["orders", 0].active_producers
    assert (one.producer_id, one.producer_epoch, one.last_sequence) == (producer.id, producer.epoch, 1)
    assert (one.last_timestamp, one.current_txn_start_offset, one.coordinator_epoch) == (WRITTEN_MS, 0, -1)
    assert (found["orders", 1].error_code.name, found["orders", 1].active_producers) == ("none", ())


@pytest.mark.parametrize("version", VERSIONS)
def test_after_its_end_no_transaction_is_open(version: int, caller: Caller, producer: Producer) -> None:
    producer.begin()
    producer.end(version=3)
    (one,) = describe(caller, version, {"orders": [0]})["orders", 0].active_producers
    assert (one.current_txn_start_offset, one.coordinator_epoch) == (-1, 0)
    producer.begin()
    (one,) = describe(caller, version, {"orders": [0]})["orders", 0].active_producers
    assert one.current_txn_start_offset == 2, "after the first record and its marker"


@pytest.mark.parametrize("version", VERSIONS)
def test_each_partition_has_its_own_answer(version: int, caller: Caller, group_server: RunningServer) -> None:
    found = describe(caller, version, {"nowhere": [0], "orders": [9, 0]})
    assert {place: one.error_code.name for place, one in found.items()} == {
        ("nowhere", 0): "unknown_topic_or_partition",
        ("orders", 9): "unknown_topic_or_partition",
        ("orders", 0): "none",
    }
    assert found["nowhere", 0].error_message
    assert found["orders", 0].error_message is None
    assert [topic.name for topic in group_server.log.topics()] == ["orders"], "and none is created"
