"""ShareAcknowledge: say what became of messages that a share consumer took (KIP-932)."""

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.wire.context import Context
from headwater.wire.handlers.share_fetch import NO_LEADER, UNAUTHORIZED, by_topic, end_session, may_read
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.share_delivery import acknowledge, asked_of
from headwater.wire.share_sessions import FINAL, INITIAL, SessionKey


async def handle(request: Any, context: Context) -> Fields:
    groups, epoch = context.groups.share, request.share_session_epoch
    key, asked = SessionKey(request.group_id or "", request.member_id or ""), asked_of(request.topics)
    if epoch == INITIAL:  # only a fetch begins a session
        return _answer(ErrorCode.invalid_share_session_epoch)
    session = groups.sessions.next(key, epoch)
    if isinstance(session, ErrorCode):
        return _answer(session)
    allowed = [one for one in asked if may_read(one.partition, context)]
    outcomes = {one.partition: UNAUTHORIZED for one in asked if one not in allowed}
    queue, renewal = groups.queue(key.group), getattr(request, "is_renew_ack", False)
    outcomes |= await context.run(acknowledge, queue, key.member, allowed, context, renewal=renewal)
    if epoch == FINAL:
        await end_session(key, context)
    rows = [
        (
            partition,
            Fields(
                partition_index=partition[1], error_code=outcome.code, error_message=outcome.message,
                current_leader=NO_LEADER,
            ),
        )
        for partition, outcome in outcomes.items()
    ]  # fmt: skip
    lock_ms = groups.settings_of(key.group).share_record_lock_duration_ms
    return _answer(ErrorCode.none, by_topic(rows), lock_ms)


def _answer(code: ErrorCode, responses: tuple[Fields, ...] = (), lock_ms: int = 0) -> Fields:
    return Fields(
        throttle_time=UNTHROTTLED, error_code=code, error_message=None,
        acquisition_lock_timeout=timedelta(milliseconds=lock_ms), responses=responses, node_endpoints=(),
    )  # fmt: skip
