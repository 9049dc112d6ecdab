"""The requests and answers of the raw load, byte for byte against kio's idea of them."""

import struct
from typing import TypeVar

import pytest
from kio.schema.fetch.v11.request import FetchRequest
from kio.schema.produce.v7.request import ProduceRequest
from kio.schema.request_header.v1.header import RequestHeader
from kio.serial import entity_reader

from benchmarks.raw_protocol import (
    BrokerRefused,
    check_produce_response,
    fetch_request,
    next_offset,
    produce_request,
    read_fetch_response,
    text,
)
from headwater.log.batch_format import encode_batch
from headwater.record import Record

Body = TypeVar("Body", FetchRequest, ProduceRequest)


def batch(base_offset: int, count: int) -> bytes:
    packed = encode_batch([Record(b"value", timestamp_ms=1)] * count)
    return struct.pack(">q", base_offset) + bytes(packed[8:])


def fetch_answer(error: int, records: bytes) -> memoryview:
    partition = struct.pack(">ihqqqii", 3, error, 90, 90, 0, -1, -1) + struct.pack(">i", len(records)) + records
    topic = struct.pack(">i", 1) + text("orders") + struct.pack(">i", 1) + partition
    return memoryview(struct.pack(">ihi", 0, 0, 0) + topic)


def body_of(kind: type[Body], sent: bytes) -> Body:
    """The request after its length and header, which must reach to the end of what was sent."""
    _, header_bytes = entity_reader(RequestHeader)(sent, 4)
    body, body_bytes = entity_reader(kind)(sent, 4 + header_bytes)
    assert struct.unpack_from(">i", sent) == (header_bytes + body_bytes,)
    return body


def test_a_produce_request_says_what_it_should() -> None:
    sent = produce_request("orders", 3, batch(0, 2), acks=-1)
    body = body_of(ProduceRequest, sent)
    (topic,) = body.topic_data
    assert (topic.name, topic.partition_data[0].index, topic.partition_data[0].records) == ("orders", 3, batch(0, 2))


def test_a_fetch_request_says_what_it_should() -> None:
    sent = fetch_request("orders", {0: 5, 2: 7}, bytes_max=1000, partition_bytes_max=500, wait_ms=100)
    body = body_of(FetchRequest, sent)
    (topic,) = body.topics
    assert [(one.partition, one.fetch_offset) for one in topic.partitions] == [(0, 5), (2, 7)]


def test_reading_continues_after_the_last_whole_batch() -> None:
    whole = batch(10, 5) + batch(15, 2)
    assert next_offset(memoryview(whole + batch(17, 4)[:-1]), 10) == 17
    assert next_offset(memoryview(b""), 10) == 10


def test_a_fetch_response_gives_the_next_offset_of_each_partition() -> None:
    (fetched,) = read_fetch_response(fetch_answer(0, batch(10, 5)), {3: 10})
    assert (fetched.partition, fetched.high_watermark, fetched.next_offset) == (3, 90, 15)


def test_errors_in_answers_end_the_measurement() -> None:
    with pytest.raises(BrokerRefused, match="error 1"):
        read_fetch_response(fetch_answer(1, b""), {3: 10})
    with pytest.raises(BrokerRefused, match="error 6"):
        check_produce_response(struct.pack(">i", 1) + text("orders") + struct.pack(">iih", 1, 3, 6))
