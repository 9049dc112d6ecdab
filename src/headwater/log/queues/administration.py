"""What those who look after queues do with them: look at what waits, set aside, put back, run again."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import InvalidSetting, UsageError
from headwater.log.queues.dead_letters import OFFSET, PARTITION, QUEUE, TOPIC, restored
from headwater.log.queues.queue_partition import Description
from headwater.log.queues.queues import Queue
from headwater.log.reader import read_some
from headwater.record import Record, TopicPartition

if TYPE_CHECKING:
    from headwater.log.log import Log

BATCH = 500


class Waiting(NamedTuple):
    where: TopicPartition
    record: Record
    deliveries: int


def oldest_ms(log: "Log", description: Description) -> int | None:
    """The timestamp of the oldest message that waits; None if none does."""
    if not description.waiting or description.next_offset >= description.end:
        return None
    partition = log.partition(description.topic, description.partition)
    bytes_max = log.settings.decompressed_bytes_max
    found, _ = read_some(partition, max(description.next_offset, partition.start_offset), bytes_max, records_max=1)
    return found[0].timestamp_ms if found else None


def peek(log: "Log", queue: Queue, limit: int) -> list[Waiting]:
    """The messages that are delivered next, which stay where they are."""
    found: list[Waiting] = []
    for partition in queue.partitions():
        where = TopicPartition(partition.topic, partition.number)
        for record, deliveries in partition.waiting(limit - len(found)):
            found.append(Waiting(where, record, deliveries))
    return found


def purge(queue: Queue) -> int:
    """Be done with all messages that wait; returns how many. Those that consumers have stay theirs."""
    return sum(partition.purge() for partition in queue.partitions())


def replay(log: "Log", queue: Queue, name: str, time_ms: int | None) -> Queue:
    """A new queue with the same settings on the same topics, from a time on or from the beginning."""
    if name == queue.name or name in log.queues.names():
        raise InvalidSetting("the name of the new queue", name, "there is a queue of this name already")
    starts = {
        (one.topic, one.number): partition.start_offset if time_ms is None else queue.start_of(partition, "", time_ms)
        for one in queue.partitions()
        for partition in [log.partition(one.topic, one.number)]
    }
    fresh = log.queues.ensure(name, queue.configs)
    for (topic, number), start in starts.items():
        fresh.partition(topic, number, start=start)
    return fresh


def retry(log: "Log", queue: Queue, limit: int) -> int:
    """Append messages that were put aside to their topics again; returns how many.

    How far that has come is an offset of a group of the name of the queue and ".retry", committed in the transaction
    that appends them: each is appended once, whatever dies.
    """
    topic = queue.settings.dead_letter_topic
    if not topic:
        raise UsageError(f'queue "{queue.name}" has no dead-letter topic, so nothing was put aside')
    count = 0
    for number in range(log.topic(topic).partitions):
        count += _retry(log, queue, TopicPartition(topic, number), limit - count)
    return count


def _retry(log: "Log", queue: Queue, letters: TopicPartition, limit: int) -> int:
    group, count = f"{queue.name}.retry", 0
    committed = log.group_offsets.fetch(group).get(letters)
    partition = log.partition(*letters)
    offset = max(committed.offset if committed else 0, partition.start_offset)
    while count < limit:
        records_max = min(limit - count, BATCH)
        bytes_max = log.settings.decompressed_bytes_max
        found, following = read_some(partition, offset, bytes_max, records_max=records_max)
        if following == offset:
            break
        mine = [one for one in found if dict(one.headers).get(QUEUE) == queue.name.encode()]
        with log.transaction(group) as transaction:
            for where, letter in _origins(mine):
                transaction.append(where.topic, restored([letter]), partition=where.partition)
            transaction.commit_offsets(group, {letters: following})
        count, offset = count + len(mine), following
    return count


def _origins(letters: list[Record]) -> Iterator[tuple[TopicPartition, Record]]:
    for letter in letters:
        said = dict(letter.headers)
        if said.get(OFFSET) is not None:
            yield TopicPartition((said[TOPIC] or b"").decode(), int(said[PARTITION] or 0)), letter


def move(log: "Log", queue: Queue, topic: str, limit: int) -> int:
    """Append messages that wait to another topic, and acknowledge them; returns how many. A crash between the two
    appends some a second time."""
    count = 0
    log.topic(topic)
    with log.queue(queue.name) as consumer:
        while count < limit and (found := consumer.take(min(limit - count, BATCH))):
            log.append(topic, [one.record for one in found])
            consumer.ack(found)
            count += len(found)
    return count
