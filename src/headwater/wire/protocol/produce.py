"""Produce, to and from bytes, by hand: record batches are handed on where they lie, never copied or decoded."""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from headwater.wire.protocol.reader import Reader
from headwater.wire.protocol.writer import write_count, write_string, write_topic

VERSIONS = range(3, 14)
FLEXIBLE_FROM = 9
START_OFFSET_FROM = 5
MESSAGES_FROM = 8
TOPIC_IDS_FROM = 13

_ANSWER = struct.Struct(">ihqq")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class ProducePartition(NamedTuple):
    number: int
    records: memoryview | None
    """Writable, a window into the received frame."""


class ProduceTopic(NamedTuple):
    topic: str | UUID
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class PartitionAnswer(NamedTuple):
    number: int
    error_code: int = 0
    base_offset: int = -1
    append_time_ms: int = -1
    start_offset: int = -1
    message: str | None = None


class TopicAnswer(NamedTuple):
    topic: str | UUID
    partitions: Sequence[PartitionAnswer]


def read_request(reader: Reader, version: int) -> ProduceRequest:
    flexible = version >= FLEXIBLE_FROM
    transactional_id = reader.nullable_string(flexible)
    acks = reader.int16()
    timeout_ms = reader.int32()
    topics = [_read_topic(reader, version) for _ in range(reader.count(flexible))]
    if flexible:
        reader.skip_tagged_fields()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_topic(reader: Reader, version: int) -> ProduceTopic:
    flexible = version >= FLEXIBLE_FROM
    topic = reader.uuid() if version >= TOPIC_IDS_FROM else reader.string(flexible)
    partitions = []
    for _ in range(reader.count(flexible)):
        partitions.append(ProducePartition(reader.int32(), reader.nullable_bytes(flexible)))
        if flexible:
            reader.skip_tagged_fields()
    if flexible:
        reader.skip_tagged_fields()
    return ProduceTopic(topic, partitions)


def write_response(topics: Sequence[TopicAnswer], version: int) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    target = bytearray()
    write_count(target, len(topics), flexible=flexible)
    for topic in topics:
        write_topic(target, topic.topic, flexible=flexible)
        write_count(target, len(topic.partitions), flexible=flexible)
        for answer in topic.partitions:
            _write_partition(target, answer, version)
        if flexible:
            target.append(0)
    target += _INT32.pack(0)  # throttle time
    if flexible:
        target.append(0)
    return bytes(target)


def _write_partition(target: bytearray, answer: PartitionAnswer, version: int) -> None:
    flexible = version >= FLEXIBLE_FROM
    target += _ANSWER.pack(answer.number, answer.error_code, answer.base_offset, answer.append_time_ms)
    if version >= START_OFFSET_FROM:
        target += _INT64.pack(answer.start_offset)
    if version >= MESSAGES_FROM:
        write_count(target, 0, flexible=flexible)  # errors of single records: a batch is taken or refused as a whole
        write_string(target, answer.message, flexible=flexible)
    if flexible:
        target.append(0)
