from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.errors import UnknownTopic
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer, running_server


def create(
    name: str = "orders", *, partitions: int = 1, copies: int = 1, validate_only: bool = False, version: int = 7,
    assignments: dict[int, tuple[int, ...]] | None = None, times: int = 1, **configs: str | None,
) -> Any:  # fmt: skip
    request_type: Any = load_request_schema(19, version)
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0]
    assignment_type = topic_type.__dataclass_fields__["assignments"].type.__args__[0]
    config_type = topic_type.__dataclass_fields__["configs"].type.__args__[0]
    topic = topic_type(
        name=name, num_partitions=partitions, replication_factor=copies,
        assignments=tuple(
            assignment_type(partition_index=number, broker_ids=nodes) for number, nodes in (assignments or {}).items()
        ),
        configs=tuple(config_type(name=key.replace("_", "."), value=value) for key, value in configs.items()),
    )  # fmt: skip
    return request_type(topics=(topic,) * times, validate_only=validate_only)


def placed(assignments: dict[int, tuple[int, ...]]) -> Any:
    return create(partitions=-1, copies=-1, assignments=assignments)


def result(response: Any) -> Any:
    (topic,) = response.topics
    return topic


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_in_every_version(server: RunningServer, client: RawClient, version: int) -> None:
    made = result(client.call(create(partitions=3, version=version, retention_ms="1000")))
    assert made.error_code is ErrorCode.none
    topic = server.log.topic("orders")
    assert (topic.partitions, topic.settings.retention_ms) == (3, 1000)
    assert version < 7 or made.topic_id == topic.id


def test_the_response_to_a_creation_describes_the_topic(client: RawClient) -> None:
    made = result(client.call(create(partitions=2, retention_ms="1000")))
    assert (made.num_partitions, made.replication_factor) == (2, 1)
    sources = {config.name: (config.value, config.config_source) for config in made.configs}
    assert sources["retention.ms"] == ("1000", 1)
    assert sources["cleanup.policy"] == ("delete", 5)


def test_numbers_may_be_left_to_the_node() -> None:
    with running_server(default_partitions=4) as server, RawClient(server.host, server.port) as client:
        assert result(client.call(create(partitions=-1, copies=-1))).num_partitions == 4
        assert server.log.topic("orders").partitions == 4


def test_a_topic_that_is_only_checked_is_not_made(server: RunningServer, client: RawClient) -> None:
    assert result(client.call(create(validate_only=True))).error_code is ErrorCode.none
    assert result(client.call(create(validate_only=True, retention_ms="no"))).error_code is ErrorCode.invalid_config
    with pytest.raises(UnknownTopic):
        server.log.topic("orders")


def test_partitions_may_be_placed_by_hand_on_the_one_node_there_is(server: RunningServer, client: RawClient) -> None:
    assert result(client.call(placed({0: (1,), 1: (1,)}))).error_code is ErrorCode.none
    assert server.log.topic("orders").partitions == 2


@pytest.mark.parametrize(
    "why, request_, code",
    [
        ("bad name", create("../etc"), ErrorCode.invalid_topic_exception),
        ("reserved name", create("__consumer_offsets"), ErrorCode.invalid_topic_exception),
        ("no partitions", create(partitions=0), ErrorCode.invalid_partitions),
        ("too many partitions", create(partitions=10_000_000), ErrorCode.invalid_partitions),
        ("three copies", create(copies=3), ErrorCode.invalid_replication_factor),
        ("no copies", create(copies=0), ErrorCode.invalid_replication_factor),
        ("unknown setting", create(no_such="1"), ErrorCode.invalid_config),
        ("wrong setting", create(cleanup_policy="shred"), ErrorCode.invalid_config),
        ("setting without a value", create(retention_ms=None), ErrorCode.invalid_config),
        ("named twice", create(times=2), ErrorCode.invalid_request),
        ("another node", placed({0: (2,)}), ErrorCode.invalid_replica_assignment),
        ("two nodes", placed({0: (1, 2)}), ErrorCode.invalid_replica_assignment),
        ("a gap", placed({0: (1,), 2: (1,)}), ErrorCode.invalid_replica_assignment),
        ("both ways", create(partitions=1, assignments={0: (1,)}), ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_made_is_refused_with_its_reason(
    client: RawClient, why: str, request_: Any, code: ErrorCode
) -> None:
    refused = result(client.call(request_))
    assert refused.error_code is code
    assert refused.error_message


def test_a_topic_that_exists_is_not_made_again(client: RawClient) -> None:
    client.call(create())
    assert result(client.call(create())).error_code is ErrorCode.topic_already_exists
