"""The response of Metadata, in every version we serve. No sockets, no log.

    throttle time         int32                                from version 3 on
    brokers               id int32, host, port int32, rack     rack from 1 on
    cluster id                                                 from 2 on
    controller            int32                                from 1 on
    topics                error int16, name, id, internal, partitions, operations int32
                                                               id from 10 on, internal from 1, operations from 8
    cluster operations    int32                                8 to 10
    error                 int16                                from 13 on

Clients ask for all topics, of which there may be thousands, each time they connect, and schemas of entities take
thirty times as long to write as these few lines. What a topic looks like is kept: it hardly ever changes.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from headwater.wire.protocol.writer import write_count, write_string

VERSIONS = range(14)
FLEXIBLE_FROM = 9
CONTROLLER_FROM = INTERNAL_FROM = RACK_FROM = 1
CLUSTER_ID_FROM = 2
THROTTLE_FROM = 3
OFFLINE_REPLICAS_FROM = 5
LEADER_EPOCH_FROM = 7
OPERATIONS_FROM = 8
CLUSTER_OPERATIONS_UNTIL = 10
TOPIC_IDS_FROM = 10
NULL_NAMES_FROM = 12
ERROR_FROM = 13

TOPICS_KEPT = 16_384
PARTITIONS_KEPT_MAX = 16
"""Of a topic that is kept; larger ones are few."""

NOT_ASKED = -(2**31)
NO_ID = UUID(int=0)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class TopicAnswer(NamedTuple):
    name: str | None
    """None: a client asked by an id that no topic has."""
    id: UUID
    error_code: int = 0
    internal: bool = False
    partitions: int = 0
    operations: int = NOT_ASKED


class MetadataAnswer(NamedTuple):
    node_id: int
    host: str
    port: int
    cluster_id: str
    topics: Sequence[TopicAnswer]
    cluster_operations: int = NOT_ASKED
    written: dict[int, bytes] | None = None
    """By version, of an answer that is given to many."""

    @property
    def elements(self) -> int:
        """What there is to write; a topic that is kept is written as quickly as a partition."""
        return 0 if self.written else sum([1 + topic.partitions for topic in self.topics]) // 10


def write_response(answer: MetadataAnswer, version: int) -> bytes:
    if answer.written is None:
        return _response(answer, version)
    if version not in answer.written:
        answer.written[version] = _response(answer, version)
    return answer.written[version]


def _response(answer: MetadataAnswer, version: int) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    target = bytearray()
    if version >= THROTTLE_FROM:
        target += _INT32.pack(0)
    write_count(target, 1, flexible=flexible)
    target += _INT32.pack(answer.node_id)
    write_string(target, answer.host, flexible=flexible)
    target += _INT32.pack(answer.port)
    if version >= RACK_FROM:
        write_string(target, None, flexible=flexible)
    if flexible:
        target.append(0)
    if version >= CLUSTER_ID_FROM:
        write_string(target, answer.cluster_id, flexible=flexible)
    if version >= CONTROLLER_FROM:
        target += _INT32.pack(answer.node_id)
    write_count(target, len(answer.topics), flexible=flexible)
    for topic in answer.topics:
        write = _kept_topic if topic.partitions <= PARTITIONS_KEPT_MAX and not topic.error_code else _topic
        target += write(topic, answer.node_id, version)
    if OPERATIONS_FROM <= version <= CLUSTER_OPERATIONS_UNTIL:
        target += _INT32.pack(answer.cluster_operations)
    if version >= ERROR_FROM:
        target += _INT16.pack(0)
    if flexible:
        target.append(0)
    return bytes(target)


def _topic(topic: TopicAnswer, node_id: int, version: int) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    target = bytearray(_INT16.pack(topic.error_code))
    # Before version 12 a name cannot be null, although from version 10 on topics are asked for by id: it is empty then.
    name = topic.name if version >= NULL_NAMES_FROM else topic.name or ""
    write_string(target, name, flexible=flexible)
    if version >= TOPIC_IDS_FROM:
        target += topic.id.bytes
    if version >= INTERNAL_FROM:
        target.append(topic.internal)
    write_count(target, topic.partitions, flexible=flexible)
    rest = _partition_rest(node_id, version)
    for number in range(topic.partitions):
        target += b"\x00\x00"
        target += _INT32.pack(number)
        target += rest
    if version >= OPERATIONS_FROM:
        target += _INT32.pack(topic.operations)
    if flexible:
        target.append(0)
    return bytes(target)


_kept_topic = lru_cache(maxsize=TOPICS_KEPT)(_topic)


def _partition_rest(node_id: int, version: int) -> bytes:
    """What follows the number of a partition: all are led by the one node, and have it for their only replica."""
    flexible = version >= FLEXIBLE_FROM
    node = _INT32.pack(node_id)
    target = bytearray(node)
    if version >= LEADER_EPOCH_FROM:
        target += _INT32.pack(0)
    for _ in ("replicas", "in sync"):
        write_count(target, 1, flexible=flexible)
        target += node
    if version >= OFFLINE_REPLICAS_FROM:
        write_count(target, 0, flexible=flexible)
    if flexible:
        target.append(0)
    return bytes(target)
