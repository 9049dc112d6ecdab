from typing import Any

import pytest

from headwater.access.acls import Operation, Pattern, Permission, ResourceType
from tests.wire.access_requests import acl, acl_filter, keep
from tests.wire.group_requests import Caller, versions_of
from tests.wire.running import RunningServer

VERSIONS = versions_of("describe_acls")


@pytest.fixture(autouse=True)
def some_acls(group_server: RunningServer) -> None:
    keep(
        group_server,
        acl("orders"),
        acl("orders", operation=Operation.WRITE, principal="User:bob", permission_type=Permission.DENY),
        acl("ord", resource_pattern_type=Pattern.PREFIXED, host="192.0.2.9"),
        acl("orders", resource_type=ResourceType.GROUP),
    )


def describe(caller: Caller, version: int, **fields: Any) -> list[tuple[str, str, str, str]]:
    """Type, name and pattern of each resource, and who may do what."""
    answer = caller.ask("describe_acls", version, **acl_filter(**fields))
    assert (answer.error_code.name, answer.error_message) == ("none", None)
    return [
        (
            ResourceType(found.resource_type).name, found.resource_name, Pattern(found.pattern_type).name,
            "; ".join(
                f"{one.principal} {one.host} {Operation(one.operation).name} {Permission(one.permission_type).name}"
                for one in found.acls
            ),
        )
        for found in answer.resources
    ]  # fmt: skip


OF_THE_TOPIC = ("TOPIC", "orders", "LITERAL", "User:alice * READ ALLOW; User:bob * WRITE DENY")
OF_THE_PREFIX = ("TOPIC", "ord", "PREFIXED", "User:alice 192.0.2.9 READ ALLOW")
OF_THE_GROUP = ("GROUP", "orders", "LITERAL", "User:alice * READ ALLOW")


@pytest.mark.parametrize("version", VERSIONS)
def test_acls_stand_with_their_resource(version: int, caller: Caller) -> None:
    assert sorted(describe(caller, version)) == sorted([OF_THE_TOPIC, OF_THE_PREFIX, OF_THE_GROUP])


OF_BOB = (*OF_THE_TOPIC[:3], "User:bob * WRITE DENY")
COVERING = {
    "resource_name_filter": "orders-2", "pattern_type_filter": Pattern.MATCH, "resource_type_filter": ResourceType.TOPIC
}  # fmt: skip
FILTERS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"resource_type_filter": ResourceType.GROUP}, [OF_THE_GROUP]),
    ({"resource_name_filter": "ord"}, [OF_THE_PREFIX]),
    ({"pattern_type_filter": Pattern.PREFIXED}, [OF_THE_PREFIX]),
    ({"host_filter": "192.0.2.9"}, [OF_THE_PREFIX]),
    ({"principal_filter": "User:bob"}, [OF_BOB]),
    ({"operation": Operation.WRITE}, [OF_BOB]),
    ({"permission_type": Permission.DENY}, [OF_BOB]),
    ({"resource_name_filter": "nothing"}, []),
    (COVERING, [OF_THE_PREFIX]),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_part_of_a_filter_counts(version: int, caller: Caller) -> None:
    assert [describe(caller, version, **wanted) for wanted, _ in FILTERS] == [found for _, found in FILTERS]


UNKNOWN: list[dict[str, Any]] = [
    {"resource_type_filter": ResourceType.UNKNOWN},
    {"pattern_type_filter": Pattern.UNKNOWN},
    {"operation": Operation.UNKNOWN},
    {"permission_type": Permission.UNKNOWN},
    {"operation": 99},
]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_filter_of_the_unknown_is_refused(version: int, caller: Caller) -> None:
    answers = [caller.ask("describe_acls", version, **acl_filter(**unknown)) for unknown in UNKNOWN]
    assert [(one.error_code.name, one.resources) for one in answers] == [("invalid_request", ())] * 5
    assert all(one.error_message for one in answers)
