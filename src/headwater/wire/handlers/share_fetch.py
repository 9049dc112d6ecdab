"""ShareFetch: acknowledge messages, take others, and wait where there are none (KIP-932)."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.access.acls import Operation, ResourceType
from headwater.errors import HeadwaterError
from headwater.log.queues.queue_partition import Taken
from headwater.log.queues.queues import Queue
from headwater.settings import milliseconds
from headwater.wire.context import Context
from headwater.wire.protocol.fields import UNTHROTTLED, Fields
from headwater.wire.protocol.group_error_codes import group_error_code
from headwater.wire.share_delivery import (
    Asked,
    Opened,
    Outcome,
    Wanted,
    acknowledge,
    acquire,
    asked_of,
    opened,
)
from headwater.wire.share_sessions import FINAL, INITIAL, Partition, SessionKey, ShareSession
from headwater.wire.topics import name_of

RESPONSE_BYTES_MAX = 16 * 1024**2
RECORD_LIMIT = 1
"""The acquire mode of clients that want no more messages than they asked for, although a batch has more."""

UNAUTHORIZED = Outcome(ErrorCode.topic_authorization_failed)


async def handle(request: Any, context: Context) -> Fields:
    groups = context.groups.share
    key, asked = SessionKey(request.group_id or "", request.member_id or ""), asked_of(request.topics)
    try:
        session = await open_session(key, request.share_session_epoch, asked, context)
    except HeadwaterError as error:
        return _answer(context, group_error_code(error), str(error))
    if isinstance(session, ErrorCode):
        return _answer(context, session)
    queue = groups.queue(key.group)
    renewal = getattr(request, "is_renew_ack", False)
    refused, permitted = _permitted(asked, context)
    outcomes = refused | await context.run(acknowledge, queue, key.member, permitted, context, renewal=renewal)
    forgotten = [(one.topic_id, number) for one in request.forgotten_topics_data for number in one.partitions]
    taken: Mapping[Partition, Taken | Outcome] = {}
    if request.share_session_epoch == FINAL:
        await end_session(key, context)
    else:
        session.update([one.partition for one in asked], forgotten)
        if not renewal and queue is not None:
            taken = await _take(request, queue, session, context)
            session.rotate([one for one, found in taken.items() if isinstance(found, Taken)])
    said = dict.fromkeys(one.partition for one in asked) if request.share_session_epoch == INITIAL else {}
    lock_ms = groups.settings_of(key.group).share_record_lock_duration_ms
    return _answer(
        context, ErrorCode.none, partitions=[*dict.fromkeys((*outcomes, *taken, *said))],
        outcomes=outcomes, taken=taken, lock_ms=lock_ms,
    )  # fmt: skip


async def open_session(
    key: SessionKey, epoch: int, asked: Sequence[Asked], context: Context
) -> ShareSession | ErrorCode:
    """The session of a request; a new one replaces the one before, whose messages go back."""
    groups = context.groups.share
    if not key.group or not key.member:
        return ErrorCode.invalid_request
    if epoch != INITIAL:
        return groups.sessions.next(key, epoch)
    if any(one.batches for one in asked):
        return ErrorCode.invalid_request
    await end_session(key, context)
    await context.run(groups.queues.ensure, key.group)
    session = groups.sessions.open(key)
    if isinstance(session, ShareSession) and context.on_disconnect is not None:
        context.on_disconnect[key] = lambda: groups.give_back_later([key])
    return session


async def end_session(key: SessionKey, context: Context) -> None:
    if context.on_disconnect is not None:
        context.on_disconnect.pop(key, None)
    give_back = context.groups.share.end_session(key)
    if give_back is not None:
        await context.run(give_back)


def _permitted(asked: Sequence[Asked], context: Context) -> tuple[dict[Partition, Outcome], list[Asked]]:
    allowed = [one for one in asked if may_read(one.partition, context)]
    refused = {one.partition: UNAUTHORIZED for one in asked if one.batches and one not in allowed}
    return refused, allowed


def may_read(partition: Partition, context: Context) -> bool:
    """Asked here and not before: what is in a session is not in the request."""
    name = name_of(context.log, partition[0])
    return name is None or context.permits is None or context.permits.may(Operation.READ, ResourceType.TOPIC, name)


async def _take(
    request: Any, queue: Queue, session: ShareSession, context: Context
) -> Mapping[Partition, Taken | Outcome]:
    """Messages as soon as there are any; errors of partitions at once."""
    readable = [one for one in session.partitions if may_read(one, context)]
    refused = [Opened(one, None, UNAUTHORIZED) for one in session.partitions if one not in readable]
    found = [*await context.run(opened, queue, request.member_id, readable, context), *refused]
    wanted = Wanted(
        max(request.max_records, 1), min(request.max_bytes, RESPONSE_BYTES_MAX),
        getattr(request, "share_acquire_mode", 0) != RECORD_LIMIT,
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    wait_ms = min(milliseconds(request.max_wait), milliseconds(context.settings.fetch_wait_max))
    deadline = loop.time() + max(wait_ms, 0) / 1000
    arrivals = context.shared.arrivals
    waiter = arrivals.watch({one.queue for one in found if one.queue is not None})
    try:
        while True:
            taken = await context.run(acquire, found, request.member_id, wanted)
            if taken or arrivals.stopping or loop.time() >= deadline:
                return taken
            await waiter.wait(min([deadline, *_wakes(found, context, loop.time())]))
    finally:
        waiter.close()


def _wakes(found: Sequence[Opened], context: Context, now: float) -> list[float]:
    """When locks and delays end, in the time of the loop."""
    elapsed_ms = context.log.clock.elapsed_ms()
    wakes = [one.queue.wake_ms for one in found if one.queue is not None]
    return [now + max(wake_ms - elapsed_ms, 1) / 1000 for wake_ms in wakes if wake_ms is not None]


def _answer(
    context: Context,
    code: ErrorCode,
    message: str | None = None,
    *,
    partitions: Sequence[Partition] = (),
    outcomes: Mapping[Partition, Outcome] | None = None,
    taken: Mapping[Partition, Taken | Outcome] | None = None,
    lock_ms: int = 0,
) -> Fields:
    rows = [(one, _partition(one[1], (outcomes or {}).get(one), (taken or {}).get(one))) for one in partitions]
    return Fields(
        throttle_time=UNTHROTTLED,
        error_code=code,
        error_message=message,
        acquisition_lock_timeout=timedelta(milliseconds=lock_ms),
        responses=by_topic(rows),
        node_endpoints=(),
    )


def by_topic(rows: Sequence[tuple[Partition, Fields]]) -> tuple[Fields, ...]:
    in_order = sorted(rows, key=lambda row: row[0][0])
    return tuple(
        Fields(topic_id=topic, partitions=tuple(fields for _, fields in group))
        for topic, group in groupby(in_order, lambda row: row[0][0])
    )


def _partition(number: int, outcome: Outcome | None, found: Taken | Outcome | None) -> Fields:
    failure = found if isinstance(found, Outcome) else Outcome()
    taken = found if isinstance(found, Taken) else Taken((), ())
    acknowledged = outcome or Outcome()
    return Fields(
        partition_index=number,
        error_code=failure.code,
        error_message=failure.message,
        acknowledge_error_code=acknowledged.code.value,
        acknowledge_error_message=acknowledged.message,
        current_leader=NO_LEADER,
        records=b"".join(batch.data for batch in taken.batches),
        acquired_records=tuple(
            Fields(first_offset=row.first, last_offset=row.last, delivery_count=row.deliveries) for row in taken.rows
        ),
    )


NO_LEADER = Fields(leader_id=-1, leader_epoch=-1)
"""It has not changed."""
