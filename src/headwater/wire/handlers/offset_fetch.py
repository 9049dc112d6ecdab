"""OffsetFetch: how far groups have read, by partition or altogether.

Offsets that an open transaction is about to commit are kept out of the answer: a client that asks with `require_stable`
is asked to try again.
"""

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, UnavailableError, UnknownTopic
from headwater.log.groups.offsets import CommittedOffset
from headwater.record import TopicPartition
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.turns import in_turns

SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10

NOTHING_COMMITTED = CommittedOffset(-1)


async def handle(request: Any, context: Context) -> Fields:
    if context.api_version >= SEVERAL_GROUPS_SINCE:
        groups = [_as_asked(await _group(group, context), request, context) async for group in in_turns(request.groups)]
        return Fields(throttle_time=UNTHROTTLED, groups=tuple(groups))
    group = _as_asked(await _group(request, context), request, context)
    return Fields(throttle_time=UNTHROTTLED, error_code=group.error_code, topics=group.topics)


def _as_asked(group: Fields, request: Any, context: Context) -> Fields:
    """With offsets that may change in a moment taken out, if the client wants stable ones."""
    wanted = getattr(request, "require_stable", False) and group.error_code is ErrorCode.none
    unstable = context.groups.unstable(group.group_id) if wanted else ()
    for topic in group.topics if unstable else ():
        for one in topic.partitions:
            if TopicPartition(topic.name, one.partition_index) in unstable:
                one.error_code, one.committed_offset, one.metadata = ErrorCode.unstable_offset_commit, -1, ""
    return group


async def _group(asked: Any, context: Context) -> Fields:
    group_id, topics = asked.group_id, asked.topics
    try:
        offsets = context.groups.fetch(
            group_id, getattr(asked, "member_id", None), getattr(asked, "member_epoch", -1)
        )  # fmt: skip
    except HeadwaterError as error:
        return Fields(group_id=group_id, error_code=group_error_code(error), topics=())
    if topics is None:
        answers = _all_topics(offsets, context)
    else:
        answers = [_asked_topic(topic, offsets, context) async for topic in in_turns(topics)]
    return Fields(group_id=group_id, error_code=ErrorCode.none, topics=tuple(answers))


def _all_topics(offsets: Mapping[TopicPartition, CommittedOffset], context: Context) -> list[Fields]:
    numbers: dict[str, list[int]] = {}
    for topic, partition in sorted(offsets):
        numbers.setdefault(topic, []).append(partition)
    answers = []
    for name, partitions in numbers.items():
        try:
            topic_id = context.log.topic(name).id
        except (UnknownTopic, UnavailableError):
            continue  # deleted a moment ago, or offline
        answers.append(_topic(name, topic_id, [_partition(name, number, offsets) for number in partitions]))
    return answers


def _asked_topic(topic: Any, offsets: Mapping[TopicPartition, CommittedOffset], context: Context) -> Fields:
    if context.api_version < TOPIC_IDS_SINCE:
        return _topic(topic.name, None, [_partition(topic.name, number, offsets) for number in topic.partition_indexes])
    try:
        name = context.log.topic_by_id(topic.topic_id).name
    except UnknownTopic:
        partitions = [_nowhere(number) for number in topic.partition_indexes]
        return _topic("", topic.topic_id, partitions)
    return _topic(name, topic.topic_id, [_partition(name, number, offsets) for number in topic.partition_indexes])


def _topic(name: str, topic_id: Any, partitions: list[Fields]) -> Fields:
    return Fields(name=name, topic_id=topic_id, partitions=tuple(partitions))


def _partition(topic: str, number: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> Fields:
    committed = offsets.get(TopicPartition(topic, number), NOTHING_COMMITTED)
    return Fields(
        partition_index=number,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.none,
    )


def _nowhere(number: int) -> Fields:
    return Fields(
        partition_index=number,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=ErrorCode.unknown_topic_id,
    )
