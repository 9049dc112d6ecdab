"""The topic of queues: what each was set up to do, and its state, written down before it takes effect."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import randbits
from typing import TYPE_CHECKING

from headwater.errors import CorruptBatch, DamagedRange, UnavailableError, UnknownTopic
from headwater.log.batch_format import encode_batch
from headwater.log.groups.journal import CONFIGS, partition_for
from headwater.log.own_topics import ensure_own_topic
from headwater.log.queues import records
from headwater.log.queues.delivery import Delivery
from headwater.log.queues.ranges import Range, joined
from headwater.log.queues.records import SLOTS, Change, ChangeKey, QueueKey, QueuePartitionId, Snapshot, SnapshotKey
from headwater.log.reader import read_batches
from headwater.record import Record

if TYPE_CHECKING:
    from headwater.clock import Clock
    from headwater.log.log import Log
    from headwater.log.partition import Partition

logger = logging.getLogger("headwater.log")

TOPIC = "__queue_state"


def wall_ahead_ms(clock: "Clock") -> int:
    """What turns a time of the process into one of the wall clock."""
    return clock.now_ms() - clock.elapsed_ms()


@dataclass
class History:
    """Where a partition of a queue is among its changes."""

    life: int = field(default_factory=lambda: randbits(63))
    number: int = 0
    snapshot: int = -1
    """The number of the newest snapshot; -1: none is written."""

    def write(self, of: QueuePartitionId, state: Delivery, rows: Sequence[Range], ahead_ms: int) -> list[Record]:
        """Records that say that these rows are about to take effect; the caller appends them before the next."""
        written = []
        if self.snapshot < 0 or self.number + 1 - self.snapshot >= SLOTS:
            known = Snapshot(self.life, self.number, state.start, state.totals, list(state.rows))
            value = records.encode_snapshot(known, wall_ahead_ms=ahead_ms)
            written.append(Record(value, records.encode_key(SnapshotKey(of))))
            self.snapshot = self.number
        if rows:
            self.number += 1
            change = Change(self.life, self.number, joined(rows))
            value = records.encode_change(change, wall_ahead_ms=ahead_ms)
            written.append(Record(value, records.encode_key(ChangeKey(of, self.number % SLOTS))))
        return written

    def forget(self, of: QueuePartitionId) -> list[Record]:
        """Records that delete all of it; the snapshot first, without which the changes mean nothing."""
        slots = range(min(self.number + 1, SLOTS))
        keys: list[SnapshotKey | ChangeKey] = [SnapshotKey(of)]
        keys += [ChangeKey(of, slot) for slot in slots]
        return [Record(None, records.encode_key(key)) for key in keys]


@dataclass
class Loaded:
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    states: dict[QueuePartitionId, tuple[Delivery, History]] = field(default_factory=dict)


class Journal:
    """Appends in the order of its callers, each of which writes about its own partition of a queue under a lock."""

    def __init__(self, log: "Log") -> None:
        self._log = log

    def append(self, queue: str, written: Iterable[Record]) -> int:
        """Returns the offset for `settle`. Nothing is waited for: a killed process loses nothing, a power cut may."""
        now_ms = self._log.clock.now_ms()
        batch = encode_batch([replace(record, timestamp_ms=now_ms) for record in written])
        return self._partition(queue).append(batch, durable=True).last_offset + 1

    def settle(self, queue: str, end: int) -> None:
        """Return when what was appended below an offset is durable."""
        self._partition(queue).make_durable(end)

    def write_configs(self, queue: str, configs: Mapping[str, str] | None) -> None:
        """How a queue was set up, or with None that there is none; durable when this returns."""
        value = None if configs is None else records.encode_configs(configs)
        self.settle(queue, self.append(queue, [Record(value, records.encode_key(QueueKey(queue)))]))

    def end_offset(self, queue: str) -> int:
        return self._partition(queue).end_offset

    def _partition(self, queue: str) -> "Partition":
        topic = ensure_own_topic(self._log, TOPIC, CONFIGS, partitions=self._log.settings.queues_partitions)
        return self._log.partition(TOPIC, partition_for(queue, topic.partitions))

    def load(self) -> Loaded:
        """Everything that is written. What is damaged is reported, and what can be read is used: messages whose
        acknowledgement is lost are delivered again."""
        loaded = Loaded()
        try:
            topic = self._log.topic(TOPIC)
        except UnknownTopic:
            return loaded
        for number in range(topic.partitions):
            _Loading(self._log, number).into(loaded)
        return loaded


class _Loading:
    """The newest record of each key of one partition of the topic."""

    def __init__(self, log: "Log", number: int) -> None:
        self._log, self._number = log, number
        self._newest: dict[bytes, Record] = {}

    def into(self, loaded: Loaded) -> None:
        offset: int | None = self._log.partition(TOPIC, self._number).start_offset
        while offset is not None:
            offset = self._read(offset)
        ahead_ms = wall_ahead_ms(self._log.clock)
        snapshots: dict[QueuePartitionId, Snapshot] = {}
        changes: dict[QueuePartitionId, list[Change]] = {}
        for record in self._newest.values():
            if record.value is None:
                continue
            try:
                match records.decode_key(record.key or b""):
                    case QueueKey(queue):
                        loaded.configs[queue] = records.decode_configs(record.value)
                    case SnapshotKey(of):
                        snapshots[of] = records.decode_snapshot(record.value, wall_ahead_ms=ahead_ms)
                    case ChangeKey(of, _):
                        change = records.decode_change(record.value, wall_ahead_ms=ahead_ms)
                        changes.setdefault(of, []).append(change)
            except CorruptBatch as error:
                logger.error("record %d of %s/%d is skipped: %s", record.offset, TOPIC, self._number, error)
        for of, snapshot in snapshots.items():
            loaded.states[of] = _restored(of, snapshot, changes.get(of, []))

    def _read(self, offset: int) -> int | None:
        partition = self._log.partition(TOPIC, self._number)
        try:
            for _, rows in read_batches(partition, offset, self._log.settings.decompressed_bytes_max):
                self._newest.update({record.key or b"": record for record in rows})
        except DamagedRange as damage:
            logger.error("states of queues may be outdated: %s", damage)
            return damage.end
        except UnavailableError as error:
            logger.error("states of queues cannot be read: %s", error)
        return None


def _restored(of: QueuePartitionId, snapshot: Snapshot, changes: Iterable[Change]) -> tuple[Delivery, History]:
    state = Delivery(snapshot.start, snapshot.rows)
    state.totals = snapshot.totals
    history = History(snapshot.life, snapshot.number, snapshot.number)
    for change in sorted(changes, key=lambda one: one.number):
        if change.life != snapshot.life or change.number <= snapshot.number:
            continue
        if change.number != history.number + 1:
            logger.error("queue %s: changes %d to %d are lost", of, history.number + 1, change.number - 1)
        state.put(change.rows)
        history.number = change.number
    return state, history
