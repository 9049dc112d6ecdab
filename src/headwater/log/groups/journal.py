"""The offsets topic: where committed offsets and saved groups are written down, one partition's worth at a time.

Offsets that a transaction commits are written at once, in a batch that belongs to the transaction, and take effect when
its marker is durable. Of two entries of one key the one that was written later counts, whichever took effect first.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headwater.errors import CorruptBatch, DamagedRange
from headwater.log.batch_format import TRANSACTIONAL_FLAG, encode_batch, flagged
from headwater.log.groups import records
from headwater.log.groups.consumer import records as consumer_records
from headwater.log.groups.consumer.records import StateKey
from headwater.log.groups.entry import Entry, EntryKey
from headwater.log.groups.member import SavedGroup
from headwater.log.groups.records import CommittedOffset, GroupKey, OffsetKey
from headwater.log.own_topics import ensure_own_topic
from headwater.log.producer_state import NO_PRODUCER
from headwater.log.reader import read_batches
from headwater.log.transactions.markers import Marker, marker_batch
from headwater.log.transactions.open_transactions import AbortedBatches
from headwater.log.transactions.transaction import ProducerIdentity
from headwater.record import Record

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.log.partition import Partition
    from headwater.log.topic import Topic

logger = logging.getLogger("headwater.log")

TOPIC = "__consumer_offsets"
BATCH_BYTES = 512 * 1024
RECORD_OVERHEAD_BYTES = 32

# Said in full, so that no default for ordinary topics can make this one forget, refuse or move away what it holds. The
# segments are small because a start reads the topic from its beginning, and only sealed segments are compacted.
CONFIGS = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(1024**2),
    "message.timestamp.type": "CreateTime",
    "remote.storage.enable": "false",
}


class _Written(NamedTuple):
    """What was written up to an offset: entries, of a transaction maybe, or the marker that ends one."""

    end: int
    entries: Sequence[Entry] = ()
    producer_id: int = NO_PRODUCER
    marker: Marker | None = None


def partition_for(group: str, partitions: int) -> int:
    """Where a group's entries are: Kafka's rule, which is the hash of a Java string.

    >>> partition_for("hello", 50)
    22
    """
    units = group.encode("utf-16-be")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2])) & 0xFFFF_FFFF
    signed = value - 2**32 if value >= 2**31 else value
    # The smallest integer has no positive counterpart in Java; Kafka counts it as 0.
    return 0 if signed == -(2**31) else abs(signed) % partitions


def ensure_topic(log: "Log") -> "Topic":
    """The offsets topic, made now if this is its first use."""
    return ensure_own_topic(log, TOPIC, CONFIGS, partitions=log.settings.offsets_partitions)


class Journal:
    """One partition of the offsets topic. Entries take effect in the order of the log, once they are durable.

    Writers that come at the same time share a sync. An entry that was written but could not be made durable has no
    effect; should a later sync succeed after all, it takes effect then, in its order.
    """

    def __init__(self, log: "Log", number: int, apply: Callable[[Sequence[Entry]], None]) -> None:
        self._log, self._number, self._apply = log, number, apply
        self._lock = threading.Lock()
        self._undecided: deque[_Written] = deque()
        self._pending: dict[int, dict[EntryKey, tuple[int, Entry]]] = {}
        """By producer: what its open transaction commits, and where that was written."""
        self.doubt, self._damaged_until = "", 0
        """Why what was read may be outdated; "" if it is not."""
        self.certain: frozenset[EntryKey] = frozenset()
        """Keys whose newest entry was read, whatever is damaged."""

    def write(self, decide: Callable[[list[Entry]], Sequence[Entry]]) -> None:
        """Write what `decide` answers; durable and in effect when this returns.

        `decide` is given the entries that are on their way. Nothing is written between its decision and its entries.
        """
        partition = self._log.partition(TOPIC, self._number)
        with self._lock:
            entries = decide(self._under_way())
            if not entries:
                return
            end = 0
            now_ms = self._log.clock.now_ms()
            for batch in _batches(entries, now_ms):
                end = partition.append(encode_batch(map(_to_record, batch)), durable=True).last_offset + 1
                self._undecided.append(_Written(end, [row.entry for row in batch]))
        self.settle(end)

    def _under_way(self) -> list[Entry]:
        """Entries that are written and not in effect."""
        pending = [entry for entries in self._pending.values() for _, entry in entries.values()]
        return [*pending, *(entry for written in self._undecided for entry in written.entries)]

    def settle(self, end: int) -> None:
        """Return when what was written below an offset is durable and in effect."""
        self._log.partition(TOPIC, self._number).make_durable(end)
        with self._lock:
            while self._undecided and self._undecided[0].end <= end:
                self._take_effect(self._undecided.popleft())

    # -- transactions ------------------------------------------------------------------------------------------------

    def write_pending(self, producer: ProducerIdentity, decide: Callable[[list[Entry]], Sequence[Entry]]) -> None:
        """As write, of entries that take effect with the producer's transaction; durable when this returns."""
        partition = self._log.partition(TOPIC, self._number)
        with self._lock:
            end = 0
            for batch in _batches(decide(self._under_way()), self._log.clock.now_ms()):
                encoded = encode_batch(
                    map(_to_record, batch), producer_id=producer.id, producer_epoch=producer.epoch
                )  # fmt: skip
                stored = partition.append(flagged(encoded, TRANSACTIONAL_FLAG), durable=True, coordinator=True)
                end = stored.last_offset + 1
                self._undecided.append(_Written(end, [row.entry for row in batch], producer.id))
        self.settle(end)

    def append_marker(self, marker: Marker) -> int:
        """End a transaction here, for `settle` to make it durable and let it take effect."""
        batch = marker_batch(marker, now_ms=self._log.clock.now_ms())
        with self._lock:
            stored = self._log.partition(TOPIC, self._number).append(
                batch, durable=True, marker=marker, coordinator=True
            )
            self._undecided.append(_Written(stored.last_offset + 1, producer_id=marker.producer.id, marker=marker))
        return stored.last_offset + 1

    def pending(self, group: str) -> set[EntryKey]:
        """Keys of what open transactions commit for a group."""
        with self._lock:
            pending = [key for entries in self._pending.values() for key in entries]
            pending += [entry.key for one in self._undecided if one.producer_id != NO_PRODUCER for entry in one.entries]
        return {key for key in pending if key.group == group}

    def _take_effect(self, written: _Written) -> None:
        if written.producer_id == NO_PRODUCER:
            self._supersede({entry.key: written.end for entry in written.entries})
            self._apply(written.entries)
        elif written.marker is None:
            pending = self._pending.setdefault(written.producer_id, {})
            pending.update({entry.key: (written.end, entry) for entry in written.entries})
        else:
            decided = self._pending.pop(written.producer_id, {})
            if written.marker.commit:
                self._supersede({key: end for key, (end, _) in decided.items()})
                self._apply([entry for _, entry in decided.values()])

    def _supersede(self, newer: Mapping[EntryKey, int]) -> None:
        """What other transactions wrote before has been overtaken."""
        for pending in self._pending.values():
            for key in [key for key, (end, _) in pending.items() if end <= newer.get(key, -1)]:
                del pending[key]

    # -- reading it back ---------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the partition from its start and let the newest entry of each key take effect.

        A damaged range loses only its own entries: entries written after it are certain; `doubt` says why the others
        are not.
        """
        newest: dict[bytes, Record] = {}
        partition = self._log.partition(TOPIC, self._number)
        offset: int | None = partition.start_offset
        aborted = AbortedBatches(partition.aborted_between(0, partition.end_offset))
        while offset is not None:
            offset = self._read(partition, offset, newest, aborted)
        for gap in partition.unreadable:  # readers step over what was known to be damaged before
            logger.error("committed offsets may be outdated: %s/%d: %s", TOPIC, self._number, gap)
            self.doubt, self._damaged_until = f"{TOPIC}/{self._number}: {gap}", max(self._damaged_until, gap.end_offset)
        in_order = sorted(newest.values(), key=lambda record: record.offset)
        understood = [(record, entry) for record in in_order if (entry := self._understood(record)) is not None]
        self._apply([entry for _, entry in understood])
        self.certain = frozenset(entry.key for record, entry in understood if record.offset >= self._damaged_until)

    def _read(
        self, partition: "Partition", offset: int, newest: dict[bytes, Record], aborted: AbortedBatches
    ) -> int | None:
        """Reads the journal from an offset on; returns the next offset if not everything could be read."""
        try:
            for header, rows in read_batches(partition, offset, self._log.settings.decompressed_bytes_max):
                begun = partition.transactions.open_of(header.producer_id) if header.transactional else None
                if begun is not None and begun.first_offset <= header.base_offset:
                    entries = [entry for record in rows if (entry := self._understood(record)) is not None]
                    self._take_effect(_Written(header.next_offset, entries, header.producer_id))
                elif header not in aborted:
                    newest.update({record.key or b"": record for record in rows})
                    self._supersede(
                        {one.key: header.next_offset for one in map(self._understood, rows) if one}
                        if self._pending else {}
                    )  # fmt: skip
        except DamagedRange as damage:
            return damage.end
        return None

    def _understood(self, record: Record) -> Entry | None:
        try:
            key = records.decode_key(record.key or b"")
            if isinstance(key, OffsetKey):
                return Entry(key, None if record.value is None else records.decode_offset(record.value))
            if isinstance(key, GroupKey):
                return Entry(key, None if record.value is None else records.decode_group(key.group, record.value))
            state_key = consumer_records.decode_key(record.key or b"")
            if state_key is not None:
                saved = None if record.value is None else consumer_records.decode_value(state_key, record.value)
                return Entry(state_key, saved)
        except CorruptBatch as error:
            logger.error("record %d of %s/%d is skipped: %s", record.offset, TOPIC, self._number, error)
        return None


class _Row(NamedTuple):
    entry: Entry
    key: bytes
    value: bytes | None
    now_ms: int


def _to_record(row: _Row) -> Record:
    return Record(row.value, row.key, timestamp_ms=row.now_ms)


def _encode(entry: Entry, now_ms: int) -> _Row:
    key, value = entry
    if isinstance(key, StateKey):
        encoded_key = consumer_records.encode_key(key)
    else:
        encoded_key = records.encode_offset_key(key) if isinstance(key, OffsetKey) else records.encode_group_key(key)
    if value is None:
        encoded = None
    elif isinstance(value, CommittedOffset):
        encoded = records.encode_offset(value)
    elif isinstance(value, SavedGroup):
        encoded = records.encode_group(value, now_ms=now_ms)
    else:
        encoded = consumer_records.encode_value(value)
    return _Row(entry, encoded_key, encoded, now_ms)


def _batches(entries: Sequence[Entry], now_ms: int) -> Iterator[list[_Row]]:
    batch: list[_Row] = []
    room = BATCH_BYTES
    for entry in entries:
        row = _encode(entry, now_ms)
        size = RECORD_OVERHEAD_BYTES + len(row.key) + len(row.value or b"")
        if batch and size > room:
            yield batch
            batch, room = [], BATCH_BYTES
        batch.append(row)
        room -= size
    if batch:
        yield batch
