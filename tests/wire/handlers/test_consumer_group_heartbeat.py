from datetime import timedelta
from typing import Any

import pytest

from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("consumer_group_heartbeat")
FIRST: dict[str, Any] = {
    "member_id": "m", "member_epoch": 0, "rebalance_timeout": timedelta(seconds=60), "topic_partitions": (),
    "subscribed_topic_names": ("orders",),
}  # fmt: skip


def heartbeat(caller: Caller, version: int = 1, **fields: Any) -> Any:
    return caller.ask("consumer_group_heartbeat", version, **{"group_id": "g", "topic_partitions": None, **fields})


def join(caller: Caller, version: int = 1, **fields: Any) -> Any:
    joined = heartbeat(caller, version, **{**FIRST, **fields})
    assert joined.error_code == 0, joined
    return joined


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_joins_stays_and_leaves(version: int, caller: Caller, group_server: RunningServer) -> None:
    joined = join(caller, version)
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval) == ("m", 1, timedelta(seconds=5))
    (share,) = joined.assignment.topic_partitions
    orders = group_server.log.topic("orders")
    assert (share.topic_id, share.partitions) == (orders.id, tuple(range(orders.partitions)))
    again = heartbeat(caller, version, member_id="m", member_epoch=1)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)
    left = heartbeat(caller, version, member_id="m", member_epoch=-1)
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "m", -1)
    assert heartbeat(caller, version, member_id="m", member_epoch=1).error_code.name in (
        "unknown_member_id", "group_id_not_found"
    )  # fmt: skip


def test_version_0_gives_a_member_its_id(caller: Caller) -> None:
    assert join(caller, 0, member_id="").member_id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, "invalid_request"),
        ({"member_epoch": -3}, "invalid_request"),
        ({"topic_partitions": None}, "invalid_request"),
        ({"subscribed_topic_names": None}, "invalid_request"),
        ({"instance_id": ""}, "invalid_request"),
        ({"server_assignor": "best"}, "unsupported_assignor"),
        ({"subscribed_topic_regex": "("}, "invalid_regular_expression"),
        ({"subscribed_topic_regex": "a" * 5000}, "invalid_regular_expression"),
        ({"group_id": ""}, "invalid_request"),
        ({"member_epoch": 1}, "group_id_not_found"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], code: str, caller: Caller) -> None:
    refused = heartbeat(caller, **{**FIRST, **fields})
    assert (refused.error_code.name, refused.assignment) == (code, None)
    assert refused.error_message
    assert caller.ask("list_groups").groups == ()


def test_a_wrong_epoch_is_fenced(caller: Caller) -> None:
    join(caller)
    assert heartbeat(caller, member_id="m", member_epoch=5).error_code.name == "fenced_member_epoch"
    assert heartbeat(caller, member_id="n", member_epoch=1).error_code.name == "unknown_member_id"


def test_an_instance_is_used_by_one_member(caller: Caller) -> None:
    join(caller, instance_id="i")
    taken = heartbeat(caller, **{**FIRST, "member_id": "n", "instance_id": "i"})
    assert taken.error_code.name == "unreleased_instance_id"
    assert heartbeat(caller, member_id="m", member_epoch=-2, instance_id="i").member_epoch == -2
    back = join(caller, member_id="n", instance_id="i")
    assert back.member_epoch == 1
    assert heartbeat(caller, member_id="m", member_epoch=1, instance_id="i").error_code.name == "fenced_instance_id"


def test_a_pattern_matches_whole_names_in_linear_time(caller: Caller, group_server: RunningServer) -> None:
    group_server.log.create_topic("a" * 100)
    joined = join(caller, subscribed_topic_names=None, subscribed_topic_regex="(a+)+b|order.*")
    (share,) = joined.assignment.topic_partitions
    assert share.topic_id == group_server.log.topic("orders").id


def test_offsets_are_committed_and_fetched_with_the_epoch(caller: Caller) -> None:
    join(caller)
    where = {("orders", 0): 0}
    for epoch, member, code in ((1, "m", "none"), (2, "m", "stale_member_epoch"), (1, "n", "unknown_member_id")):
        answer = caller.commit(where, version=9, generation_id_or_member_epoch=epoch, member_id=member)
        assert answer.topics[0].partitions[0].error_code.name == code
        asked = {"group_id": "g", "member_id": member, "member_epoch": epoch, "topics": None}
        (group,) = caller.ask("offset_fetch", 9, groups=[asked], require_stable=False).groups
        assert group.error_code.name == code
    old = caller.commit(where, version=8, generation_id_or_member_epoch=1, member_id="m")
    assert old.topics[0].partitions[0].error_code.name == "unsupported_version"


def test_a_group_of_another_type_of_protocol_is_none(caller: Caller) -> None:
    joined = caller.become_member(protocol_type="connect")
    assert caller.sync(joined).error_code == 0
    assert heartbeat(caller, **FIRST).error_code.name == "group_id_not_found"


def test_a_group_that_rebalances_is_asked_again_later(caller: Caller) -> None:
    caller.become_member()
    assert heartbeat(caller, **FIRST).error_code.name == "coordinator_not_available"
    assert caller.ask("list_groups").groups[0].group_type == "classic"


def test_a_classic_group_becomes_one_of_the_consumer_protocol_and_back(caller: Caller) -> None:
    metadata = b"\0\0\0\0\0\1\0\6orders\0\0\0\0"
    protocols = [{"name": "range", "metadata": metadata}]
    old = caller.become_member(protocols=protocols)
    everything = b"\0\0\0\0\0\1\0\6orders\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
    shares = [{"member_id": old.member_id, "assignment": everything}]
    assert caller.sync(old, assignments=shares).assignment == everything
    epoch = join(caller).member_epoch
    assert epoch > old.generation_id
    (listed,) = caller.ask("list_groups").groups
    assert (listed.group_type, listed.group_state) == ("consumer", "Reconciling")
    claim = {"group_id": "g", "member_id": old.member_id, "group_instance_id": None}
    beat = caller.ask("heartbeat", 4, generation_id=old.generation_id, **claim)
    assert beat.error_code.name == "rebalance_in_progress"
    again = caller.join("g", old.member_id, protocols=protocols)
    assert (again.error_code, again.generation_id, again.leader, again.members) == (0, epoch, "", ())
    assert caller.sync(again).assignment == b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
    heartbeat(caller, member_id="m", member_epoch=-1)
    (listed,) = caller.ask("list_groups").groups
    assert (listed.group_type, listed.group_state) == ("classic", "PreparingRebalance")
    assert caller.ask("heartbeat", 4, generation_id=epoch, **claim).error_code.name == "rebalance_in_progress"
    last = caller.join("g", old.member_id, protocols=protocols)
    assert (last.generation_id, last.leader) == (epoch + 1, old.member_id)


def test_a_group_without_members_takes_either_protocol(caller: Caller, group_server: RunningServer) -> None:
    group_server.log.group_offsets.commit("g", {TopicPartition("orders", 0): CommittedOffset(1)})
    for _ in range(2):
        joined = join(caller)
        assert caller.ask("list_groups").groups[0].group_type == "consumer"
        heartbeat(caller, member_id="m", member_epoch=-1)
        member = caller.stable_member()
        assert member.generation_id > joined.member_epoch
        assert caller.ask("list_groups").groups[0].group_type == "classic"
        caller.ask("leave_group", 3, group_id="g", members=[{"member_id": member.member_id, "group_instance_id": None}])
    assert group_server.log.group_offsets.fetch("g")[TopicPartition("orders", 0)].offset == 1
