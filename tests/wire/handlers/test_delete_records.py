from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.record import Record
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer


def delete(offset: int, *, topic: str = "orders", partition: int = 0, version: int = 2) -> Any:
    request_type: Any = load_request_schema(21, version)
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0]
    partition_type = topic_type.__dataclass_fields__["partitions"].type.__args__[0]
    wanted = topic_type(name=topic, partitions=(partition_type(partition_index=partition, offset=offset),))
    return request_type(topics=(wanted,), timeout=timedelta(seconds=1))


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders")
    server.log.append("orders", [Record(b"x")] * 5)


def answer(response: Any) -> tuple[ErrorCode, int]:
    found = response.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_below_an_offset_are_given_up(server: RunningServer, client: RawClient, version: int) -> None:
    assert answer(client.call(delete(3, version=version))) == (ErrorCode.none, 3)
    assert [record.offset for record in server.log.read("orders")] == [3, 4]


def test_minus_one_means_all_there_are(client: RawClient) -> None:
    assert answer(client.call(delete(-1))) == (ErrorCode.none, 5)


@pytest.mark.parametrize(
    "request_, code",
    [
        (delete(99), ErrorCode.offset_out_of_range),
        (delete(-7), ErrorCode.offset_out_of_range),
        (delete(1, topic="nowhere"), ErrorCode.unknown_topic_or_partition),
        (delete(1, partition=4), ErrorCode.unknown_topic_or_partition),
        (delete(1, topic="latest"), ErrorCode.policy_violation),
    ],
)
def test_what_cannot_be_given_up_is_refused(
    server: RunningServer, client: RawClient, request_: Any, code: ErrorCode
) -> None:
    server.log.create_topic("latest", configs={"cleanup.policy": "compact"})
    assert answer(client.call(request_)) == (code, -1)
