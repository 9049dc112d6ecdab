import pytest

from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer


@pytest.mark.parametrize("version", versions_of("delete_groups"))
def test_each_group_is_deleted_or_says_why_not(version: int, caller: Caller, group_server: RunningServer) -> None:
    offsets = group_server.log.group_offsets
    offsets.commit("idle", {TopicPartition("orders", 0): CommittedOffset(1)})
    caller.stable_member("busy")
    answer = caller.ask("delete_groups", version, groups_names=["idle", "busy", "nobody"])
    codes = {result.group_id: result.error_code.name for result in answer.results}
    assert codes == {"idle": "none", "busy": "non_empty_group", "nobody": "group_id_not_found"}
    assert offsets.groups() == ["busy"]


def test_a_group_can_be_deleted_once_its_members_left(caller: Caller) -> None:
    member = caller.stable_member()
    caller.ask("leave_group", group_id="g", members=[{"member_id": member.member_id}])
    assert caller.ask("delete_groups", groups_names=["g"]).results[0].error_code == 0
    assert caller.ask("list_groups").groups == ()
