"""OffsetDelete: forget offsets of topics that a group no longer reads."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.record import TopicPartition
from headwater.wire.context import Context
from headwater.wire.group_writer import Refused
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    unknown = _unknown(asked, context)
    try:
        known = [where for where in asked if where not in unknown]
        refused = unknown | await context.groups.delete_offsets(request.group_id, known)
    except HeadwaterError as error:
        return Fields(error_code=group_error_code(error), throttle_time=UNTHROTTLED, topics=())
    topics = tuple(_topic(topic, refused) for topic in request.topics)
    return Fields(error_code=ErrorCode.none, throttle_time=UNTHROTTLED, topics=topics)


def _unknown(asked: list[TopicPartition], context: Context) -> Refused:
    unknown: Refused = {}
    for where in asked:
        try:
            context.log.partition(*where)
        except HeadwaterError as error:
            unknown[where] = error
    return unknown


def _topic(topic: Any, refused: Refused) -> Fields:
    partitions = tuple(
        Fields(
            partition_index=partition.partition_index,
            error_code=group_error_code(refused.get(TopicPartition(topic.name, partition.partition_index))),
        )
        for partition in topic.partitions
    )
    return Fields(name=topic.name, partitions=partitions)
