"""AlterShareGroupOffsets: let a share group without members go on at other offsets."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.topics import FAILURES, code_for


async def handle(request: Any, context: Context) -> Fields:
    groups = context.groups.share
    try:
        groups.check_empty(request.group_id)
        responses = [await context.run(_alter, request.group_id, topic, context) for topic in request.topics]
    except HeadwaterError as error:
        return Fields(
            throttle_time=UNTHROTTLED, error_code=group_error_code(error), error_message=str(error), responses=()
        )  # fmt: skip
    return Fields(throttle_time=UNTHROTTLED, error_code=ErrorCode.none, error_message=None, responses=tuple(responses))


def _alter(group_id: str, asked: Any, context: Context) -> Fields:
    queue, partitions, id = context.groups.share.queues.get(group_id), [], None
    for one in asked.partitions:
        code, message = ErrorCode.none, None
        try:
            id = context.log.topic(asked.topic_name).id
            context.log.partition(asked.topic_name, one.partition_index)
            queue.partition(asked.topic_name, one.partition_index, start=max(one.start_offset, 0))
        except FAILURES as error:
            code, message = code_for(error, asked.topic_name), str(error)
        partitions.append(Fields(partition_index=one.partition_index, error_code=code, error_message=message))
    return Fields(topic_name=asked.topic_name, topic_id=id, partitions=tuple(partitions))
