from typing import Any

import pytest

from headwater.access.acls import CLUSTER_NAME, Acl, Operation, Pattern, Permission, ResourceType
from headwater.log.storage.memory import MemoryStorage
from tests.wire.access_requests import acl, kept_acls
from tests.wire.group_requests import Caller, versions_of
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server

VERSIONS = versions_of("create_acls")
MAY_READ = Acl(
    ResourceType.TOPIC, Pattern.LITERAL, "orders", "User:alice", "*", Operation.READ, Permission.ALLOW
)  # fmt: skip


def create(caller: Caller, version: int, *acls: dict[str, Any]) -> list[str]:
    answer = caller.ask("create_acls", version, creations=list(acls))
    assert [bool(one.error_message) for one in answer.results] == [one.error_code != 0 for one in answer.results]
    return [one.error_code.name for one in answer.results]


@pytest.mark.parametrize("version", VERSIONS)
def test_acls_are_kept_as_they_were_sent(version: int, caller: Caller, group_server: RunningServer) -> None:
    denied = acl(
        "pay", resource_type=ResourceType.GROUP, resource_pattern_type=Pattern.PREFIXED, principal="User:bob",
        host="192.0.2.9", operation=Operation.ALL, permission_type=Permission.DENY,
    )  # fmt: skip
    assert create(caller, version, acl(), denied) == ["none", "none"]
    may_not = Acl(
        ResourceType.GROUP, Pattern.PREFIXED, "pay", "User:bob", "192.0.2.9", Operation.ALL, Permission.DENY
    )  # fmt: skip
    assert kept_acls(group_server) == [MAY_READ, may_not]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_acl_that_exists_is_not_created_twice(version: int, caller: Caller, group_server: RunningServer) -> None:
    assert create(caller, version, acl()) == ["none"]
    written = group_server.log.partition("__headwater_access", 0).end_offset
    assert create(caller, version, acl()) == ["none"], "as in Kafka"
    assert kept_acls(group_server) == [MAY_READ]
    assert group_server.log.partition("__headwater_access", 0).end_offset == written


def test_acls_are_there_after_a_restart() -> None:
    storage = MemoryStorage()
    with running_server(storage=storage) as server, RawClient(server.host, server.port) as client:
        create(Caller(client), VERSIONS[-1], acl())
    with running_server(storage=storage) as server:
        assert kept_acls(server) == [MAY_READ]


WRONG: list[dict[str, Any]] = [
    {"resource_type": ResourceType.ANY},
    {"resource_type": ResourceType.UNKNOWN},
    {"resource_type": 99},
    {"resource_pattern_type": Pattern.ANY},
    {"resource_pattern_type": Pattern.MATCH},
    {"operation": Operation.ANY},
    {"operation": Operation.UNKNOWN},
    {"permission_type": Permission.ANY},
    {"resource_name": ""},
    {"resource_type": ResourceType.CLUSTER, "operation": Operation.ALTER, "resource_name": "another-cluster"},
    {"principal": "alice"},
    {"principal": ""},
]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_no_acl_is_refused_and_the_rest_created(
    version: int, caller: Caller, group_server: RunningServer
) -> None:
    cluster = acl(CLUSTER_NAME, resource_type=ResourceType.CLUSTER, operation=Operation.ALTER)
    codes = create(caller, version, *[acl(**wrong) for wrong in WRONG], cluster)
    assert codes == ["invalid_request"] * len(WRONG) + ["none"]
    assert [one.resource for one in kept_acls(group_server)] == [CLUSTER_NAME]
