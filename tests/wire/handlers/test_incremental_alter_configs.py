from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.wire.config_changes import APPEND, DELETE, SET, SUBTRACT
from headwater.wire.configs import TOPIC_RESOURCE
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer


def alter(
    *changes: tuple[str, int, str | None], name: str = "orders", version: int = 1, validate_only: bool = False
) -> Any:
    request_type: Any = load_request_schema(44, version)
    resource_type = request_type.__dataclass_fields__["resources"].type.__args__[0]
    config_type = resource_type.__dataclass_fields__["configs"].type.__args__[0]
    configs = tuple(config_type(name=key, config_operation=operation, value=value) for key, operation, value in changes)
    resource = resource_type(resource_type=TOPIC_RESOURCE, resource_name=name, configs=configs)
    return request_type(resources=(resource,), validate_only=validate_only)


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders", configs={"retention.ms": "1000"})


def code(response: Any) -> ErrorCode:
    found: ErrorCode = response.responses[0].error_code
    return found


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    "changes, configs",
    [
        ([("segment.bytes", SET, "5000")], {"retention.ms": "1000", "segment.bytes": "5000"}),
        ([("retention.ms", DELETE, None)], {}),
        ([("cleanup.policy", APPEND, "compact")], {"retention.ms": "1000", "cleanup.policy": "delete,compact"}),
        ([("cleanup.policy", APPEND, "compact"), ("retention.ms", SET, "7")],
         {"retention.ms": "7", "cleanup.policy": "delete,compact"}),
    ],
)  # fmt: skip
def test_only_what_is_named_changes(
    server: RunningServer, client: RawClient, version: int, changes: Any, configs: dict[str, str]
) -> None:
    assert code(client.call(alter(*changes, version=version))) is ErrorCode.none
    assert server.log.topic("orders").configs == configs


def test_a_list_can_be_made_shorter(server: RunningServer, client: RawClient) -> None:
    server.log.alter_topic("orders", {"cleanup.policy": "compact,delete"})
    assert code(client.call(alter(("cleanup.policy", SUBTRACT, "delete")))) is ErrorCode.none
    assert server.log.topic("orders").configs["cleanup.policy"] == "compact"


def test_changes_that_are_only_checked_do_not_happen(server: RunningServer, client: RawClient) -> None:
    assert code(client.call(alter(("retention.ms", SET, "7"), validate_only=True))) is ErrorCode.none
    assert server.log.topic("orders").configs == {"retention.ms": "1000"}


@pytest.mark.parametrize(
    "request_, expected",
    [
        (alter(("retention.ms", SET, "7"), name="nowhere"), ErrorCode.unknown_topic_or_partition),
        (alter(("retention.ms", SET, "soon")), ErrorCode.invalid_config),
        (alter(("cleanup.policy", SUBTRACT, "delete")), ErrorCode.invalid_config),
        (alter(("retention.ms", APPEND, "7")), ErrorCode.invalid_config),
        (alter(("retention.ms", SET, "7"), ("retention.ms", DELETE, None)), ErrorCode.invalid_config),
    ],
)
def test_what_cannot_be_changed_is_refused_as_a_whole(
    server: RunningServer, client: RawClient, request_: Any, expected: ErrorCode
) -> None:
    assert code(client.call(request_)) is expected
    assert server.log.topic("orders").configs == {"retention.ms": "1000"}
