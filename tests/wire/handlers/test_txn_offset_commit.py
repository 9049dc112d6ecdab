from typing import Any

import pytest

from headwater.log.groups.offsets import CommittedOffset
from tests.wire.group_requests import Caller, versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer
from tests.wire.transaction_requests import Producer

VERSIONS = versions_of("txn_offset_commit")
ADDED_BEFORE = [version for version in VERSIONS if version < 5]
MEMBERS_FROM = 3
WITH_MEMBERS = [version for version in VERSIONS if version >= MEMBERS_FROM]
NO_MEMBER: dict[str, Any] = {"generation_id": -1, "member_id": "", "group_instance_id": None}


def commit(
    producer: Producer, version: int, *numbers: int, topic: str = "orders", metadata: str | None = "m", **fields: Any
) -> list[tuple[int, str]]:
    """Offset 5 for each of the partitions."""
    partitions = [
        {"partition_index": number, "committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": metadata}
        for number in numbers or (0,)
    ]
    asked = {"group_id": "g", **NO_MEMBER, "topics": [{"name": topic, "partitions": partitions}], **fields}
    answer = producer.ask("txn_offset_commit", version, **asked)
    return [(one.partition_index, one.error_code.name) for named in answer.topics for one in named.partitions]


def add_group(producer: Producer, version: int) -> None:
    """What clients do that do not leave it to TxnOffsetCommit."""
    if version in ADDED_BEFORE:
        assert producer.ask("add_offsets_to_txn", 3, group_id="g").error_code.name == "none"


def committed(server: RunningServer) -> dict[Any, CommittedOffset]:
    return dict(server.log.group_offsets.fetch("g"))


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_count_when_the_transaction_commits(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    add_group(producer, version)
    assert commit(producer, version, 0, 1) == [(0, "none"), (1, "none")]
    assert committed(group_server) == {}
    assert group_server.log.group_offsets.unstable("g") == {("orders", 0), ("orders", 1)}
    assert producer.end().error_code.name == "none"
    leader_epoch = 3 if version >= 2 else -1
    kept = committed(group_server)
    assert {place: one[:3] for place, one in kept.items()} == dict.fromkeys(
        [("orders", 0), ("orders", 1)], (5, leader_epoch, "m")
    )
    assert not group_server.log.group_offsets.unstable("g")


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_are_forgotten_when_the_transaction_aborts(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    add_group(producer, version)
    assert commit(producer, version) == [(0, "none")]
    assert producer.end(commit=False).error_code.name == "none"
    assert (committed(group_server), group_server.log.group_offsets.unstable("g")) == ({}, frozenset())


@pytest.mark.parametrize("version", ADDED_BEFORE)
def test_the_group_must_have_been_added(version: int, producer: Producer, group_server: RunningServer) -> None:
    """From version 4 on the code says that it is enough to abort the transaction."""
    assert commit(producer, version) == [(0, "transaction_abortable" if version >= 4 else "invalid_txn_state")]
    producer.add({"orders": [0]})
    producer.end()
    assert committed(group_server) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_does_not_exist_is_refused_and_the_rest_committed(
    version: int, producer: Producer, group_server: RunningServer
) -> None:
    add_group(producer, version)
    assert commit(producer, version, 0, 9) == [(0, "none"), (9, "unknown_topic_or_partition")]
    assert commit(producer, version, topic="nowhere") == [(0, "unknown_topic_or_partition")]
    assert commit(producer, version, 1, metadata="x" * 5000) == [(1, "offset_metadata_too_large")]
    producer.end()
    assert list(committed(group_server)) == [("orders", 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_producer_that_is_not_the_newest_is_fenced(
    version: int, producer: Producer, second_client: RawClient, group_server: RunningServer
) -> None:
    add_group(producer, version)
    Producer(second_client)
    assert commit(producer, version) == [(0, "invalid_producer_epoch")], "in all versions, as in Kafka"
    assert not group_server.log.group_offsets.unstable("g")


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_id_that_was_registered_is_served(version: int, producer: Producer) -> None:
    add_group(producer, version)
    assert commit(producer, version, producer_id=producer.id + 1) == [(0, "invalid_producer_id_mapping")]
    assert commit(producer, version, transactional_id="unknown") == [(0, "invalid_producer_id_mapping")]
    assert commit(producer, version, transactional_id="") == [(0, "invalid_request")]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_needs_a_name(version: int, producer: Producer) -> None:
    assert commit(producer, version, group_id="") == [(0, "invalid_group_id")]


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_members_commit_under_their_generation(version: int, producer: Producer, caller: Caller) -> None:
    member = caller.stable_member()
    mine = {"member_id": member.member_id, "generation_id": 1}
    add_group(producer, version)
    assert commit(producer, version, **mine) == [(0, "none")]
    assert commit(producer, version, **{**mine, "generation_id": 0}) == [(0, "illegal_generation")]
    assert commit(producer, version, **{**mine, "member_id": "ghost"}) == [(0, "unknown_member_id")]
    assert commit(producer, version) == [(0, "none")], "an older client, which claims nothing"


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_a_former_self_is_fenced(version: int, producer: Producer, caller: Caller) -> None:
    first = caller.join(group_instance_id="red")
    caller.sync(first, group_instance_id="red")
    caller.join(group_instance_id="red")
    add_group(producer, version)
    claim = {"member_id": first.member_id, "generation_id": 1, "group_instance_id": "red"}
    assert commit(producer, version, **claim) == [(0, "fenced_instance_id")]


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_a_transaction_may_commit_while_the_leader_assigns(version: int, producer: Producer, caller: Caller) -> None:
    """Unlike a plain commit: what is read and written must be one, whatever the group does."""
    member = caller.become_member()
    add_group(producer, version)
    assert commit(producer, version, member_id=member.member_id, generation_id=1) == [(0, "none")]


@pytest.mark.parametrize("version", WITH_MEMBERS)
def test_a_member_of_an_unknown_group_is_of_no_generation(version: int, producer: Producer) -> None:
    add_group(producer, version)
    assert commit(producer, version, member_id="m", generation_id=4) == [(0, "illegal_generation")]
