import io
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader as kio_reader
from kio.serial import entity_writer

from headwater.wire.protocol.produce import (
    FLEXIBLE_FROM,
    MESSAGES_FROM,
    START_OFFSET_FROM,
    TOPIC_IDS_FROM,
    VERSIONS,
    PartitionAnswer,
    TopicAnswer,
    read_request,
    write_response,
)
from headwater.wire.protocol.reader import decode
from tests.wire.requests import produce

ID = UUID(int=77)


def topic_in(version: int) -> str | UUID:
    return ID if version >= TOPIC_IDS_FROM else "orders"


def encoded(request: Any) -> bytearray:
    buffer = io.BytesIO()
    entity_writer(type(request))(buffer, request)
    return bytearray(buffer.getvalue())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_read_in_every_version(version: int) -> None:
    topic = topic_in(version)
    data = encoded(produce(topic, b"first", None, b"", version=version, acks=1, timeout_ms=77, transactional_id="t"))
    request = decode(lambda reader: read_request(reader, version), memoryview(data))
    assert (request.transactional_id, request.acks, request.timeout_ms) == ("t", 1, 77)
    assert [(name, [(number, records) for number, records in partitions]) for name, partitions in request.topics] == [
        (topic, [(0, b"first"), (1, None), (2, b"")])
    ]


def test_batches_are_windows_into_the_frame() -> None:
    data = encoded(produce("orders", b"batch"))
    request = decode(lambda reader: read_request(reader, 9), memoryview(data))
    records = request.topics[0].partitions[0].records
    assert records is not None
    records[0] = ord("B")
    assert b"Batch" in data


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_reads_the_same_with_kio_in_every_version(version: int) -> None:
    answers = [
        PartitionAnswer(0, 0, 40, 1_700_000_000_000, 3),
        PartitionAnswer(1, 44, message="it is full"),
    ]
    data = write_response([TopicAnswer(topic_in(version), answers)], version)
    response_type: Any = load_response_schema(0, version)
    response, size = kio_reader(response_type)(data, 0)
    assert size == len(data)
    first, second = response.responses[0].partition_responses
    assert (first.index, first.error_code, first.base_offset) == (0, 0, 40)
    assert first.log_append_time.timestamp() == 1_700_000_000
    assert (second.index, second.error_code, second.base_offset) == (1, 44, -1)
    if version >= START_OFFSET_FROM:
        assert (first.log_start_offset, second.log_start_offset) == (3, -1)
    if version >= MESSAGES_FROM:
        assert (first.error_message, second.error_message) == (None, "it is full")
    assert FLEXIBLE_FROM in VERSIONS
