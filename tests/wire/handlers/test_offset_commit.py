from typing import Any

import pytest

from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

NAMED = [version for version in versions_of("offset_commit") if version < 10]


def codes(answer: Any) -> list[tuple[int, str]]:
    return [(one.partition_index, one.error_code.name) for topic in answer.topics for one in topic.partitions]


@pytest.mark.parametrize("version", NAMED)
def test_any_client_may_commit_for_a_group_without_members(
    version: int, caller: Caller, group_server: RunningServer
) -> None:
    answer = caller.commit({("orders", 0): 5, ("orders", 1): 6}, version=version)
    assert codes(answer) == [(0, "none"), (1, "none")]
    committed = group_server.log.group_offsets.fetch("g")
    assert {topic_partition: one.offset for topic_partition, one in committed.items()} == {
        ("orders", 0): 5,
        ("orders", 1): 6,
    }


def test_a_topic_may_be_named_by_its_id(caller: Caller, group_server: RunningServer) -> None:
    topic_id = group_server.log.topic("orders").id
    partition = {
        "partition_index": 1, "committed_offset": 7, "committed_leader_epoch": 3, "committed_metadata": "m",
    }  # fmt: skip
    answer = caller.commit({}, version=10, topics=[{"topic_id": topic_id, "partitions": [partition]}])
    assert (codes(answer), answer.topics[0].topic_id) == ([(1, "none")], topic_id)
    committed = group_server.log.group_offsets.fetch("g")[TopicPartition("orders", 1)]
    assert committed == CommittedOffset(7, 3, "m", committed.commit_ms)


def test_an_id_that_no_topic_has_is_unknown(caller: Caller, group_server: RunningServer) -> None:
    group_server.log.create_topic("gone")
    topic_id = group_server.log.topic("gone").id
    group_server.log.delete_topic("gone")
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": None}
    answer = caller.commit({}, version=10, topics=[{"topic_id": topic_id, "partitions": [partition]}])
    assert codes(answer) == [(0, "unknown_topic_id")]


def test_what_does_not_exist_is_refused_and_the_rest_committed(caller: Caller, group_server: RunningServer) -> None:
    answer = caller.commit({("orders", 0): 5, ("orders", 9): 6, ("nowhere", 0): 1})
    assert codes(answer) == [(0, "none"), (9, "unknown_topic_or_partition"), (0, "unknown_topic_or_partition")]
    assert list(group_server.log.group_offsets.fetch("g")) == [("orders", 0)]


def test_metadata_has_a_bound(caller: Caller) -> None:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "x" * 5000}
    answer = caller.commit({}, topics=[{"name": "orders", "partitions": [partition]}])
    assert codes(answer) == [(0, "offset_metadata_too_large")]


@pytest.mark.parametrize("version", NAMED)
def test_members_commit_under_their_generation(version: int, caller: Caller) -> None:
    member = caller.stable_member()
    topic_partition = {("orders", 0): 5}
    mine = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    assert codes(caller.commit(topic_partition, version=version, **mine)) == [(0, "none")]
    stale = {**mine, "generation_id_or_member_epoch": 0}
    assert codes(caller.commit(topic_partition, version=version, **stale)) == [(0, "illegal_generation")]
    strange = {**mine, "member_id": "ghost"}
    assert codes(caller.commit(topic_partition, version=version, **strange)) == [(0, "unknown_member_id")]
    assert codes(caller.commit(topic_partition, version=version)) == [(0, "unknown_member_id")]


def test_a_former_self_is_fenced(caller: Caller) -> None:
    first = caller.join(group_instance_id="red")
    caller.sync(first, group_instance_id="red")
    caller.join(group_instance_id="red")
    claim: dict[str, Any] = {"member_id": first.member_id, "generation_id_or_member_epoch": 1}
    answer = caller.commit({("orders", 0): 5}, group_instance_id="red", **claim)
    assert codes(answer) == [(0, "fenced_instance_id")]


def test_nothing_is_committed_while_the_leader_shares_out(caller: Caller) -> None:
    member = caller.become_member()
    claim = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    assert codes(caller.commit({("orders", 0): 5}, **claim)) == [(0, "rebalance_in_progress")]


def test_a_member_of_an_unknown_group_is_of_no_generation(caller: Caller) -> None:
    claim: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 4}
    assert codes(caller.commit({("orders", 0): 5}, **claim)) == [(0, "illegal_generation")]


def test_a_group_needs_a_name(caller: Caller) -> None:
    assert codes(caller.commit({("orders", 0): 5}, "")) == [(0, "invalid_group_id")]
