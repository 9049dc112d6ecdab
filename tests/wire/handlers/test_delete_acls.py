from typing import Any

import pytest

from headwater.access.acls import Operation, Pattern, Permission, ResourceType
from tests.wire.access_requests import acl, acl_filter, keep, kept_acls
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("delete_acls")


def delete(caller: Caller, version: int, *filters: dict[str, Any]) -> Any:
    return caller.ask("delete_acls", version, filters=list(filters)).filter_results


@pytest.fixture
def server(group_server: RunningServer) -> RunningServer:
    """With ACLs of one topic, of all topics, and of topics with a prefix."""
    keep(group_server, acl("orders"), acl("*"), acl("ord", resource_pattern_type=Pattern.PREFIXED), acl("payroll"))
    return group_server


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_filter_matches_is_deleted_and_returned(version: int, caller: Caller, server: RunningServer) -> None:
    (result,) = delete(caller, version, acl_filter(resource_name_filter="orders"))
    assert (result.error_code.name, result.error_message) == ("none", None)
    (one,) = result.matching_acls
    assert (one.error_code.name, one.resource_type, one.resource_name) == ("none", ResourceType.TOPIC, "orders")
    assert (one.pattern_type, one.principal, one.host) == (Pattern.LITERAL, "User:alice", "*")
    assert (one.operation, one.permission_type) == (Operation.READ, Permission.ALLOW)
    assert sorted(left.resource for left in kept_acls(server)) == ["*", "ord", "payroll"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_match_is_every_pattern_that_covers_a_name(version: int, caller: Caller, server: RunningServer) -> None:
    asked = acl_filter(resource_name_filter="orders", pattern_type_filter=Pattern.MATCH)
    (result,) = delete(caller, version, asked)
    assert sorted(one.resource_name for one in result.matching_acls) == ["*", "ord", "orders"]
    assert [left.resource for left in kept_acls(server)] == ["payroll"]


UNKNOWN: list[dict[str, Any]] = [
    {"resource_type_filter": ResourceType.UNKNOWN},
    {"pattern_type_filter": Pattern.UNKNOWN},
    {"operation": Operation.UNKNOWN},
    {"permission_type": Permission.UNKNOWN},
    {"operation": 99},
]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_filter_has_its_own_answer(version: int, caller: Caller, server: RunningServer) -> None:
    nothing = acl_filter(principal_filter="User:bob")
    payroll = acl_filter(resource_name_filter="payroll")
    *wrong, none, one = delete(caller, version, *[acl_filter(**unknown) for unknown in UNKNOWN], nothing, payroll)
    assert [(refused.error_code.name, refused.matching_acls) for refused in wrong] == [("invalid_request", ())] * 5
    assert all(refused.error_message for refused in wrong)
    assert (none.error_code.name, none.matching_acls) == ("none", ())
    assert [found.resource_name for found in one.matching_acls] == ["payroll"]
    assert len(kept_acls(server)) == 3
