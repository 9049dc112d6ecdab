"""One partition of a queue as consumers use it: rows of state, the log they are about, and the topic they are kept in.

Each change is appended to the topic of queues before it takes effect, under one lock. Taking messages waits for no
disk: a kill loses none of what was appended, and after a power cut a message is at most delivered with a smaller count.
Acknowledgements return when they are durable; many that wait share a sync.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import HeadwaterError
from headwater.log.batch_format import BatchHeader
from headwater.log.listeners import Listeners
from headwater.log.partition import Partition
from headwater.log.queues.candidates import Extent, Times, candidates, keys_between, records_in
from headwater.log.queues.dead_letters import DeadLetters, message_at
from headwater.log.queues.delivery import Acknowledgement, Delivery, Demand, Totals
from headwater.log.queues.journal import History, Journal, wall_ahead_ms
from headwater.log.queues.key_order import KeyOrder
from headwater.log.queues.ranges import Range, joined
from headwater.log.queues.records import QueuePartitionId
from headwater.log.queues.settings import QueueSettings
from headwater.log.queues.states import State
from headwater.log.reader import StoredBatch
from headwater.record import Record

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")

READ_BYTES = 256 * 1024
DECODED_MAX = 4


class Taken(NamedTuple):
    """Messages that are a consumer's now, and the batches that hold them (and others)."""

    rows: Sequence[Range]
    batches: Sequence[StoredBatch]


NOTHING = Taken((), ())


@dataclass(frozen=True, kw_only=True)
class Description:
    topic: str
    partition: int
    start: int
    """All messages below it are done."""
    waiting: int
    in_flight: int
    failed: int
    """To be put aside; more than a few for a moment means that the dead-letter topic refuses them."""
    next_offset: int
    """Of the message that is delivered next, if there is one."""
    end: int
    """As far as messages can be delivered now."""
    totals: Totals
    consumers: dict[str, int]
    """How many messages each of them holds."""

    @property
    def depth(self) -> int:
        """Messages that are not done."""
        return self.waiting + self.in_flight + self.failed


class QueuePartition:
    """Safe to use from many threads."""

    def __init__(
        self,
        log: "Log",
        id: QueuePartitionId,
        partition: Partition,
        settings: Callable[[], QueueSettings],
        restored: tuple[Delivery, History],
    ) -> None:
        self.id, self._log, self._partition, self._settings = id, log, partition, settings
        self._state, self._history = restored
        self._journal = Journal(log)
        self._letters = DeadLetters(log, id.queue, partition.topic_partition)
        self._lock = threading.RLock()
        self._listeners = Listeners()
        self._consumers: list[str] = []
        self._awake = False
        self._written = 0
        """The offset after what was written last."""
        self._complained = False
        self._decoded: dict[BatchHeader, list[Record]] = {}

    @property
    def topic(self) -> str:
        return self._partition.topic

    @property
    def number(self) -> int:
        return self._partition.number

    @property
    def closed(self) -> bool:
        return self._partition.closed

    # -- consumers ---------------------------------------------------------------------------------------------------

    def join(self, holder: str) -> None:
        """A consumer is there. Where only one may be active, the one that came first is."""
        with self._lock:
            if holder not in self._consumers:
                self._consumers.append(holder)

    def leave(self, holder: str) -> None:
        """A consumer is not there any more: what it held is given to others at once."""
        self._prepare()
        with self._lock:
            if holder in self._consumers:
                self._consumers.remove(holder)
            self._wake()
            rows = self._state.release(holder, self._now_ms(), self._settings().rules)
            if rows:
                self._write(rows)
                self._bury()
        self._listeners.notify()

    def acquire(self, demand: Demand, *, bytes_max: int = READ_BYTES) -> Taken:
        """Messages for a consumer, as many as there are now and as it asks for; none if there are none."""
        self._prepare()
        with self._lock:
            settings = self._settings()
            self._look_after(settings)
            if demand.holder not in self._consumers:
                return NOTHING  # it has left: nobody would give back what it took
            if settings.headwater_queue_single_active_consumer and self._consumers[0] != demand.holder:
                return NOTHING
            taken, batches = self._acquire(demand, settings, bytes_max)
        return Taken(joined(taken), batches)

    def _acquire(
        self, demand: Demand, settings: QueueSettings, bytes_max: int
    ) -> tuple[list[Range], list[StoredBatch]]:
        taken: list[Range] = []
        batches: list[StoredBatch] = []
        now_ms, bytes_left = self._now_ms(), bytes_max
        offset = self._state.next_offset(self._state.start, now_ms)
        while offset < self._visible_end(settings) and bytes_left > 0:
            if offset >= self._state.end and not self._state.may_extend(settings.rules):
                break
            wanted = demand._replace(count_max=demand.count_max - sum(row.size for row in taken))
            found, stored = candidates(
                self._partition, offset, settings, Times(self._log.clock.now_ms(), now_ms),
                Extent(bytes_left, wanted.count_max), self.records,
            )  # fmt: skip
            rows = self._state.acquire(found, wanted, now_ms, settings.rules)
            if rows:
                self._write(rows)
            fresh = [row for row in rows if row.state is State.ACQUIRED]
            taken += fresh
            # A batch may be looked at in several turns, where some of its messages are not to be delivered yet.
            known = {one.header.base_offset for one in batches}
            used = [one for one in stored if _touches(one, fresh) and one.header.base_offset not in known]
            batches += used
            bytes_left -= sum(len(one.data) for one in used)
            if found.end <= offset or self._satisfied(demand, taken, settings) or self._state.end < found.end:
                break
            offset = self._state.next_offset(found.end, now_ms)
        return taken, batches

    def records(self, batch: StoredBatch) -> list[Record]:
        """Of a batch, of which messages are often taken one by one."""
        known = self._decoded.get(batch.header)
        if known is None:
            known = records_in(batch, self._log.settings.decompressed_bytes_max)
            while len(self._decoded) >= DECODED_MAX:
                self._decoded.pop(next(iter(self._decoded)), None)
            self._decoded[batch.header] = known
        return known

    def _satisfied(self, demand: Demand, taken: Sequence[Range], settings: QueueSettings) -> bool:
        full = self._state.in_flight >= settings.rules.in_flight_max
        return full or sum(row.size for row in taken) >= demand.count_max

    def acknowledge(self, holder: str, acknowledgements: Iterable[Acknowledgement]) -> None:
        """All of them, durable when this returns; NotAcquired: none of them."""
        self._prepare()
        with self._lock:
            settings = self._settings()
            self._wake()
            self._expire(settings)
            rows = self._state.acknowledge(holder, acknowledgements, self._now_ms(), settings.rules)
            end = self._write(rows)
            self._bury()
        self._journal.settle(self.id.queue, end)
        self._listeners.notify()

    # -- looking -----------------------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, from any thread, when there may be something to take. The end of a lock or of a delay is for the
        caller to wait for: `wake_ms`."""
        leave, leave_log = self._listeners.add(callback), self._partition.subscribe(callback)

        def leave_both() -> None:
            leave()
            leave_log()

        return leave_both

    @property
    def wake_ms(self) -> int | None:
        """When the next lock or delay ends, in elapsed time."""
        return self._state.wake_ms

    def describe(self) -> Description:
        self._prepare()
        with self._lock:
            settings = self._settings()
            if not self._partition.offline:
                self._look_after(settings)
            state, end = self._state, self._visible_end(settings)
            held = {row.holder: 0 for row in state.rows if row.state is State.ACQUIRED}
            for row in state.rows:
                if row.state is State.ACQUIRED:
                    held[row.holder] += row.size
            return Description(
                topic=self.topic, partition=self.number, start=max(state.start, self._partition.start_offset),
                waiting=state.counts[State.AVAILABLE] + max(end - max(state.end, self._partition.start_offset), 0),
                in_flight=state.in_flight, failed=state.counts[State.FAILED],
                next_offset=state.next_offset(state.start, self._now_ms()), end=end,
                totals=Totals(**vars(state.totals)), consumers=dict.fromkeys(self._consumers, 0) | held,
            )  # fmt: skip

    @property
    def rows(self) -> Sequence[Range]:
        with self._lock:
            return self._state.rows

    # -- administration ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Write down a new state; durable when this returns."""
        with self._lock:
            self._awake = True
            end = self._write(())
        self._journal.settle(self.id.queue, end)

    def restart_at(self, offset: int) -> None:
        """Forget everything; the queue goes on at this offset. Durable when this returns."""
        with self._lock:
            self._state, self._history = Delivery(offset), History()
            self.begin()
        self._listeners.notify()

    def purge(self) -> int:
        """Be done with what waits; returns how many messages that were. Durable when this returns."""
        self._prepare()
        with self._lock:
            settings = self._settings()
            self._look_after(settings)
            before = self._state.totals.dropped
            waiting = self._state.counts[State.AVAILABLE]
            end = self._visible_end(settings)
            unseen = max(end - max(self._state.end, self._partition.start_offset), 0)
            written = self._write(self._state.drop_below(end))
            self._state.totals.dropped = before + waiting + unseen
        self._journal.settle(self.id.queue, written)
        self._listeners.notify()
        return waiting + unseen

    def waiting(self, limit: int) -> list[tuple[Record, int]]:
        """Messages that would be delivered next, and how often each has been."""
        found: list[tuple[Record, int]] = []
        self._prepare()
        with self._lock:
            settings = self._settings()
            self._look_after(settings)
            offset = self._state.next_offset(self._state.start, self._now_ms())
            while offset < self._visible_end(settings) and len(found) < limit:
                record = message_at(self._log, self._partition.topic_partition, offset)
                if record is not None:
                    found.append((record, self._state.deliveries_of(offset)))
                offset = self._state.next_offset(offset + 1, self._now_ms())
        return found

    def forget(self) -> None:
        """Delete what is written about it; durable when this returns."""
        with self._lock:
            end = self._journal.append(self.id.queue, self._history.forget(self.id))
            self._history = History()
        self._journal.settle(self.id.queue, end)

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Before the lock is taken."""
        topic = self._settings().dead_letter_topic
        if topic:
            self._letters.ensure(topic)

    def _look_after(self, settings: QueueSettings) -> None:
        self._wake()
        self._expire(settings)
        dropped = self._state.drop_below(self._partition.start_offset)
        if dropped:
            self._write(dropped)
        if settings.by_key:
            self._learn_keys(settings)
        else:
            self._state.keys = None
        self._bury()

    def _wake(self) -> None:
        """What was with consumers when the process ended is with nobody now: an attempt all the same."""
        if not self._awake:
            self._awake, self._written = True, self._journal.end_offset(self.id.queue)
            rows = self._state.release("", self._now_ms(), self._settings().rules)
            if rows:
                self._write(rows)

    def _expire(self, settings: QueueSettings) -> None:
        rows = self._state.expire(self._now_ms(), settings.rules)
        if rows:
            self._write(rows)
            self._listeners.notify()

    def _learn_keys(self, settings: QueueSettings) -> None:
        unpacked_max = self._log.settings.decompressed_bytes_max
        if self._state.keys is None:
            self._state.keys = KeyOrder()
        for row in self._state.unknown_keys():
            known = keys_between(
                self._partition, max(row.first, self._partition.start_offset), row.last,
                committed=settings.committed, unpacked_max=unpacked_max,
            )  # fmt: skip
            for offset, key in known:
                self._state.learn_key(offset, key)

    def _bury(self) -> None:
        """Put aside what has failed. What cannot be copied now stays failed, in nobody's way, for the next call."""
        rows, topic = self._state.failed(), self._settings().dead_letter_topic
        if not rows:
            return
        try:
            if topic:
                self._journal.settle(self.id.queue, self._write(()))
                self._letters.copy(topic, rows)
            self._write(self._state.bury(rows))
            self._complained = False
        except HeadwaterError as error:
            if not self._complained:
                logger.warning('queue "%s": %d messages cannot be put aside: %s', self.id.queue, len(rows), error)
            self._complained = True

    def _write(self, rows: Sequence[Range]) -> int:
        """Rows are written down and take effect; returns the offset that makes them durable."""
        topic = self._settings().dead_letter_topic
        if topic and any(row.state is State.FAILED and not row.mark for row in rows):
            mark = self._letters.end_offset(topic)
            rows = [row._replace(mark=mark) if row.state is State.FAILED else row for row in rows]
        before = replace(self._history)
        records = self._history.write(self.id, self._state, rows, wall_ahead_ms(self._log.clock))
        if records:
            try:
                self._written = self._journal.append(self.id.queue, records)
            except BaseException:
                self._history = before
                raise
        self._state.put(rows)
        return self._written

    def _visible_end(self, settings: QueueSettings) -> int:
        return self._partition.last_stable_offset if settings.committed else self._partition.high_watermark

    def _now_ms(self) -> int:
        return self._log.clock.elapsed_ms()


def _touches(batch: StoredBatch, rows: Iterable[Range]) -> bool:
    first, last = batch.header.base_offset, batch.header.next_offset - 1
    return any(row.first <= last and first <= row.last for row in rows)
