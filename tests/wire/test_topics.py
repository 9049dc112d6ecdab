from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from headwater.errors import InvalidTopicName, UnknownPartition, UnknownTopic
from headwater.log.log import Log
from headwater.log.storage.memory import MemoryStorage
from headwater.wire.topics import code_for, epoch_error, find_partition, refuse_reserved


def test_a_partition_is_found_by_name_and_by_id() -> None:
    with Log.open("data", storage=MemoryStorage()) as log:
        topic = log.create_topic("orders")
        assert find_partition(log, "orders", 0) is find_partition(log, topic.id, 0)
        with pytest.raises(UnknownPartition):
            find_partition(log, topic.id, 7)
        log.delete_topic("orders")
        with pytest.raises(UnknownTopic):
            find_partition(log, topic.id, 0)


def test_a_topic_made_again_under_its_old_name_is_another_one() -> None:
    with Log.open("data", storage=MemoryStorage()) as log:
        old = log.create_topic("orders")
        find_partition(log, old.id, 0)
        log.delete_topic("orders")
        log.create_topic("orders")
        with pytest.raises(UnknownTopic):
            find_partition(log, old.id, 0)


def test_an_unknown_id_has_a_code_of_its_own() -> None:
    assert code_for(UnknownTopic("orders"), "orders") is ErrorCode.unknown_topic_or_partition
    assert code_for(UnknownTopic("orders"), uuid4()) is ErrorCode.unknown_topic_id
    assert code_for(UnknownPartition("orders", 1, count=1), uuid4()) is ErrorCode.unknown_topic_or_partition


def test_a_disk_that_cannot_be_read_is_a_storage_error() -> None:
    assert code_for(OSError(5, "Input/output error"), "orders") is ErrorCode.kafka_storage_error


@pytest.mark.parametrize(
    "epoch, code", [(-1, ErrorCode.none), (0, ErrorCode.none), (1, ErrorCode.unknown_leader_epoch),
                    (-2, ErrorCode.fenced_leader_epoch)],
)  # fmt: skip
def test_the_leader_epoch_that_a_client_knows(epoch: int, code: ErrorCode) -> None:
    with Log.open("data", storage=MemoryStorage()) as log:
        log.create_topic("orders")
        assert epoch_error(log.partition("orders", 0), epoch) is code


def test_names_that_only_look_like_the_servers_own_are_allowed() -> None:
    refuse_reserved("__debezium-heartbeat")
    with pytest.raises(InvalidTopicName):
        refuse_reserved("__consumer_offsets")
