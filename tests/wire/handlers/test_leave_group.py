import pytest

from tests.wire.group_requests import Caller, versions_of

SINGLE = [version for version in versions_of("leave_group") if version < 3]
SEVERAL = [version for version in versions_of("leave_group") if version >= 3]


def state_of_group(caller: Caller) -> str:
    described = caller.ask("describe_groups", 5, groups=["g"], include_authorized_operations=False)
    state: str = described.groups[0].group_state
    return state


@pytest.mark.parametrize("version", SINGLE)
def test_a_member_leaves(version: int, caller: Caller) -> None:
    member = caller.stable_member()
    assert caller.ask("leave_group", version, group_id="g", member_id=member.member_id).error_code == 0
    assert state_of_group(caller) == "Empty"


@pytest.mark.parametrize("version", SINGLE)
def test_an_unknown_member_cannot_leave(version: int, caller: Caller) -> None:
    assert caller.ask("leave_group", version, group_id="g", member_id="x").error_code.name == "unknown_member_id"


@pytest.mark.parametrize("version", SEVERAL)
def test_several_members_leave_at_once_and_each_gets_its_result(version: int, caller: Caller) -> None:
    member = caller.stable_member(group_instance_id=None)
    leaving = [{"member_id": member.member_id}, {"member_id": "ghost"}, {"member_id": "", "group_instance_id": "red"}]
    answer = caller.ask("leave_group", version, group_id="g", members=leaving)
    assert answer.error_code == 0
    assert [one.error_code.name for one in answer.members] == ["none", "unknown_member_id", "unknown_member_id"]
    assert state_of_group(caller) == "Empty"


@pytest.mark.parametrize("version", SEVERAL)
def test_a_static_member_is_removed_by_its_instance(version: int, caller: Caller) -> None:
    caller.sync(caller.join(group_instance_id="red"), group_instance_id="red")
    leaving = [{"member_id": "", "group_instance_id": "red"}]
    answer = caller.ask("leave_group", version, group_id="g", members=leaving)
    assert [(one.group_instance_id, one.error_code.name) for one in answer.members] == [("red", "none")]
    assert state_of_group(caller) == "Empty"
