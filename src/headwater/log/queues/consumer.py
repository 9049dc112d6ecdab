"""A consumer of a queue in the process that owns the log: `with log.queue("mail") as queue: ...`."""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from headwater.errors import LogClosed
from headwater.log.queues.delivery import Acknowledgement, Demand
from headwater.log.queues.queue_partition import QueuePartition, Taken
from headwater.log.queues.queues import Queue
from headwater.log.queues.ranges import Range
from headwater.log.queues.states import Event
from headwater.record import Header, Record
from headwater.settings import milliseconds

if TYPE_CHECKING:
    from headwater.log.log import Log


@dataclass(frozen=True, slots=True)
class Message:
    """A record that is this consumer's until its lock ends. `deliveries` counts this attempt too."""

    record: Record
    deliveries: int
    _consumer: "QueueConsumer"
    _from: QueuePartition

    @property
    def value(self) -> bytes | None:
        return self.record.value

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def headers(self) -> Sequence[Header]:
        return self.record.headers

    @property
    def topic(self) -> str:
        return self._from.topic

    @property
    def partition(self) -> int:
        return self._from.number

    @property
    def offset(self) -> int:
        return self.record.offset

    def ack(self) -> None:
        """It is done, and never delivered again; durable when this returns. NotAcquired if its lock has ended: then it
        may be delivered a second time."""
        self._decide(Event.ACCEPT)

    def release(self, *, delay: timedelta | None = None, error: str = "") -> None:
        """Deliver it again, after a delay; without one, after the back-off of the queue. `error` says why."""
        self._decide(Event.RELEASE, None if delay is None else milliseconds(delay), error)

    def reject(self, error: str = "") -> None:
        """It can never be processed: put it aside at once."""
        self._decide(Event.REJECT, error=error)

    def renew(self) -> None:
        """Its processing takes longer: the lock begins again."""
        self._decide(Event.RENEW)

    def _decide(self, event: Event, delay_ms: int | None = None, error: str = "") -> None:
        self._consumer.decide([self], event, delay_ms=delay_ms, error=error)


class QueueConsumer:
    """For one thread at a time; any number of consumers share a queue. What one holds when it is closed is given to
    others at once, with the error that ended its block."""

    def __init__(self, log: "Log", queue: Queue, topics: Sequence[str]) -> None:
        self.queue = queue
        self._log, self._id = log, uuid4().hex
        self._partitions = [
            queue.partition(topic, number) for topic in topics for number in range(log.topic(topic).partitions)
        ]
        self._turn = 0
        self._changed = threading.Event()
        self._leaving = [one.subscribe(self._changed.set) for one in self._partitions]
        for one in self._partitions:
            one.join(self._id)
        self._held: dict[tuple[QueuePartition, int], Message] = {}

    def __iter__(self) -> Iterator[Message]:
        """Messages one by one, waiting for more for ever."""
        return self.messages()

    def messages(self, *, timeout: float | None = None) -> Iterator[Message]:
        """Messages one by one; ends when there was none for so many seconds."""
        while found := self.take(1, timeout=timeout):
            yield found[0]

    def take(self, count: int = 1, *, timeout: float | None = 0) -> list[Message]:
        """Up to so many messages, as soon as there are any; none after `timeout` seconds, None waits for ever.

        The lock of all of them begins now.
        """
        deadline_ms = None if timeout is None else self._log.clock.elapsed_ms() + round(timeout * 1000)
        while True:
            self._changed.clear()
            found = self._take(count)
            if found or not self._wait(deadline_ms):
                return found

    def ack(self, messages: Iterable[Message]) -> None:
        """As Message.ack for each, with one sync for all of a partition."""
        self.decide(list(messages), Event.ACCEPT)

    def decide(
        self, messages: Sequence[Message], event: Event, *, delay_ms: int | None = None, error: str = ""
    ) -> None:
        by_partition: dict[QueuePartition, list[int]] = {}
        for message in messages:
            by_partition.setdefault(message._from, []).append(message.offset)
        for partition, offsets in by_partition.items():
            said = [Acknowledgement(one, one, event, delay_ms, error) for one in sorted(offsets)]
            partition.acknowledge(self._id, said)
            if event is not Event.RENEW:
                for offset in offsets:
                    self._held.pop((partition, offset), None)

    def close(self, error: str = "") -> None:
        """Give back what is held."""
        if error:
            held = list(self._held.values())
            for message in held:
                try:
                    message.release(error=error)
                except Exception:  # noqa: BLE001 (its lock has ended, or the log fails: the block's own error counts)
                    continue
        for leave in self._leaving:
            leave()
        self._leaving = []
        for one in self._partitions:
            one.leave(self._id)
        self._held.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("" if error is None else f"{type(error).__name__}: {error}")

    def _take(self, count: int) -> list[Message]:
        if any(one.closed for one in self._partitions):
            raise LogClosed
        found: list[Message] = []
        for step in range(len(self._partitions)):
            partition = self._partitions[(self._turn + step) % len(self._partitions)]
            found += self._read(partition, partition.acquire(Demand(self._id, count - len(found))))
            if len(found) >= count:
                break
        self._turn += 1
        self._held |= {(one._from, one.offset): one for one in found}
        return found

    def _read(self, partition: QueuePartition, taken: Taken) -> list[Message]:
        messages, missing = [], []
        records: dict[int, Record] = {}
        for batch in taken.batches:
            rows = partition.records(batch)
            records |= {one.offset: one for one in _in(rows, taken.rows)}
        for row in taken.rows:
            for offset in range(row.first, row.last + 1):
                record = records.get(offset)
                if record is None:  # removed by compaction, or not to be unpacked
                    missing.append(Acknowledgement(offset, offset, Event.DROP))
                else:
                    messages.append(Message(record, row.deliveries, self, partition))
        if missing:
            partition.acknowledge(self._id, missing)
        return messages

    def _wait(self, deadline_ms: int | None) -> bool:
        """Wait until there may be something; False when it is too late."""
        now_ms = self._log.clock.elapsed_ms()
        if deadline_ms is not None and now_ms >= deadline_ms:
            return False
        ends = [one.wake_ms for one in self._partitions] + [deadline_ms]
        first = min((end for end in ends if end is not None), default=None)
        self._changed.wait(None if first is None else max(first - now_ms, 1) / 1000)
        return True


def _in(records: Sequence[Record], rows: Sequence[Range]) -> Sequence[Record]:
    """Those between the first and the last that were taken."""
    first = bisect_left(records, rows[0].first, key=lambda record: record.offset)
    last = bisect_right(records, rows[-1].last, key=lambda record: record.offset)
    return records[first:last]
