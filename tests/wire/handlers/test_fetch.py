import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v15.request import ReplicaState
from kio.schema.types import BrokerId
from kio.static.primitive import i64

from headwater.log.batch_format import decode_batch, encode_batch, read_header
from headwater.record import Record
from headwater.wire.handlers.fetch import Target, read_targets
from headwater.wire.protocol.fetch import TOPIC_IDS_FROM, VERSIONS, FetchPartition
from tests.wire.raw_client import RawClient
from tests.wire.requests import fetch
from tests.wire.running import RunningServer


@pytest.fixture(autouse=True)
def orders(server: RunningServer) -> None:
    server.log.create_topic("orders", partitions=3)


def only(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def partitions(response: Any) -> dict[int, Any]:
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def values(records: bytes) -> list[bytes | None]:
    """Of all whole batches."""
    return [record.value for whole in batches(records) for record in decode_batch(whole, bytes_max=1 << 30)]


def batches(records: bytes) -> Iterator[bytes]:
    position = 0
    while len(records) - position > 61 and (size := read_header(records, position).size) <= len(records) - position:
        yield records[position : position + size]
        position += size


def append(server: RunningServer, *contents: bytes, partition: int = 0) -> None:
    """Each in a batch of its own."""
    for content in contents:
        server.log.append("orders", Record(content), partition=partition)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_read_in_every_version(server: RunningServer, client: RawClient, version: int) -> None:
    append(server, b"a", b"b")
    topic = server.log.topic("orders").id if version >= TOPIC_IDS_FROM else "orders"
    found = only(client.call(fetch(topic, version=version)))
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (ErrorCode.none, 2, 2)
    assert values(found.records) == [b"a", b"b"]


def test_reading_begins_with_the_batch_that_holds_the_offset(server: RunningServer, client: RawClient) -> None:
    append(server, b"a", b"b", b"c")
    assert values(only(client.call(fetch("orders", {0: 1}))).records) == [b"b", b"c"]


def test_a_response_larger_than_many_chunks_arrives_whole(server: RunningServer, client: RawClient) -> None:
    contents = [bytes([number]) * 400_000 for number in range(12)]
    append(server, *contents)
    assert values(only(client.call(fetch("orders", partition_bytes_max=1 << 30))).records) == contents


def test_the_first_partition_with_records_gives_one_batch_however_large(
    server: RunningServer, client: RawClient
) -> None:
    append(server, bytes(5000), partition=1)
    append(server, bytes(5000), partition=2)
    found = partitions(client.call(fetch("orders", {0: 0, 1: 0, 2: 0}, partition_bytes_max=100)))
    assert [len(values(found[number].records)) for number in range(3)] == [0, 1, 0]


def test_the_whole_response_keeps_to_its_limit(server: RunningServer, client: RawClient) -> None:
    for number in range(3):
        append(server, *[bytes(1000)] * 5, partition=number)
    found = partitions(client.call(fetch("orders", {2: 0, 0: 0, 1: 0}, bytes_max=7000)))
    assert [len(values(found[number].records)) for number in (2, 0, 1)] == [5, 1, 0]
    assert sum(len(found[number].records) for number in range(3)) <= 7000


def test_a_fetch_at_the_end_waits_until_records_come(server: RunningServer, client: RawClient) -> None:
    begun = time.monotonic()
    threading.Timer(0.2, lambda: append(server, b"late")).start()
    assert values(only(client.call(fetch("orders", wait_ms=20_000))).records) == [b"late"]
    assert time.monotonic() - begun > 0.15


def test_a_fetch_that_waits_in_vain_is_answered_in_time(client: RawClient) -> None:
    begun = time.monotonic()
    assert only(client.call(fetch("orders", wait_ms=200))).records == b""
    assert time.monotonic() - begun > 0.19


def test_a_fetch_waits_for_the_bytes_it_asks_for(server: RunningServer, client: RawClient) -> None:
    append(server, bytes(100))
    threading.Timer(0.1, lambda: append(server, bytes(100))).start()
    threading.Timer(0.3, lambda: append(server, bytes(5000))).start()
    found = only(client.call(fetch("orders", wait_ms=20_000, bytes_min=4000)))
    assert len(values(found.records)) == 3


def test_a_fetch_that_wants_more_than_comes_gets_what_there_is_at_last(
    server: RunningServer, client: RawClient
) -> None:
    append(server, b"a")
    assert values(only(client.call(fetch("orders", wait_ms=200, bytes_min=4000))).records) == [b"a"]


def test_any_of_its_partitions_wakes_a_fetch(server: RunningServer, client: RawClient) -> None:
    threading.Timer(0.1, lambda: append(server, b"late", partition=2)).start()
    found = partitions(client.call(fetch("orders", {0: 0, 1: 0, 2: 0}, wait_ms=20_000)))
    assert values(found[2].records) == [b"late"]


def test_a_fetch_fails_when_its_topic_is_deleted(server: RunningServer, client: RawClient) -> None:
    threading.Timer(0.1, lambda: server.log.delete_topic("orders")).start()
    found = only(client.call(fetch("orders", wait_ms=20_000)))
    assert found.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    "why, request_, code",
    [
        ("before the start", fetch("orders", {1: 1}), ErrorCode.offset_out_of_range),
        ("past the end", fetch("orders", {0: 99}), ErrorCode.offset_out_of_range),
        ("negative", fetch("orders", {0: -5}), ErrorCode.offset_out_of_range),
        ("unknown topic", fetch("nowhere"), ErrorCode.unknown_topic_or_partition),
        ("unknown partition", fetch("orders", {7: 0}), ErrorCode.unknown_topic_or_partition),
        ("unknown id", fetch(uuid4(), version=13), ErrorCode.unknown_topic_id),
        ("epoch to come", fetch("orders", leader_epoch=5), ErrorCode.unknown_leader_epoch),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(
    server: RunningServer, client: RawClient, why: str, request_: Any, code: ErrorCode
) -> None:
    append(server, b"a", b"b", b"c", partition=1)
    server.log.partition("orders", 1).delete_records(2)
    assert only(client.call(request_)).error_code is code


def test_who_claims_to_be_a_broker_is_refused(client: RawClient) -> None:
    old = client.call(fetch("orders", version=11, replica_id=2))
    state = ReplicaState(replica_id=BrokerId(2), replica_epoch=i64(0))
    new = client.call(fetch(uuid4(), version=15, replica_state=state))
    assert only(old).error_code is ErrorCode.cluster_authorization_failed
    assert new.error_code is ErrorCode.cluster_authorization_failed


def test_offsets_not_yet_durable_are_neither_readable_nor_out_of_range(
    server: RunningServer, client: RawClient
) -> None:
    partition = server.log.partition("orders", 0)
    partition.append(encode_batch([Record(b"a", timestamp_ms=1)]), durable=True)
    at_start, at_end = (only(client.call(fetch("orders", {0: offset}))) for offset in (0, 1))
    assert (at_start.records, at_start.high_watermark) == (b"", 0)
    assert (at_end.records, at_end.error_code) == (b"", ErrorCode.none)


def test_in_a_session_only_changes_are_sent(server: RunningServer, client: RawClient) -> None:
    append(server, b"a")
    first = client.call(fetch("orders", {0: 0, 1: 0, 2: 0}, session=(0, 0)))
    session_id = first.session_id
    assert session_id > 0
    assert len(partitions(first)) == 3
    second = client.call(fetch("orders", {0: 1}, session=(session_id, 1)))
    assert partitions(second) == {}
    append(server, b"b", partition=2)
    third = client.call(fetch(None, session=(session_id, 2), wait_ms=5000))
    assert {number: values(part.records) for number, part in partitions(third).items()} == {2: [b"b"]}
    fourth = client.call(fetch("orders", {2: 1}, session=(session_id, 3), forget={"orders": (0, 1)}))
    assert partitions(fourth) == {}


def test_a_session_that_was_forgotten_is_an_error_of_the_whole_fetch(client: RawClient) -> None:
    response = client.call(fetch("orders", session=(77, 5)))
    assert (response.error_code, response.responses) == (ErrorCode.fetch_session_id_not_found, ())


def test_a_disk_that_cannot_be_read_is_an_error_of_its_partition_alone(server: RunningServer) -> None:
    class Broken:
        high_watermark, last_stable_offset, end_offset, start_offset, leader_epoch = 5, 5, 5, 0, 0

        def read_verified(self, offset: int, *, bytes_max: int, committed: bool) -> None:
            raise OSError(5, "Input/output error")

    append(server, b"a")
    wanted = FetchPartition(0, -1, 0, 1000)
    targets = [
        Target("broken", wanted, Broken(), ErrorCode.none, False),  # type: ignore[arg-type]  # as much of it as is needed
        Target("orders", wanted, server.log.partition("orders", 0), ErrorCode.none, False),
    ]
    broken, whole = read_targets(targets, 1000)
    assert broken.answer.error_code == ErrorCode.kafka_storage_error
    assert whole.answer.records_bytes > 0
