from datetime import timedelta

import pytest

from tests.wire.group_requests import Caller, versions_of


@pytest.mark.parametrize("version", versions_of("join_group"))
def test_the_first_member_leads(version: int, caller: Caller) -> None:
    joined = caller.become_member(version=version)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, b"meta")]


@pytest.mark.parametrize("version", versions_of("join_group"))
def test_from_version_4_a_newcomer_is_first_given_an_id(version: int, caller: Caller) -> None:
    joined = caller.join(version=version)
    assert joined.error_code.name == ("member_id_required" if version >= 4 else "none")
    assert joined.member_id.startswith("test-")


@pytest.mark.parametrize("version", versions_of("join_group"))
def test_an_unknown_member_gets_an_error_with_its_own_id(version: int, caller: Caller) -> None:
    refused = caller.join(member_id="ghost", version=version)
    assert (refused.error_code.name, refused.member_id, refused.generation_id) == ("unknown_member_id", "ghost", -1)


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_is_named_after_its_instance(version: int, caller: Caller) -> None:
    joined = caller.join(version=version, group_instance_id="red")
    assert joined.member_id.startswith("red-")
    assert [member.group_instance_id for member in joined.members] == ["red"]


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_leader_that_comes_back_does_not_rebalance(version: int, caller: Caller) -> None:
    joined = caller.join(version=version, group_instance_id="red")
    caller.sync(joined, group_instance_id="red")
    again = caller.join(version=version, group_instance_id="red")
    assert (again.error_code, again.generation_id) == (0, 1)
    assert getattr(again, "skip_assignment", False) == (version >= 9)
    assert (again.leader == again.member_id) == (version >= 9)


def test_a_session_timeout_out_of_bounds_is_refused(caller: Caller) -> None:
    refused = caller.join(session_timeout=timedelta(milliseconds=5))
    assert refused.error_code.name == "invalid_session_timeout"


def test_a_group_needs_a_name(caller: Caller) -> None:
    assert caller.join("").error_code.name == "invalid_group_id"


@pytest.mark.parametrize("version", versions_of("join_group"))
def test_members_without_a_common_protocol_do_not_meet(version: int, caller: Caller) -> None:
    caller.stable_member()
    refused = caller.join(version=version, protocols=[{"name": "other", "metadata": b""}])
    assert refused.error_code.name == "inconsistent_group_protocol"
    assert refused.protocol_name == ("" if version < 7 else None)


def test_version_0_has_one_timeout_for_both(caller: Caller) -> None:
    assert caller.join(version=0, session_timeout=timedelta(seconds=2)).error_code == 0
