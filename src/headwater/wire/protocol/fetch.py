"""Fetch, to and from bytes, by hand: the records of a response stay in their files until the socket takes them."""

import struct
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from headwater.wire.protocol.reader import Reader
from headwater.wire.protocol.writer import write_count, write_topic

VERSIONS = range(4, 19)
START_OFFSET_FROM = 5
SESSIONS_FROM = 7
LEADER_EPOCH_FROM = 9
RACK_FROM = 11
FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15

REPLICA_STATE_TAG = 1
CONSUMER = -1
"""The replica id of every client that is not a broker."""

Records = TypeVar("Records")

_ANSWER = struct.Struct(">ihqq")
_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class FetchPartition(NamedTuple):
    number: int
    current_leader_epoch: int
    offset: int
    bytes_max: int


class FetchTopic(NamedTuple):
    topic: str | UUID
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    topic: str | UUID
    partitions: list[int]


class FetchRequest(NamedTuple):
    replica_id: int
    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    committed_only: bool
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class PartitionAnswer(NamedTuple, Generic[Records]):
    """`records` are whatever the sender can send, `records_bytes` long together."""

    number: int
    error_code: int = 0
    high_watermark: int = -1
    start_offset: int = -1
    records: Sequence[Records] = ()
    records_bytes: int = 0
    last_stable_offset: int = -1
    aborted: Sequence[tuple[int, int]] = ()
    """Producer id and first offset of aborted transactions, for readers of committed records."""


class TopicAnswer(NamedTuple, Generic[Records]):
    topic: str | UUID
    partitions: Sequence[PartitionAnswer[Records]]


class FetchResponse(NamedTuple, Generic[Records]):
    topics: Sequence[TopicAnswer[Records]]
    error_code: int = 0
    session_id: int = 0
    committed_only: bool = False


def read_request(reader: Reader, version: int) -> FetchRequest:
    flexible = version >= FLEXIBLE_FROM
    replica_id = CONSUMER if version >= REPLICA_STATE_FROM else reader.int32()
    wait_ms_max, bytes_min, bytes_max = reader.int32(), reader.int32(), reader.int32()
    committed_only = reader.int8() == 1
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_FROM:
        session_id, session_epoch = reader.int32(), reader.int32()
    topics = [_read_topic(reader, version) for _ in range(reader.count(flexible))]
    forgotten: list[ForgottenTopic] = []
    if version >= SESSIONS_FROM:
        forgotten = [_read_forgotten(reader, version) for _ in range(reader.count(flexible))]
    if version >= RACK_FROM:
        reader.string(flexible)
    if flexible:
        replica_id = _read_replica_state(reader, replica_id)
    return FetchRequest(
        replica_id, wait_ms_max, bytes_min, bytes_max, committed_only, session_id, session_epoch, topics, forgotten
    )


def _read_topic(reader: Reader, version: int) -> FetchTopic:
    flexible = version >= FLEXIBLE_FROM
    topic = reader.uuid() if version >= TOPIC_IDS_FROM else reader.string(flexible)
    partitions = [_read_partition(reader, version) for _ in range(reader.count(flexible))]
    if flexible:
        reader.skip_tagged_fields()
    return FetchTopic(topic, partitions)


def _read_partition(reader: Reader, version: int) -> FetchPartition:
    number = reader.int32()
    current_leader_epoch = reader.int32() if version >= LEADER_EPOCH_FROM else -1
    offset = reader.int64()
    if version >= FLEXIBLE_FROM:
        reader.int32()  # the epoch of the last record fetched: a matter of replicas
    if version >= START_OFFSET_FROM:
        reader.int64()  # a follower's first offset
    bytes_max = reader.int32()
    if version >= FLEXIBLE_FROM:
        reader.skip_tagged_fields()
    return FetchPartition(number, current_leader_epoch, offset, bytes_max)


def _read_forgotten(reader: Reader, version: int) -> ForgottenTopic:
    flexible = version >= FLEXIBLE_FROM
    topic = reader.uuid() if version >= TOPIC_IDS_FROM else reader.string(flexible)
    partitions = [reader.int32() for _ in range(reader.count(flexible))]
    if flexible:
        reader.skip_tagged_fields()
    return ForgottenTopic(topic, partitions)


def _read_replica_state(reader: Reader, replica_id: int) -> int:
    """Go over the last tagged fields; a broker says in one of them that it is one."""
    for _ in range(reader.tagged_fields()):
        tag, content = reader.varint(), reader.take(reader.varint())
        if tag == REPLICA_STATE_TAG:
            replica_id = Reader(content).int32()
    return replica_id


def write_response(response: FetchResponse[Records], version: int) -> list[bytes | Records]:
    """The response in order: bytes as they are, and between them the records as they were given."""
    flexible = version >= FLEXIBLE_FROM
    parts: list[bytes | Records] = []
    target = bytearray(_INT32.pack(0))  # throttle time
    if version >= SESSIONS_FROM:
        target += _SESSION.pack(response.error_code, response.session_id)
    write_count(target, len(response.topics), flexible=flexible)
    for topic in response.topics:
        write_topic(target, topic.topic, flexible=flexible)
        write_count(target, len(topic.partitions), flexible=flexible)
        for answer in topic.partitions:
            _write_partition(target, answer, version, response.committed_only)
            if answer.records_bytes:
                parts.append(bytes(target))
                parts.extend(answer.records)
                target = bytearray()
            if flexible:
                target.append(0)
        if flexible:
            target.append(0)
    if flexible:
        target.append(0)
    parts.append(bytes(target))
    return parts


def _write_partition(target: bytearray, answer: PartitionAnswer[Records], version: int, committed_only: bool) -> None:
    flexible = version >= FLEXIBLE_FROM
    target += _ANSWER.pack(answer.number, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    if version >= START_OFFSET_FROM:
        target += _INT64.pack(answer.start_offset)
    write_count(target, len(answer.aborted) if committed_only else -1, flexible=flexible)
    for aborted in answer.aborted:
        target += _ABORTED.pack(*aborted)
        if flexible:
            target.append(0)
    if version >= RACK_FROM:
        target += _INT32.pack(-1)  # no replica to prefer
    write_count(target, answer.records_bytes, flexible=flexible)
