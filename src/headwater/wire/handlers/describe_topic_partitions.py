"""DescribeTopicPartitions: partitions of topics in the order of their names, a page at a time."""

from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.acls import Operation, ResourceType
from headwater.errors import HeadwaterError, ProtocolError
from headwater.log.readable_partition import LEADER_EPOCH
from headwater.log.topic import Topic
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.values import TOPIC_OPERATIONS
from headwater.wire.topics import RESERVED_TOPICS, code_for

PARTITIONS_MAX = 2000
OPERATIONS_UNKNOWN = -(2**31)


async def handle(request: Any, context: Context) -> Fields:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise ProtocolError(f"a cursor cannot stand at partition {cursor.partition_index}")
    names = sorted({topic.name for topic in request.topics}) or _visible(context)
    first = "" if cursor is None else cursor.topic_name
    room = max(min(request.response_partition_limit, PARTITIONS_MAX), 1)
    topics: list[Fields] = []
    for name in (one for one in names if one >= first):
        start = cursor.partition_index if cursor is not None and name == first else 0
        if room == 0:
            return _page(topics, Fields(topic_name=name, partition_index=start))
        topic = _found(name, context)
        if isinstance(topic, Fields):
            topics.append(topic)
            continue
        numbers = range(start, min(start + room, topic.partitions))
        topics.append(_topic(topic, numbers, context))
        room -= len(numbers)
        if numbers.stop < topic.partitions:
            return _page(topics, Fields(topic_name=name, partition_index=numbers.stop))
    return _page(topics, None)


def _page(topics: list[Fields], next_cursor: Fields | None) -> Fields:
    return Fields(throttle_time=UNTHROTTLED, topics=tuple(topics), next_cursor=next_cursor)


def _visible(context: Context) -> list[str]:
    permits = context.permits
    names = sorted(topic.name for topic in context.log.topics())
    if permits is None:
        return names
    return [name for name in names if permits.sees(Operation.DESCRIBE, ResourceType.TOPIC, name)]


def _found(name: str, context: Context) -> Topic | Fields:
    """The topic, or the answer that says why there is none."""
    try:
        return context.log.topic(name)
    except HeadwaterError as error:
        return Fields(
            error_code=code_for(error, name), name=name, topic_id=None, is_internal=name in RESERVED_TOPICS,
            partitions=(), topic_authorized_operations=OPERATIONS_UNKNOWN,
        )  # fmt: skip


def _topic(topic: Topic, numbers: range, context: Context) -> Fields:
    permits = context.permits
    operations = TOPIC_OPERATIONS if permits is None else permits.operations(ResourceType.TOPIC, topic.name)
    return Fields(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in RESERVED_TOPICS,
        partitions=tuple(_partitions(numbers, context.node.id)),
        topic_authorized_operations=operations,
    )


def _partitions(numbers: range, node: int) -> Iterator[Fields]:
    for number in numbers:
        yield Fields(
            error_code=ErrorCode.none, partition_index=number, leader_id=node, leader_epoch=LEADER_EPOCH,
            replica_nodes=(node,), isr_nodes=(node,), eligible_leader_replicas=(), last_known_elr=(),
            offline_replicas=(),
        )  # fmt: skip
