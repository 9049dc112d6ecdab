"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932)."""

from datetime import timedelta
from typing import Any

from headwater.errors import HeadwaterError, UnknownGroup
from headwater.log.groups.share.membership import JOINING, ShareHeartbeat
from headwater.wire.context import Context
from headwater.wire.handlers.consumer_group_heartbeat import assignment_of, catalog_of
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code


async def handle(request: Any, context: Context) -> Fields:
    names = request.subscribed_topic_names
    said = ShareHeartbeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        topics=None if names is None else frozenset(names),
        rack_id=request.rack_id,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
    )
    groups = context.groups.share
    try:
        if said.epoch == JOINING and context.groups.describe(request.group_id) is not None:
            raise UnknownGroup(request.group_id)  # it is a group of another kind
        answer = groups.heartbeat(request.group_id, said, catalog_of(context))
        interval_ms = groups.settings_of(request.group_id).share_heartbeat_interval_ms if answer.epoch >= 0 else 0
    except HeadwaterError as error:
        return Fields(
            throttle_time=UNTHROTTLED, error_code=group_error_code(error), error_message=str(error), member_id=None,
            member_epoch=0, heartbeat_interval=UNTHROTTLED, assignment=None,
        )  # fmt: skip
    return Fields(
        throttle_time=UNTHROTTLED, error_code=group_error_code(None), error_message=None, member_id=said.member_id,
        member_epoch=answer.epoch, heartbeat_interval=timedelta(milliseconds=interval_ms),
        assignment=None if answer.assignment is None else assignment_of(answer.assignment),
    )  # fmt: skip
