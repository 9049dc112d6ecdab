"""The streams of one partition: the one place where a condition is checked and an append follows.

A check is made against the index, which has counted all records below some offset; the batch is stored at this very
offset or not at all (`at` of Partition.append). If another append came between, its records are counted, and the
condition is checked again: so no writer, conditional or plain, can come between a check and its append.

The lock is held for a write to the page cache, never for the sync of an append: writers whose batches are stored wait
for one sync together. What is answered is durable, a refusal and a repetition too: the event that caused them is synced
before.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from headwater.errors import (
    ConflictError,
    DamagedRange,
    EndOffsetMoved,
    UnavailableError,
    UndecidedStream,
    UnexpectedEvent,
    WrongVersion,
)
from headwater.log.batch_format import BatchHeader, encode_batch
from headwater.log.log import Log
from headwater.log.reader import last_header, read_at, read_batches
from headwater.log.streams.condition import Append, Match, StreamWrite, meets
from headwater.log.streams.event import StoredEvent, event_of, record_of, stream_key
from headwater.log.streams.index import Entry, StreamIndex, entry_of
from headwater.log.streams.index_file import Snapshot, read_index
from headwater.log.topic import Topic
from headwater.log.transactions.in_process import OpenTransaction
from headwater.record import Record

logger = logging.getLogger("headwater.log")

SAVED_EVERY = 20_000
"""Records after which the index is saved, and at least a quarter of those there are: what a start reads stays small."""
CHUNK = 500


class PartitionStreams:
    """Safe to use from many threads. Several may be open on the same partition."""

    def __init__(self, log: Log, topic: Topic, number: int) -> None:
        self._log, self._topic = log, topic
        self.partition = log.partition(topic.name, number)
        self._bytes_max = log.settings.decompressed_bytes_max
        self._lock = threading.RLock()
        self._index = self._opened()
        self._saved_end = self._index.end

    def _opened(self) -> StreamIndex:
        found = read_index(self._log.storage, self.partition.directory, topic_id=str(self._topic.id))
        if found is not None:
            index, batch_crc = found
            if index.end <= self.partition.end_offset and self._crc_before(index.end) == batch_crc:
                return index
        index = StreamIndex()
        index.end = self.partition.start_offset
        return index

    def _crc_before(self, end: int) -> int:
        header = last_header(self.partition, end) if end > self.partition.start_offset else None
        return -1 if header is None else header.crc

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(self, append: Append) -> tuple[list[StoredEvent], bool]:
        """The events as they are stored, durably, and whether an append before this one stored them."""
        try:
            with self._lock:
                stored = self._append(append)
                end = self._index.end
        except ConflictError:
            self._make_all_durable()  # or the event that is in the way may be gone after a power cut
            raise
        self.partition.make_durable(end)
        if stored is None:
            return self.stored_by(append), True
        self._save_if_due()
        return stored, False

    def _append(self, append: Append) -> list[StoredEvent] | None:
        """None if an append with the same request is there."""
        while True:
            self.catch_up()
            if self.repeated(append):
                return None
            self._check(append)
            records = self._records(append)
            try:
                appended = self.partition.append(encode_batch(records), durable=True, keyed=True, at=self._index.end)
            except EndOffsetMoved:
                continue
            return self._counted(append.writes, records, appended.base_offset)

    def append_within(self, transaction: OpenTransaction, append: Append) -> list[StoredEvent]:
        """The events as they will be stored when the transaction commits. ConflictError says that it must not."""
        with self._lock:
            while True:
                self.catch_up()
                if self.repeated(append):
                    raise UndecidedStream(append.writes[0].stream)
                self._check(append)
                records = self._records(append)
                try:
                    last = transaction.append_at(self.partition.topic_partition, records, at=self._index.end)
                except EndOffsetMoved:
                    continue
                return self._events(append.writes, records, last.offset + 1 - len(records))

    def _check(self, append: Append) -> None:
        for write in append.writes:
            key = stream_key(write.stream)
            if self._index.held(key):
                raise UndecidedStream(write.stream)
            version = self._index.version(key)
            if not meets(write.expected, version):
                raise WrongVersion(write.stream, expected=write.expected, actual=version)
        if append.unless is not None and (offset := self._index.first_excluded(append.unless)) is not None:
            raise UnexpectedEvent(self.partition.topic, offset=offset, after=append.unless.after)

    def _records(self, append: Append) -> list[Record]:
        now_ms = self._log.clock.now_ms()
        records = []
        for write in append.writes:
            version = self._index.version(stream_key(write.stream))
            records += [
                record_of(event, write.stream, version=version + row, request=append.request, now_ms=now_ms)
                for row, event in enumerate(write.events, start=1)
            ]
        return records

    def _counted(self, writes: Sequence[StreamWrite], records: list[Record], base_offset: int) -> list[StoredEvent]:
        events = self._events(writes, records, base_offset)
        self._index.add(
            Entry(event.position.offset, stream_key(event.stream), event.type, event.tags, event.request, event.version)
            for event in events
        )
        self._index.end = base_offset + len(records)
        return events

    def _events(self, writes: Sequence[StreamWrite], records: list[Record], base_offset: int) -> list[StoredEvent]:
        versions = [
            self._index.version(stream_key(write.stream)) + row
            for write in writes
            for row, _ in enumerate(write.events, start=1)
        ]
        return [
            self._event(replace(record, offset=base_offset + row), version)
            for row, (record, version) in enumerate(zip(records, versions, strict=True))
        ]

    def _event(self, record: Record, version: int) -> StoredEvent:
        return event_of(record, topic=self.partition.topic, partition=self.partition.number, version=version)

    # -- repetitions -------------------------------------------------------------------------------------------------

    def repeated(self, append: Append) -> bool:
        """Whether the request is known to have stored events of one of its streams."""
        with self._lock:
            return any(self._first_of(append, write) for write in append.writes)

    def _first_of(self, append: Append, write: StreamWrite) -> int:
        """The version that the request brought the stream first; 0 if it is not known to have been here."""
        if not append.request:
            return 0
        key = stream_key(write.stream)
        offset = self._index.request(key, append.request)
        if offset is not None:
            return self._index.version_at(key, offset)
        if type(write.expected) is int and write.expected < self._index.version(key):
            # Long ago, maybe: the event after the expected version says whose it is.
            after = self._read(write.stream, self._index.between(key, write.expected, write.expected + 1))
            return next((event.version for event in after if event.request == append.request), 0)
        return 0

    def stored_by(self, append: Append) -> list[StoredEvent]:
        """The events that the request stored, when it came first; durable, also where it is still waiting for that."""
        self._make_all_durable()
        with self._lock:
            firsts = [(write.stream, self._first_of(append, write)) for write in append.writes]
        stored: list[StoredEvent] = []
        for stream, first in firsts:
            for event in self.read(stream, after=first - 1) if first else ():
                if event.request != append.request:
                    break
                stored.append(event)
        return stored

    # -- reading -----------------------------------------------------------------------------------------------------

    def version(self, stream: str) -> int:
        """Of its newest event that is durable."""
        with self._lock:
            self.catch_up()
            version, end = self._index.version(stream_key(stream)), self._index.end
        self.partition.make_durable(end)
        return version

    def names(self) -> list[str]:
        with self._lock:
            self.catch_up()
            return sorted(name.decode(errors="replace") for name in self._index.streams)

    def read(
        self, stream: str, *, after: int = 0, until: int = 2**62, backwards: bool = False
    ) -> Iterator[StoredEvent]:
        """Events of a stream after one version, up to another, as far as they are durable."""
        with self._lock:
            self.catch_up()
            found = self._index.between(stream_key(stream), after, until)
        if backwards:
            end, size = len(found), 1
            while end > 0:
                yield from reversed(list(self._read(stream, found[max(0, end - size) : end])))
                end, size = end - size, min(8 * size, CHUNK)  # often only the newest is wanted
        else:
            for begin in range(0, len(found), CHUNK):
                yield from self._read(stream, found[begin : begin + CHUNK])

    def _read(self, stream: str, rows: list[tuple[int, int]]) -> Iterator[StoredEvent]:
        watermark = self.partition.high_watermark
        versions = {offset: version for version, offset in rows if offset < watermark}
        for record in read_at(self.partition, list(versions), self._bytes_max):
            yield self._event(record, versions[record.offset])

    def matching(self, match: Match, after: int, limit: int) -> tuple[list[StoredEvent], int, bool]:
        """Events after an offset that match; the offset that was looked at last; whether there are no more.

        Only what is decided is looked at, in the order of offsets, so that no event appears later among those that
        were passed.
        """
        end = self.partition.last_stable_offset
        with self._lock:
            self.catch_up()
            offsets = list(islice(takewhile(lambda one: one < end, self._index.matching(match, after)), limit))
        events = []
        for record in read_at(self.partition, offsets, self._bytes_max):
            with self._lock:
                version = self._index.version_at(bytes(record.key or b""), record.offset)
            events.append(self._event(record, version))
        done = len(offsets) < limit
        return events, max(after, end - 1) if done else offsets[-1], done

    # -- the index ---------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Count what others appended: plain producers, transactions, or this process before it was killed."""
        with self._lock:
            while self._index.end < (end := self.partition.end_offset):
                self.partition.make_durable(end)  # a batch that is not durable cannot be read
                try:
                    for header, records in read_batches(self.partition, self._index.end, self._bytes_max):
                        self._count(header, records)
                        self._index.end = header.next_offset
                    self._index.end = max(self._index.end, end)  # compaction may leave nothing up to the end
                except DamagedRange as damage:
                    logger.error("%s: events are lost: %s", self.partition.directory, damage)
                    self._index.end = damage.end
                    self._forget_transactions()

    def _count(self, header: BatchHeader, records: list[Record]) -> None:
        entries = [entry_of(record) for record in records if record.key and record.offset >= self._index.end]
        if header.control:
            aborted = self.partition.aborted_between(header.base_offset, header.next_offset)
            ended = any(one.producer_id == header.producer_id for one in aborted)
            self._index.decide(header.producer_id, committed=not ended)
        elif header.transactional:
            self._index.hold(header.producer_id, entries)
        else:
            self._index.add(entries)

    def _forget_transactions(self) -> None:
        """Of which the marker is lost: the partition counts them as aborted."""
        for producer_id in self._index.undecided:
            if self.partition.transactions.open_of(producer_id) is None:
                self._index.decide(producer_id, committed=False)

    @property
    def undecided(self) -> bool:
        with self._lock:
            self.catch_up()
            return bool(self._index.undecided)

    def _make_all_durable(self) -> None:
        with self._lock:
            end = self._index.end
        self.partition.make_durable(end)

    def _save_if_due(self) -> None:
        grown = self._index.end - self._saved_end
        if grown >= max(SAVED_EVERY, self._saved_end // 4):
            self.save()

    def save(self) -> None:
        """Write the index beside the partition, so that the next opening reads only what comes after this."""
        with self._lock:
            end = self._index.end
            if end == self._saved_end or self._index.undecided or self.partition.closed:
                return
            try:
                self.partition.make_durable(end)  # the file must never know of an event that a power cut takes
            except UnavailableError:
                return  # who appended what is not durable is told; the append that found this due is stored
            crc = self._crc_before(end)
            snapshot = Snapshot(self._index, topic_id=str(self._topic.id), batch_crc=crc)
            self._saved_end = end
            try:
                snapshot.write(self._log.storage, self.partition.directory)
            except OSError as error:
                logger.warning("%s: the index of streams could not be written: %s", self.partition.directory, error)
