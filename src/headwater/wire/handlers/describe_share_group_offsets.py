"""DescribeShareGroupOffsets: where share groups are in their topics, and how much is ahead of them."""

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import UnknownGroup
from headwater.log.queues.queues import Queue
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.topics import FAILURES, code_for

NOT_BEGUN = -1


async def handle(request: Any, context: Context) -> Fields:
    groups = [await context.run(_described, group, context) for group in request.groups]
    return Fields(throttle_time=UNTHROTTLED, groups=tuple(groups))


def _described(asked: Any, context: Context) -> Fields:
    queue = context.groups.share.queue(asked.group_id)
    if queue is None or not context.groups.share.exists(asked.group_id):
        error = UnknownGroup(asked.group_id)
        return Fields(
            group_id=asked.group_id, topics=(), error_code=group_error_code(error), error_message=str(error)
        )  # fmt: skip
    if asked.topics is None:
        begun = {name: [one.number for one in queue.partitions() if one.topic == name] for name in queue.topics()}
        topics = [_topic(queue, name, numbers, context) for name, numbers in begun.items()]
    else:
        topics = [_topic(queue, one.topic_name, one.partitions, context) for one in asked.topics]
    return Fields(group_id=asked.group_id, topics=tuple(topics), error_code=ErrorCode.none, error_message=None)


def _topic(queue: Queue, name: str, numbers: Iterable[int], context: Context) -> Fields:
    try:
        id = context.log.topic(name).id
    except FAILURES as error:
        code = code_for(error, name)
        return Fields(
            topic_name=name, topic_id=None,
            partitions=tuple(_partition(number, code=code, message=str(error)) for number in numbers),
        )  # fmt: skip
    return Fields(
        topic_name=name, topic_id=id, partitions=tuple(_begun(queue, name, number) for number in numbers)
    )  # fmt: skip


def _begun(queue: Queue, name: str, number: int) -> Fields:
    try:
        found = queue.find(name, number)
        if found is None:
            return _partition(number)
        described = found.describe()
    except FAILURES as error:
        return _partition(number, code=code_for(error, name), message=str(error))
    return _partition(number, described.start, described.depth)


def _partition(
    number: int,
    start: int = NOT_BEGUN,
    lag: int = NOT_BEGUN,
    *,
    code: ErrorCode = ErrorCode.none,
    message: str | None = None,
) -> Fields:
    return Fields(
        partition_index=number, start_offset=start, leader_epoch=0, lag=lag, error_code=code, error_message=message
    )
