from typing import Any

from tests.wire.group_requests import Caller
from tests.wire.handlers.test_share_group_heartbeat import beat
from tests.wire.running import RunningServer


def described(caller: Caller) -> Any:
    (group,) = caller.ask("share_group_describe", group_ids=("g",), include_authorized_operations=True).groups
    return group


def test_a_group_shows_its_members_and_their_partitions(caller: Caller, group_server: RunningServer) -> None:
    beat(caller)
    group = described(caller)
    assert (group.error_code, group.group_state, group.assignor_name, group.group_epoch) == (0, "Stable", "simple", 1)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id) == ("m", 1, "test")
    assert member.subscribed_topic_names == ("orders",)
    (share,) = member.assignment.topic_partitions
    assert (share.topic_id, share.partitions) == (group_server.log.topic("orders").id, (0, 1))


def test_one_that_does_not_exist_is_dead(caller: Caller) -> None:
    group = described(caller)
    assert (group.error_code.name, group.group_state) == ("group_id_not_found", "Dead")


def test_share_groups_are_listed_with_their_type(caller: Caller) -> None:
    beat(caller)
    listed = caller.ask("list_groups", states_filter=(), types_filter=("Share",)).groups
    assert [(one.group_id, one.group_type, one.group_state) for one in listed] == [("g", "share", "Stable")]
