"""OffsetCommit: remember how far a group has read. Answered when that is durable, and so is all it has read."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, UnknownTopic
from headwater.log.groups.member import Claim
from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from headwater.wire.context import Context
from headwater.wire.group_writer import Refused
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    names = [_topic_name(topic, context) for topic in request.topics]
    offsets = {
        TopicPartition(name, partition.partition_index): _committed(partition)
        for name, topic in zip(names, request.topics, strict=True)
        if name is not None
        for partition in topic.partitions
    }
    claim = Claim(request.member_id, request.generation_id_or_member_epoch, getattr(request, "group_instance_id", None))
    refused: Refused = {}
    try:
        refused = await context.groups.commit(request.group_id, claim, offsets, api_version=context.api_version)
    except HeadwaterError as error:
        refused = dict.fromkeys(offsets, error)
    topics = tuple(_topic_answer(name, topic, refused) for name, topic in zip(names, request.topics, strict=True))
    return Fields(throttle_time=UNTHROTTLED, topics=topics)


def _topic_name(topic: Any, context: Context) -> str | None:
    """The name of a topic, which newer clients give by its id; None if no topic has it."""
    if not hasattr(topic, "topic_id"):
        name: str = topic.name
        return name
    try:
        return context.log.topic_by_id(topic.topic_id).name
    except UnknownTopic:
        return None


def _committed(partition: Any) -> CommittedOffset:
    leader_epoch: int = getattr(partition, "committed_leader_epoch", -1)
    return CommittedOffset(partition.committed_offset, leader_epoch, partition.committed_metadata or "")


def _topic_answer(name: str | None, topic: Any, refused: Refused) -> Fields:
    partitions = []
    for partition in topic.partitions:
        code = ErrorCode.unknown_topic_id
        if name is not None:
            code = group_error_code(refused.get(TopicPartition(name, partition.partition_index)))
        partitions.append(Fields(partition_index=partition.partition_index, error_code=code))
    return Fields(name=name or "", topic_id=getattr(topic, "topic_id", None), partitions=tuple(partitions))
