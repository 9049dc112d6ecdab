from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.record import Record
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer


def ask(epoch: int, *, current: int = -1, topic: str = "orders", version: int = 4) -> Any:
    request_type: Any = load_request_schema(23, version)
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0]
    partition_type = topic_type.__dataclass_fields__["partitions"].type.__args__[0]
    wanted = partition_type(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    more = {"replica_id": -1} if version >= 3 else {}
    return request_type(topics=(topic_type(topic=topic, partitions=(wanted,)),), **more)


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders")
    server.log.append("orders", [Record(b"x")] * 5)


def answer(response: Any) -> tuple[ErrorCode, int, int]:
    found = response.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_the_one_term_there_is_ends_at_the_end(client: RawClient, version: int) -> None:
    assert answer(client.call(ask(0, current=0, version=version))) == (ErrorCode.none, 0, 5)


def test_a_term_that_never_was_has_no_end(client: RawClient) -> None:
    assert answer(client.call(ask(3))) == (ErrorCode.none, -1, -1)


def test_a_client_with_a_later_leader_epoch_gets_an_error(client: RawClient) -> None:
    assert answer(client.call(ask(0, current=2))) == (ErrorCode.unknown_leader_epoch, -1, -1)


def test_an_unknown_topic_is_an_error(client: RawClient) -> None:
    assert answer(client.call(ask(0, topic="nowhere"))) == (ErrorCode.unknown_topic_or_partition, -1, -1)
