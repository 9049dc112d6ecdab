"""LeaveGroup: members go at once instead of being missed a session timeout later."""

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, UnavailableError
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code

SEVERAL_MEMBERS_SINCE = 3


async def handle(request: Any, context: Context) -> Fields:
    if context.api_version < SEVERAL_MEMBERS_SINCE:
        failure = _leave(request.group_id, request.member_id, None, context)
        return Fields(throttle_time=UNTHROTTLED, error_code=group_error_code(failure), members=())
    failures = [_leave(request.group_id, one.member_id, one.group_instance_id, context) for one in request.members]
    unavailable = next((failure for failure in failures if isinstance(failure, UnavailableError)), None)
    members = tuple(
        Fields(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=group_error_code(failure))
        for one, failure in zip(request.members, failures, strict=True)
    )
    error_code = group_error_code(unavailable) if unavailable else ErrorCode.none
    return Fields(throttle_time=UNTHROTTLED, error_code=error_code, members=members)


def _leave(group_id: str, member_id: str, instance_id: str | None, context: Context) -> HeadwaterError | None:
    try:
        context.groups.leave(group_id, member_id, instance_id)
    except HeadwaterError as error:
        return error
    return None
