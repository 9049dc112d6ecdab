from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.record import Record
from headwater.wire.protocol.values import NO_THROTTLE
from tests.wire.raw_client import RawClient
from tests.wire.running import RunningServer

NOW = 1_700_000_000_000


def list_offsets(
    timestamp: int, *, topic: str = "orders", partition: int = 0, version: int = 7, epoch: int = -1
) -> Any:
    request_type: Any = load_request_schema(2, version)
    topic_type = request_type.__dataclass_fields__["topics"].type.__args__[0]
    partition_type = topic_type.__dataclass_fields__["partitions"].type.__args__[0]
    optional = {"current_leader_epoch": epoch} if version >= 4 else {}
    wanted = partition_type(partition_index=partition, timestamp=timestamp, **optional)
    fields: dict[str, Any] = {"replica_id": -1, "topics": (topic_type(name=topic, partitions=(wanted,)),)}
    if version >= 2:
        fields["isolation_level"] = 0
    if version >= 10:
        fields["timeout"] = NO_THROTTLE
    return request_type(**fields)


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders")
    for step in (0, 100, 300, 200):
        server.log.append("orders", Record(b"x", timestamp_ms=NOW + step))
    server.log.partition("orders", 0).delete_records(1)


def answer(response: Any) -> tuple[ErrorCode, int, int]:
    found = response.topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset


@pytest.mark.parametrize("version", range(1, 12))
def test_a_time_is_answered_in_every_version(client: RawClient, version: int) -> None:
    assert answer(client.call(list_offsets(NOW + 101, version=version))) == (ErrorCode.none, NOW + 300, 2)


@pytest.mark.parametrize(
    "what, timestamp, found",
    [
        ("the end", -1, (-1, 4)),
        ("the start", -2, (-1, 1)),
        ("the newest record", -3, (NOW + 300, 2)),
        ("the first local record", -4, (-1, 1)),
        ("the last archived record", -5, (-1, -1)),
        ("the first record to archive", -6, (-1, -1)),
        ("a time long ago", 0, (NOW + 100, 1)),
        ("a time to come", NOW + 5000, (-1, -1)),
    ],
)
def test_special_offsets_and_times(client: RawClient, what: str, timestamp: int, found: tuple[int, int]) -> None:
    assert answer(client.call(list_offsets(timestamp, version=11))) == (ErrorCode.none, *found), what


def test_an_empty_partition_has_a_start_and_an_end_and_no_times(server: RunningServer, client: RawClient) -> None:
    server.log.create_topic("empty")
    found = [answer(client.call(list_offsets(timestamp, topic="empty")))[1:] for timestamp in (-2, -1, -3, NOW)]
    assert found == [(-1, 0), (-1, 0), (-1, -1), (-1, -1)]


@pytest.mark.parametrize(
    "request_, code",
    [
        (list_offsets(-1, topic="nowhere"), ErrorCode.unknown_topic_or_partition),
        (list_offsets(-1, partition=4), ErrorCode.unknown_topic_or_partition),
        (list_offsets(-1, epoch=3), ErrorCode.unknown_leader_epoch),
    ],
)
def test_errors_stand_where_the_offset_would(client: RawClient, request_: Any, code: ErrorCode) -> None:
    assert answer(client.call(request_)) == (code, -1, -1)
