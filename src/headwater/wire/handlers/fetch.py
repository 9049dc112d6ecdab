"""Fetch: read record batches, and wait for more where there are too few.

The records are not read here. What is found are slices of files, in the order and size the request asks for:

* the first partition that has anything gives at least one whole batch, however large, so that every consumer advances;
* no other one may go beyond what is left of the request's limit;
* the order is the request's own, or the session's, which moves partitions served last to the end.

Readers of committed records get the same bytes up to the last stable offset, and a list of the transactions among them
that were aborted: what to leave out is left to them, so that the bytes need not be touched here either.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.access.acls import Operation, ResourceType
from headwater.errors import HeadwaterError
from headwater.log.partition import Partition
from headwater.log.snapshot import Slice
from headwater.log.topic import SECRET
from headwater.settings import milliseconds
from headwater.wire.context import Context
from headwater.wire.fetch_sessions import Answered, Plan, Wanted
from headwater.wire.protocol.fetch import (
    CONSUMER,
    TOPIC_IDS_FROM,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionAnswer,
    TopicAnswer,
)
from headwater.wire.topics import FAILURES, code_for, epoch_error, find_partition

RESPONSE_BYTES_MAX = 55 * 1024**2

Response = FetchResponse[Slice]
Answer = PartitionAnswer[Slice]


class Target(NamedTuple):
    """A partition of the request, found or not."""

    topic: str | UUID
    wanted: FetchPartition
    partition: Partition | None
    error: ErrorCode
    committed: bool

    @property
    def ahead(self) -> bool:
        """Is there nothing to read yet at this offset, and nothing wrong with it either?"""
        partition = self.partition
        if partition is None:
            return False
        visible_end = partition.last_stable_offset if self.committed else partition.high_watermark
        return visible_end <= self.wanted.offset <= partition.end_offset

    @property
    def near(self) -> bool:
        """Can it be answered without asking the archive, which may take seconds?"""
        return self.partition is None or self.ahead or self.partition.snapshot().local(self.wanted.offset)


async def handle(request: FetchRequest, context: Context) -> Response:
    if request.replica_id > CONSUMER:
        return _refusal(request, ErrorCode.cluster_authorization_failed)
    plan = context.shared.fetch_sessions.plan(
        request, uses_ids=context.api_version >= TOPIC_IDS_FROM, now_ms=context.log.clock.elapsed_ms()
    )
    if isinstance(plan, ErrorCode):
        return FetchResponse([], plan.value)
    answered = await _read_or_wait(request, plan, context)
    session_id, news = plan.finish(answered)
    return FetchResponse(_by_topic(news), 0, session_id, request.committed_only)


async def _read_or_wait(request: FetchRequest, plan: Plan, context: Context) -> list[Answered]:
    committed = request.committed_only
    answered = await _read(_find(plan.wanted, context, committed=committed), request, context)
    if request.wait_ms_max <= 0 or _enough(answered, request):
        return answered
    wait_ms = min(request.wait_ms_max, milliseconds(context.settings.fetch_wait_max))
    deadline = asyncio.get_running_loop().time() + wait_ms / 1000
    arrivals = context.shared.arrivals
    targets = _find(plan.wanted, context, committed=committed)
    waiter = arrivals.watch({target.partition for target in targets if target.partition is not None})
    try:
        while True:
            # At the end of every partition, so whatever comes now is new.
            fresh = not any(one.answer.records_bytes for one in answered)
            # Looked up each time: a topic may be deleted while a fetch waits for it.
            targets = _find(plan.wanted, context, committed=committed)
            answered = await _read(targets, request, context, fresh=fresh)
            if _enough(answered, request) or arrivals.stopping or not await waiter.wait(deadline):
                return answered
    finally:
        waiter.close()


def _enough(answered: Sequence[Answered], request: FetchRequest) -> bool:
    """Are there bytes enough to answer, or an error that the client should see at once, or nothing to wait for?"""
    if not answered or any(one.answer.error_code for one in answered):
        return True
    return sum(one.answer.records_bytes for one in answered) >= request.bytes_min


def _find(wanted: Iterable[Wanted], context: Context, *, committed: bool) -> list[Target]:
    targets = []
    for topic, fetch_partition in wanted:
        try:
            partition = find_partition(context.log, topic, fetch_partition.number)
            if not _may_fetch(context, partition.topic):
                targets.append(Target(topic, fetch_partition, None, ErrorCode.topic_authorization_failed, committed))
                continue
        except HeadwaterError as error:
            targets.append(Target(topic, fetch_partition, None, code_for(error, topic), committed))
        else:
            error_code = epoch_error(partition, fetch_partition.current_leader_epoch)
            targets.append(Target(topic, fetch_partition, partition, error_code, committed))
    return targets


def _may_fetch(context: Context, name: str) -> bool:
    """Asked here and not before: what is in a session is not in the request. Secret topics are for no client."""
    return name not in SECRET and (
        context.permits is None or context.permits.may(Operation.READ, ResourceType.TOPIC, name)
    )


async def _read(
    targets: list[Target], request: FetchRequest, context: Context, *, fresh: bool = False
) -> list[Answered]:
    """Read on this thread what cannot make it wait: nothing at all, or what is `fresh`, written a moment ago."""
    if fresh or all(target.ahead for target in targets):
        return read_targets(targets, request.bytes_max)
    near = all(target.near for target in targets)
    executor = context.executor if near else context.shared.cold_executor
    return await asyncio.get_running_loop().run_in_executor(executor, read_targets, targets, request.bytes_max)


def read_targets(targets: list[Target], bytes_max: int) -> list[Answered]:
    """One answer for each target, by the rules at the head of this file."""
    left = min(bytes_max, RESPONSE_BYTES_MAX)
    answered: list[Answered] = []
    first = True
    for target in targets:
        answer = _read_target(target, left, first=first)
        left -= answer.records_bytes
        first = first and not answer.records_bytes
        answered.append(Answered(target.topic, answer))
    return answered


def _read_target(target: Target, bytes_left: int, *, first: bool) -> Answer:
    wanted, partition = target.wanted, target.partition
    if partition is None or target.error is not ErrorCode.none:
        return PartitionAnswer(wanted.number, target.error.value)
    if target.ahead or (bytes_left <= 0 and not first):
        return _without_records(wanted.number, partition)
    limit = max(min(wanted.bytes_max, bytes_left), 0)
    try:
        found = partition.read_verified(wanted.offset, bytes_max=limit, committed=target.committed)
    except FAILURES as error:
        return PartitionAnswer(wanted.number, code_for(error, target.topic).value)
    answer: Answer = _without_records(wanted.number, partition)
    if found.length > limit and not first:
        return answer
    answer = answer._replace(start_offset=found.start_offset, records=found.slices, records_bytes=found.length)
    if not target.committed or not found.length:
        return answer
    aborted = partition.aborted_between(wanted.offset, found.end_offset)
    return answer._replace(aborted=[(one.producer_id, one.first_offset) for one in aborted])


def _without_records(number: int, partition: Partition) -> Answer:
    return PartitionAnswer(
        number, 0, partition.high_watermark, partition.start_offset, last_stable_offset=partition.last_stable_offset
    )


def _by_topic(answered: Iterable[Answered]) -> list[TopicAnswer[Slice]]:
    return [
        TopicAnswer(topic, [one.answer for one in group]) for topic, group in groupby(answered, lambda one: one.topic)
    ]


def _refusal(request: FetchRequest, code: ErrorCode) -> Response:
    """Every partition answered with one error: the oldest versions have no field for it but there."""
    return FetchResponse(
        [
            TopicAnswer(topic, [PartitionAnswer(partition.number, code.value) for partition in partitions])
            for topic, partitions in request.topics
        ],
        code.value,
    )
