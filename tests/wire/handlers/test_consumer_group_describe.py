from typing import Any

import pytest

from tests.wire.group_requests import Caller, versions_of
from tests.wire.handlers.test_consumer_group_heartbeat import heartbeat, join
from tests.wire.running import RunningServer

VERSIONS = versions_of("consumer_group_describe")


def described(caller: Caller, version: int, *, operations: bool = False) -> Any:
    asked = {"group_ids": ("g",), "include_authorized_operations": operations}
    (group,) = caller.ask("consumer_group_describe", version, **asked).groups
    return group


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_shows_its_members_and_epochs(version: int, caller: Caller, group_server: RunningServer) -> None:
    join(caller, instance_id="i", rack_id="r", server_assignor="range")
    group = described(caller, version)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "range")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 1)
    assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("orders",), None)
    (share,) = member.assignment.topic_partitions
    orders = group_server.log.topic("orders")
    assert (share.topic_id, share.topic_name) == (orders.id, "orders")
    assert share.partitions == tuple(range(orders.partitions))
    assert member.target_assignment == member.assignment
    if version >= 1:
        assert member.member_type == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_without_members_is_empty(version: int, caller: Caller) -> None:
    join(caller)
    heartbeat(caller, member_id="m", member_epoch=-1)
    group = described(caller, version)
    assert (group.error_code, group.group_state, group.members) == (0, "Empty", ())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_classic_group_is_not_described(version: int, caller: Caller) -> None:
    caller.stable_member()
    assert described(caller, version).error_code.name == "group_id_not_found"


@pytest.mark.parametrize("version", VERSIONS)
def test_operations_are_shown_if_asked_for(version: int, caller: Caller) -> None:
    join(caller)
    assert described(caller, version).authorized_operations == -(2**31)
    assert described(caller, version, operations=True).authorized_operations == 0b1_0100_1000


def test_older_tools_see_the_group_too(caller: Caller) -> None:
    join(caller)
    (group,) = caller.ask("describe_groups", 6, groups=["g"], include_authorized_operations=False).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "uniform")
    (member,) = group.members
    assert member.member_assignment.startswith(b"\0\0\0\0\0\1\0\6orders")
