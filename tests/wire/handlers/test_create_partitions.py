from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer


def grow(
    name: str = "orders", count: int = 3, *, nodes: tuple[tuple[int, ...], ...] | None = None,
    validate_only: bool = False, version: int = 3,
) -> Any:  # fmt: skip
    request_type: Any = load_request_schema(37, version)
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0]
    assignment_type = topic_type.__dataclass_fields__["assignments"].type.__args__[0].__args__[0]
    assignments = None if nodes is None else tuple(assignment_type(broker_ids=ids) for ids in nodes)
    topic = topic_type(name=name, count=count, assignments=assignments)
    return request_type(topics=(topic,), timeout=timedelta(seconds=1), validate_only=validate_only)


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders")


def code(response: Any) -> ErrorCode:
    found: ErrorCode = response.results[0].error_code
    return found


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_in_every_version(server: RunningServer, client: RawClient, version: int) -> None:
    assert code(client.call(grow(version=version))) is ErrorCode.none
    assert server.log.topic("orders").partitions == 3
    assert server.log.partition("orders", 2).end_offset == 0


def test_growth_that_is_only_checked_does_not_happen(server: RunningServer, client: RawClient) -> None:
    assert code(client.call(grow(validate_only=True))) is ErrorCode.none
    assert code(client.call(grow(count=1, validate_only=True))) is ErrorCode.invalid_partitions
    assert server.log.topic("orders").partitions == 1


def test_new_partitions_may_be_placed_by_hand(client: RawClient) -> None:
    assert code(client.call(grow(nodes=((1,), (1,))))) is ErrorCode.none


@pytest.mark.parametrize(
    "request_, expected",
    [
        (grow("nowhere"), ErrorCode.unknown_topic_or_partition),
        (grow(count=1), ErrorCode.invalid_partitions),
        (grow(count=0), ErrorCode.invalid_partitions),
        (grow(count=2**31 - 1), ErrorCode.invalid_partitions),
        (grow(nodes=((2,), (1,))), ErrorCode.invalid_replica_assignment),
        (grow(nodes=((1,),)), ErrorCode.invalid_replica_assignment),
    ],
)
def test_what_cannot_grow_is_refused(client: RawClient, request_: Any, expected: ErrorCode) -> None:
    assert code(client.call(request_)) is expected
