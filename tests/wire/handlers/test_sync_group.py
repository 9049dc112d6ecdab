import pytest

from tests.wire.group_requests import Caller, versions_of


@pytest.mark.parametrize("version", versions_of("sync_group"))
def test_every_member_gets_what_the_leader_brought(version: int, caller: Caller) -> None:
    synced = caller.sync(caller.become_member(), version=version)
    assert (synced.error_code, synced.assignment) == (0, b"all")
    assert getattr(synced, "protocol_name", "range") == "range"


@pytest.mark.parametrize("version", versions_of("sync_group"))
def test_another_generation_is_refused(version: int, caller: Caller) -> None:
    joined = caller.become_member()
    claim = {"generation_id": 9, "member_id": joined.member_id, "group_instance_id": None}
    refused = caller.ask("sync_group", version, group_id="g", assignments=[], **claim)
    assert (refused.error_code.name, refused.assignment) == ("illegal_generation", b"")


def test_an_unknown_group_has_no_members(caller: Caller) -> None:
    refused = caller.ask("sync_group", group_id="x", generation_id=1, member_id="m", assignments=[])
    assert refused.error_code.name == "unknown_member_id"


def test_another_protocol_is_refused(caller: Caller) -> None:
    refused = caller.sync(caller.become_member(), protocol_type="consumer", protocol_name="sticky")
    assert refused.error_code.name == "inconsistent_group_protocol"


def test_a_former_self_is_fenced(caller: Caller) -> None:
    first = caller.join(group_instance_id="red")
    caller.sync(first, group_instance_id="red")
    caller.join(group_instance_id="red")
    assert caller.sync(first, group_instance_id="red").error_code.name == "fenced_instance_id"
