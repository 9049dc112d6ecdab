from typing import Any

import pytest

from headwater.record import Record
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer
from tests.wire.share_requests import ACCEPT, Member

VERSIONS = versions_of("describe_share_group_offsets")


def begun(caller: Caller, server: RunningServer) -> Member:
    """Of a group that has read two of five messages."""
    server.log.queues.ensure("g", {"share.auto.offset.reset": "earliest"})
    server.log.append("orders", [Record(b"v")] * 5, partition=0)
    member = Member(caller, server)
    member.fetch()
    member.acknowledge((0, 1, ACCEPT))
    return member


def offsets(caller: Caller, topics: Any = None, version: int | None = None) -> Any:
    asked = [{"group_id": "g", "topics": topics}]
    (group,) = caller.ask("describe_share_group_offsets", version, groups=asked).groups
    return group


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_says_where_it_is_and_how_much_is_ahead(
    version: int, caller: Caller, group_server: RunningServer
) -> None:
    begun(caller, group_server)
    group = offsets(caller, version=version)
    (topic,) = group.topics
    (partition,) = topic.partitions
    assert (group.error_code, topic.topic_name, partition.partition_index, partition.start_offset) == (
        0,
        "orders",
        0,
        2,
    )
    assert version == 0 or partition.lag == 3


def test_a_partition_that_was_not_begun_has_no_offset(caller: Caller, group_server: RunningServer) -> None:
    begun(caller, group_server)
    (topic,) = offsets(caller, [{"topic_name": "orders", "partitions": (1,)}]).topics
    assert topic.partitions[0].start_offset == -1
    (topic,) = offsets(caller, [{"topic_name": "none", "partitions": (0,)}]).topics
    assert topic.partitions[0].error_code.name == "unknown_topic_or_partition"


def test_a_group_that_does_not_exist_is_not_found(caller: Caller) -> None:
    assert offsets(caller).error_code.name == "group_id_not_found"
