from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.wire.configs import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer


def alter(
    kind: int = TOPIC_RESOURCE, name: str = "orders", *, version: int = 2, validate_only: bool = False,
    **configs: str | None,
) -> Any:  # fmt: skip
    request_type: Any = load_request_schema(33, version)
    resource_type = request_type.__dataclass_fields__["resources"].type.__args__[0]
    config_type = resource_type.__dataclass_fields__["configs"].type.__args__[0]
    pairs = tuple(config_type(name=key.replace("_", "."), value=value) for key, value in configs.items())
    resource = resource_type(resource_type=kind, resource_name=name, configs=pairs)
    return request_type(resources=(resource,), validate_only=validate_only)


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders", configs={"retention.ms": "1000", "segment.bytes": "5000"})


def code(response: Any) -> ErrorCode:
    found: ErrorCode = response.responses[0].error_code
    return found


@pytest.mark.parametrize("version", range(3))
def test_a_topic_has_exactly_the_settings_it_is_given(server: RunningServer, client: RawClient, version: int) -> None:
    assert code(client.call(alter(version=version, retention_ms="2000"))) is ErrorCode.none
    assert server.log.topic("orders").configs == {"retention.ms": "2000"}


def test_changes_that_are_only_checked_do_not_happen(server: RunningServer, client: RawClient) -> None:
    assert code(client.call(alter(validate_only=True, retention_ms="2000"))) is ErrorCode.none
    assert code(client.call(alter(validate_only=True, retention_ms="no"))) is ErrorCode.invalid_config
    assert server.log.topic("orders").configs["retention.ms"] == "1000"


@pytest.mark.parametrize(
    "request_, expected",
    [
        (alter(name="nowhere"), ErrorCode.unknown_topic_or_partition),
        (alter(retention_ms="soon"), ErrorCode.invalid_config),
        (alter(retention_ms=None), ErrorCode.invalid_config),
        (alter(no_such="1"), ErrorCode.invalid_config),
        (alter(BROKER_RESOURCE, "1", log_dirs="x"), ErrorCode.invalid_request),
        (alter(99, "1"), ErrorCode.invalid_request),
        (alter(name="__consumer_offsets", cleanup_policy="delete"), ErrorCode.invalid_topic_exception),
    ],
)
def test_what_cannot_be_changed_is_refused(
    server: RunningServer, client: RawClient, request_: Any, expected: ErrorCode
) -> None:
    before = server.log.topic("orders").configs
    response = client.call(request_)
    assert code(response) is expected
    assert response.responses[0].error_message
    assert server.log.topic("orders").configs == before
