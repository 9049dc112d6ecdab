"""JoinGroup: become a member, or a member of the next generation. Answered when the group is complete."""

from typing import Any
from uuid import uuid4

from headwater.errors import HeadwaterError, MemberIdRequired
from headwater.log.groups.member import Join, Joined, Protocol
from headwater.settings import milliseconds
from headwater.wire.context import Context
from headwater.wire.handlers.consumer_group_heartbeat import catalog_of
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code

ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9
CLIENT_ID_IN_MEMBER_ID_MAX = 255


async def handle(request: Any, context: Context) -> Fields:
    try:
        joined = await context.groups.join(request.group_id, _join(request, context), catalog_of(context))
    except HeadwaterError as error:
        return _refused(error, request, context)
    return _accepted(joined)


def _join(request: Any, context: Context) -> Join:
    instance_id: str | None = getattr(request, "group_instance_id", None)
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout_ms = session_timeout_ms
    if hasattr(request, "rebalance_timeout"):
        rebalance_timeout_ms = milliseconds(request.rebalance_timeout)
    name = (instance_id or context.client_id or "consumer")[:CLIENT_ID_IN_MEMBER_ID_MAX]
    return Join(
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms > 0 else session_timeout_ms,
        fresh_id=f"{name}-{uuid4()}",
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        id_required=context.api_version >= ID_REQUIRED_SINCE,
        can_skip_assignment=context.api_version >= SKIP_ASSIGNMENT_SINCE,
    )


def _accepted(joined: Joined) -> Fields:
    return Fields(
        throttle_time=UNTHROTTLED,
        error_code=group_error_code(None),
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        leader=joined.leader_id,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            Fields(member_id=member.id, group_instance_id=member.instance_id, metadata=member.metadata)
            for member in joined.members
        ),
    )


def _refused(error: HeadwaterError, request: Any, context: Context) -> Fields:
    return Fields(
        throttle_time=UNTHROTTLED,
        error_code=group_error_code(error),
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if context.api_version >= NULL_PROTOCOL_SINCE else "",
        leader="",
        skip_assignment=False,
        member_id=error.member_id if isinstance(error, MemberIdRequired) else request.member_id,
        members=(),
    )
