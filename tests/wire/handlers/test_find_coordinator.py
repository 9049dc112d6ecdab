import pytest

from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer


@pytest.mark.parametrize("version", [version for version in versions_of("find_coordinator") if version < 4])
def test_this_node_coordinates_every_group(version: int, caller: Caller, group_server: RunningServer) -> None:
    found = caller.ask("find_coordinator", version, key="g", key_type=0)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "127.0.0.1", group_server.port)


@pytest.mark.parametrize("version", [version for version in versions_of("find_coordinator") if version >= 4])
def test_several_groups_are_asked_for_at_once(version: int, caller: Caller, group_server: RunningServer) -> None:
    found = caller.ask("find_coordinator", version, coordinator_keys=["g", "h"], key_type=0).coordinators
    coordinators = [(one.key, one.error_code, one.node_id, one.host, one.port) for one in found]
    assert coordinators == [(key, 0, 1, "127.0.0.1", group_server.port) for key in ("g", "h")]


def test_an_empty_request_finds_no_coordinator(caller: Caller) -> None:
    assert caller.ask("find_coordinator", coordinator_keys=[], key_type=0).coordinators == ()


@pytest.mark.parametrize("version", [1, 6])
def test_a_kind_of_coordinator_that_does_not_exist_is_refused(version: int, caller: Caller) -> None:
    answer = caller.ask("find_coordinator", version, key="x", coordinator_keys=["x"], key_type=9)
    found = answer if version < 4 else answer.coordinators[0]
    assert (found.error_code.name, found.node_id) == ("invalid_request", -1)
