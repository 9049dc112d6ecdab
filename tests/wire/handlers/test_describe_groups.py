from typing import Any

import pytest

from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("describe_groups")


def described(caller: Caller, version: int, *, operations: bool = False) -> Any:
    return caller.ask("describe_groups", version, groups=["g"], include_authorized_operations=operations).groups[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stable_group_shows_its_members(version: int, caller: Caller) -> None:
    member = caller.stable_member()
    group = described(caller, version)
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (shown,) = group.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member.member_id, "test", "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (b"meta", b"all")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_group_is_dead(version: int, caller: Caller) -> None:
    group = described(caller, version)
    assert (group.group_state, group.members) == ("Dead", ())
    assert group.error_code.name == ("none" if version < 6 else "group_id_not_found")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_only_committed_is_empty(version: int, caller: Caller, group_server: RunningServer) -> None:
    group_server.log.group_offsets.commit("g", {TopicPartition("orders", 0): CommittedOffset(1)})
    group = described(caller, version)
    assert (group.error_code, group.group_state, group.protocol_type) == (0, "Empty", "")


def test_a_group_whose_leader_shares_out_says_so(caller: Caller) -> None:
    caller.become_member()
    assert described(caller, 5).group_state == "CompletingRebalance"


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_operations_are_shown_if_asked_for(version: int, caller: Caller) -> None:
    assert described(caller, version).authorized_operations == -(2**31)
    assert described(caller, version, operations=True).authorized_operations == 0b1_0100_1000


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_static_members_show_their_instance(version: int, caller: Caller) -> None:
    caller.join(group_instance_id="red")
    assert [member.group_instance_id for member in described(caller, version).members] == ["red"]
