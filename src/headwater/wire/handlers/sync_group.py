"""SyncGroup: the leader brings what it shared out, and every member gets its part. Answered once it is saved."""

from typing import Any

from headwater.errors import HeadwaterError
from headwater.log.groups.member import Claim, Sync, Synced
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    claim = Claim(request.member_id, request.generation_id, getattr(request, "group_instance_id", None))
    sync = Sync(
        claim,
        {share.member_id: share.assignment for share in request.assignments},
        getattr(request, "protocol_type", None),
        getattr(request, "protocol_name", None),
    )
    try:
        return _answer(await context.groups.sync(request.group_id, sync), None)
    except HeadwaterError as error:
        return _answer(None, error)


def _answer(synced: Synced | None, error: HeadwaterError | None) -> Fields:
    return Fields(
        throttle_time=UNTHROTTLED,
        error_code=group_error_code(error),
        protocol_type=synced.protocol_type if synced else None,
        protocol_name=synced.protocol_name if synced else None,
        assignment=synced.assignment if synced else b"",
    )
