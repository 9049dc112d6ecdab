"""Heartbeat: keeps a member's session alive, and reports whether its group is rebalancing."""

from typing import Any

from headwater.errors import HeadwaterError
from headwater.log.groups.member import Claim
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    claim = Claim(request.member_id, request.generation_id, getattr(request, "group_instance_id", None))
    failure: HeadwaterError | None = None
    try:
        context.groups.heartbeat(request.group_id, claim)
    except HeadwaterError as error:
        failure = error
    return Fields(throttle_time=UNTHROTTLED, error_code=group_error_code(failure))
