from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.log.topic_settings import DEFINITIONS
from headwater.settings import LogSettings
from headwater.wire.configs import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server


def describe(
    kind: int = TOPIC_RESOURCE, name: str = "orders", *, keys: tuple[str, ...] | None = None, version: int = 4,
    synonyms: bool = False, documentation: bool = False,
) -> Any:  # fmt: skip
    request_type: Any = load_request_schema(32, version)
    resource_type = request_type.__dataclass_fields__["resources"].type.__args__[0]
    resource = resource_type(resource_type=kind, resource_name=name, configuration_keys=keys)
    more = {"include_documentation": documentation} if version >= 3 else {}
    return request_type(resources=(resource,), include_synonyms=synonyms, **more)


def result(response: Any) -> Any:
    (found,) = response.results
    return found


@pytest.mark.parametrize("version", range(1, 5))
def test_the_settings_of_a_topic_are_reported_in_every_version(
    server: RunningServer, client: RawClient, version: int
) -> None:
    server.log.create_topic("orders", configs={"retention.ms": "1000"})
    found = result(client.call(describe(version=version)))
    assert found.error_code is ErrorCode.none
    configs = {config.name: (config.value, config.config_source) for config in found.configs}
    assert configs.keys() == DEFINITIONS.keys()
    assert configs["retention.ms"] == ("1000", 1)
    assert configs["cleanup.policy"] == ("delete", 5)


def test_only_the_settings_asked_for_are_reported(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders")
    found = result(client.call(describe(keys=("retention.ms", "no.such.thing"))))
    assert [config.name for config in found.configs] == ["retention.ms"]


def test_sources_and_documentation_of_values_are_returned_on_request() -> None:
    settings = LogSettings(topic_defaults=(("retention.ms", "2000"),))
    with running_server(log_settings=settings) as server, RawClient(server.host, server.port) as client:
        server.log.create_topic("orders", configs={"retention.ms": "1000"})
        (config,) = result(client.call(describe(keys=("retention.ms",), synonyms=True, documentation=True))).configs
        assert [(one.value, one.source) for one in config.synonyms] == [("1000", 1), ("2000", 4), ("604800000", 5)]
        assert config.documentation == DEFINITIONS["retention.ms"].documentation
        assert config.config_type == 5


def test_who_does_not_ask_does_not(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("orders")
    (config,) = result(client.call(describe(keys=("retention.ms",)))).configs
    assert (config.synonyms, config.documentation) == ((), None)


def test_the_node_reports_its_own_settings(client: RawClient) -> None:
    found = result(client.call(describe(BROKER_RESOURCE, "1")))
    configs = {config.name: config for config in found.configs}
    assert configs["auto.create.topics.enable"].value == "true"
    assert all(config.read_only for config in found.configs)


def test_a_cluster_has_no_settings_beside_its_nodes(client: RawClient) -> None:
    found = result(client.call(describe(BROKER_RESOURCE, "")))
    assert (found.error_code, found.configs) == (ErrorCode.none, ())


@pytest.mark.parametrize(
    "request_, code",
    [
        (describe(name="nowhere"), ErrorCode.unknown_topic_or_partition),
        (describe(BROKER_RESOURCE, "7"), ErrorCode.invalid_request),
        (describe(BROKER_RESOURCE, "one"), ErrorCode.invalid_request),
        (describe(99, "x"), ErrorCode.invalid_request),
    ],
)
def test_what_does_not_exist_has_no_settings(client: RawClient, request_: Any, code: ErrorCode) -> None:
    found = result(client.call(request_))
    assert (found.error_code, found.configs) == (code, ())
    assert found.error_message
