"""What ShareFetch and ShareAcknowledge do with the partitions of a queue. Blocks: not for the event loop."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.errors import HeadwaterError, UnknownTopic, UsageError
from headwater.log.queues.delivery import Acknowledgement, Demand
from headwater.log.queues.queue_partition import NOTHING, QueuePartition, Taken
from headwater.log.queues.queues import Queue
from headwater.log.queues.states import Event
from headwater.log.topic import SECRET
from headwater.wire.context import Context
from headwater.wire.protocol.error_codes import error_code
from headwater.wire.share_sessions import Partition
from headwater.wire.topics import FAILURES, code_for, name_of

EVENTS = {0: Event.DROP, 1: Event.ACCEPT, 2: Event.RELEASE, 3: Event.REJECT, 4: Event.RENEW}
"""By Kafka's numbers of acknowledgement types; 0 says that there is no record at this offset."""


class Asked(NamedTuple):
    """Acknowledgements for one partition, as they were sent."""

    partition: Partition
    batches: Sequence[Any]


class Outcome(NamedTuple):
    code: ErrorCode = ErrorCode.none
    message: str | None = None


def asked_of(topics: Iterable[Any]) -> list[Asked]:
    return [
        Asked((topic.topic_id or UUID(int=0), one.partition_index), one.acknowledgement_batches)
        for topic in topics
        for one in topic.partitions
    ]


def acknowledgements(batches: Iterable[Any], *, renewal: bool) -> list[Acknowledgement]:
    """UsageError if they make no sense."""
    said: list[Acknowledgement] = []
    end = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not end < first <= last:
            raise UsageError("batches of acknowledgements are not in order")
        if len(types) not in (1, last - first + 1) or not set(types) <= EVENTS.keys():
            raise UsageError(f"acknowledgements of offsets {first} to {last} are not one for all, or one for each")
        if 4 in types and not renewal:
            raise UsageError("a request that renews locks has to say so")
        if len(types) == 1:
            said.append(Acknowledgement(first, last, EVENTS[types[0]]))
        else:
            for kind, group in groupby(enumerate(types, first), itemgetter(1)):
                offsets = [offset for offset, _ in group]
                said.append(Acknowledgement(offsets[0], offsets[-1], EVENTS[kind]))
        end = last
    return said


def acknowledge(
    queue: Queue | None, member: str, asked: Sequence[Asked], context: Context, *, renewal: bool
) -> dict[Partition, Outcome]:
    """What became of the acknowledgements of each partition; all that are good are durable."""
    return {one.partition: _acknowledge(queue, member, one, context, renewal=renewal) for one in asked if one.batches}


def _acknowledge(
    queue: Queue | None, member: str, asked: Asked, context: Context, *, renewal: bool
) -> Outcome:  # fmt: skip
    try:
        name, number = named(asked.partition, context), asked.partition[1]
        found = None if queue is None else queue.find(name, number)
        if found is None:
            return Outcome(ErrorCode.unknown_topic_or_partition)
        found.acknowledge(member, acknowledgements(asked.batches, renewal=renewal))
    except FAILURES as error:
        return Outcome(code_for(error, asked.partition[0]), str(error))
    return Outcome()


def named(partition: Partition, context: Context) -> str:
    """UnknownTopic if there is no topic of this id, or it is for no client."""
    name = name_of(context.log, partition[0])
    if name is None or name in SECRET:
        raise UnknownTopic(str(partition[0]))
    return name


class Opened(NamedTuple):
    """A partition of a session, found or not."""

    partition: Partition
    queue: QueuePartition | None
    outcome: Outcome = Outcome()


def opened(queue: Queue, member: str, partitions: Iterable[Partition], context: Context) -> list[Opened]:
    """The partitions that a member fetches from; those that the queue begins to work on are made."""
    found = []
    for partition in partitions:
        try:
            one = queue.partition(named(partition, context), partition[1])
            one.join(member)
            found.append(Opened(partition, one))
        except FAILURES as error:
            found.append(Opened(partition, None, Outcome(code_for(error, partition[0]), str(error))))
    return found


class Wanted(NamedTuple):
    records_max: int
    bytes_max: int
    whole_batches: bool


def acquire(found: Sequence[Opened], member: str, wanted: Wanted) -> dict[Partition, Taken | Outcome]:
    """Messages of the partitions in their order, until there are enough."""
    answered: dict[Partition, Taken | Outcome] = {}
    count, bytes_left = wanted.records_max, wanted.bytes_max
    for partition, queue, outcome in found:
        if queue is None:
            answered[partition] = outcome
            continue
        if count <= 0 or bytes_left <= 0:
            break
        try:
            demand = Demand(member, count, whole_spans=wanted.whole_batches)
            taken = queue.acquire(demand, bytes_max=bytes_left)
        except HeadwaterError as error:
            answered[partition] = Outcome(error_code(error), str(error))
            continue
        count -= sum(row.size for row in taken.rows)
        bytes_left -= sum(len(batch.data) for batch in taken.batches)
        if taken != NOTHING and taken.rows:
            answered[partition] = taken
    return answered
