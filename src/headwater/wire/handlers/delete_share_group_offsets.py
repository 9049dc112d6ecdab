"""DeleteShareGroupOffsets: let a share group without members forget topics."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.topics import FAILURES, code_for


async def handle(request: Any, context: Context) -> Fields:
    try:
        context.groups.share.check_empty(request.group_id)
        responses = [
            await context.run(_delete, request.group_id, topic.topic_name, context) for topic in request.topics
        ]
    except HeadwaterError as error:
        return Fields(
            throttle_time=UNTHROTTLED, error_code=group_error_code(error), error_message=str(error), responses=()
        )  # fmt: skip
    return Fields(throttle_time=UNTHROTTLED, error_code=ErrorCode.none, error_message=None, responses=tuple(responses))


def _delete(group_id: str, name: str, context: Context) -> Fields:
    code, message, id = ErrorCode.none, None, None
    try:
        id = context.log.topic(name).id
        context.groups.share.queues.get(group_id).forget(name)
    except FAILURES as error:
        code, message = code_for(error, name), str(error)
    return Fields(topic_name=name, topic_id=id, error_code=code, error_message=message)
