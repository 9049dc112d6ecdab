"""One partition: an ordered sequence of segments, the last of them written.

Three offsets tell how far it is:

    start_offset <= high_watermark <= end_offset

Readers see what lies below the high watermark. A batch appended with `durable=True` stays above it until it is synced,
so that nobody reads what a power cut can take back; one appended without is visible at once.

Locks: `_lock` guards all that changes; it is held for a write to the page cache, never for a sync. `_sync_done` lets one
thread sync on behalf of all who wait. Reading takes no lock: it works on tuples that are replaced, never changed.
"""

import errno
import logging
import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from headwater.clock import Clock
from headwater.errors import (
    BatchTooLarge,
    DiskFull,
    InvalidRecord,
    InvalidTimestamp,
    LogClosed,
    OffsetOutOfRange,
    PartitionOffline,
    TopicFull,
    UnavailableError,
)
from headwater.log.batch_format import (
    BatchHeader,
    Buffer,
    checked_header,
    decode_batch,
    place,
    stamp_append_time,
)
from headwater.log.checkpoint import Checkpoint, DurableWitness, write_checkpoint
from headwater.log.producer_state import ProducerStates
from headwater.log.recovery import open_partition
from headwater.log.segment import RELATIVE_OFFSET_MAX, Segment
from headwater.log.storage import File, Storage
from headwater.log.topic_settings import TopicSettings
from headwater.record import TopicPartition
from headwater.settings import LogSettings

logger = logging.getLogger("headwater.log")

LEADER_EPOCH = 0


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the topic stamps records itself
    start_offset: int
    duplicate: bool


class TimeOffset(NamedTuple):
    timestamp_ms: int
    offset: int


class Slice(NamedTuple):
    """Bytes of record batches in a file, not read yet. Stays readable whatever happens to the segment."""

    file: File
    position: int
    length: int


class Slices(NamedTuple):
    slices: list[Slice]
    length: int
    high_watermark: int
    start_offset: int


class Mark(NamedTuple):
    """An offset and where it is: everything before it lies before that byte of that segment."""

    offset: int
    segment: Segment
    position: int


class Partition:
    def __init__(
        self,
        storage: Storage,
        topic_partition: TopicPartition,
        *,
        topic_settings: TopicSettings,
        log_settings: LogSettings,
        clock: Clock,
        background: Callable[[Callable[[], None]], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.settings = topic_settings
        self._storage, self._clock, self._log_settings = storage, clock, log_settings
        self._background = background
        self.directory = f"{topic_partition.topic}-{topic_partition.partition}"
        self._lock = threading.RLock()
        self._sync_done = threading.Condition()
        self._syncing = False
        self._failure: str | None = None
        self._closed = False
        self._callbacks: tuple[Callable[[], None], ...] = ()
        self._checkpoint_lock = threading.Lock()
        self._checkpoint_due = False
        self._open()

    def _open(self) -> None:
        opened = open_partition(
            self._storage, self.directory, index_interval=self.settings.index_interval_bytes
        )
        self.recovery_report = opened.report
        elapsed = self._clock.elapsed_ms()
        self._producers = ProducerStates.from_rows(opened.checkpoint.producers, elapsed_ms=elapsed)
        for header in opened.scanned_batches:
            self._producers.note(header, elapsed_ms=elapsed)
        self.segments: tuple[Segment, ...] = tuple(opened.segments)
        self.start_offset = max(opened.checkpoint.start_offset, self.segments[0].base_offset)
        end = Mark(opened.end_offset, self.segments[-1], self.segments[-1].size)
        self._end = self._visible = self._durable = end
        self._unconfirmed_end = end.offset  # end of the last batch that must be durable before it is seen
        self._unsynced: list[File] = []  # files of sealed segments
        self._directory_unsynced = False
        self._bytes_since_checkpoint = 0
        self._checkpointed: Checkpoint | None = opened.checkpoint
        self._witness = DurableWitness.open(self._storage, self.directory)
        self._claim(end.offset)
        self.checkpoint()

    # -- where it is -------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        return self.topic_partition.topic

    @property
    def number(self) -> int:
        return self.topic_partition.partition

    @property
    def leader_epoch(self) -> int:
        return LEADER_EPOCH

    @property
    def end_offset(self) -> int:
        return self._end.offset

    @property
    def high_watermark(self) -> int:
        return self._visible.offset

    @property
    def durable_end_offset(self) -> int:
        return self._durable.offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def offline(self) -> bool:
        return self._failure is not None

    @property
    def closed(self) -> bool:
        return self._closed

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(self, batch: bytearray | memoryview, *, durable: bool) -> Appended:
        """Store one whole batch, patched in place with where it went; it is not decoded.

        With `durable` the records stay invisible until make_durable has covered them. Without, they are visible when
        this returns. Either way nothing is safe from a power cut before make_durable.
        """
        header = checked_header(batch)
        self._check(batch, header)
        with self._lock:
            self._raise_if_unusable()
            duplicate = self._producers.find_duplicate(header)
            if duplicate is not None:
                return Appended(
                    duplicate.base_offset, duplicate.last_offset, duplicate.append_time_ms, self.start_offset, True
                )
            self._make_room(len(batch))
            header = self._prepared(batch, header)
            self._write(batch, header)
            self._advance(header, durable=durable)
            append_time_ms = header.max_timestamp if header.append_time else -1
            appended = Appended(header.base_offset, header.last_offset, append_time_ms, self.start_offset, False)
            visible = self._visible.offset == self._end.offset
        if visible:
            self._notify()
        return appended

    def _check(self, batch: Buffer, header: BatchHeader) -> None:
        settings = self.settings
        if len(batch) > settings.max_message_bytes:
            raise BatchTooLarge(self.topic, len(batch), limit=settings.max_message_bytes)
        if header.control or header.transactional:
            raise InvalidRecord("transactional batches are not supported yet")
        if not settings.append_time:
            self._check_timestamp(header.max_timestamp)
        if settings.compacted:
            self._check_keys(batch)

    def _check_timestamp(self, timestamp_ms: int) -> None:
        now = self._clock.now_ms()
        if timestamp_ms - now > self.settings.message_timestamp_after_max_ms:
            raise InvalidTimestamp(self.topic, timestamp_ms, "it lies too far in the future")
        if timestamp_ms >= 0 and now - timestamp_ms > self.settings.message_timestamp_before_max_ms:
            raise InvalidTimestamp(self.topic, timestamp_ms, "it lies too far in the past")

    def _check_keys(self, batch: Buffer) -> None:
        # The one place where a batch is decoded on its way in: without a key, compaction would drop it in silence.
        for record in decode_batch(batch, bytes_max=self._log_settings.decompressed_bytes_max):
            if record.key is None:
                raise InvalidRecord(f'topic "{self.topic}" is compacted, so every record needs a key')

    def _make_room(self, size: int) -> None:
        settings = self.settings
        if settings.headwater_full_policy == "drop-oldest" or settings.retention_bytes < 0:
            return
        if self.size_bytes + size > settings.retention_bytes:
            blocking = settings.headwater_full_policy == "block"
            raise TopicFull(self.topic, self.number, limit=settings.retention_bytes, blocking=blocking)

    def _prepared(self, batch: bytearray | memoryview, header: BatchHeader) -> BatchHeader:
        base = self._end.offset
        if self.settings.append_time:
            header = stamp_append_time(batch, header, now_ms=self._clock.now_ms())
        place(batch, base_offset=base, leader_epoch=LEADER_EPOCH)
        return header._replace(base_offset=base, leader_epoch=LEADER_EPOCH)

    def _write(self, batch: Buffer, header: BatchHeader) -> None:
        try:
            if self._roll_needed(len(batch), header):
                self._roll()
            self.segments[-1].append(batch, header, index_interval=self.settings.index_interval_bytes)
        except OSError as error:
            self._undo_write(error)

    def _undo_write(self, error: OSError) -> None:
        """A write that failed may have left a piece of the batch behind: take it away, or take the partition offline."""
        active = self.segments[-1]
        try:
            active.file.truncate(active.size)
        except OSError as truncate_error:
            self._fail(f"a failed write could not be undone: {truncate_error}")
            raise PartitionOffline(self.topic, self.number, str(truncate_error)) from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(self.topic, self.number) from None
        self._fail(f"a write failed: {error}")
        raise PartitionOffline(self.topic, self.number, str(error)) from None

    def _advance(self, header: BatchHeader, *, durable: bool) -> None:
        elapsed = self._clock.elapsed_ms()
        active = self.segments[-1]
        active.last_append_ms = self._clock.now_ms()
        if active.first_append_elapsed_ms is None:
            active.first_append_elapsed_ms = elapsed
        self._producers.note(header, elapsed_ms=elapsed)
        self._end = Mark(header.next_offset, active, active.size)
        if durable:
            self._unconfirmed_end = header.next_offset
        elif self._unconfirmed_end <= self._durable.offset:
            self._visible = self._end
        self._bytes_since_checkpoint += header.size
        if self._bytes_since_checkpoint > self._log_settings.unflushed_bytes_max and not self._checkpoint_due:
            self._checkpoint_due = True
            self._background(self.checkpoint_if_possible)

    # -- segments ----------------------------------------------------------------------------------------------------

    def _roll_needed(self, size: int, header: BatchHeader) -> bool:
        active = self.segments[-1]
        if not active.size:
            return False
        return (
            active.size + size > self.settings.segment_bytes
            or header.last_offset - active.base_offset > RELATIVE_OFFSET_MAX
            or self._outlived(active)
        )

    def _outlived(self, active: Segment) -> bool:
        first = active.first_append_elapsed_ms
        return first is not None and self._clock.elapsed_ms() - first >= self.settings.segment_ms

    def _roll(self) -> None:
        """Seal the active segment and begin the next. The sealed one is synced with the next sync, in order."""
        active = self.segments[-1]
        indexes = active.write_indexes()
        # Set first: whether the next segment comes into being or is given up, its name must be settled before an ack.
        self._directory_unsynced = True
        try:
            fresh = Segment.create(self._storage, self.directory, self._end.offset)
        except OSError:
            self._storage.delete(Segment(self._storage, self.directory, self._end.offset).log_path)
            raise
        active.seal()
        self._unsynced += [active.file, *indexes]
        self.segments = (*self.segments, fresh)
        # A mark at the end of the sealed segment says the same as one at the start of the fresh one.
        self._end = Mark(self._end.offset, fresh, 0)

    def roll(self) -> None:
        """Begin a new segment if the active one holds anything, so that it can be retired or compacted."""
        with self._lock:
            self._raise_if_unusable()
            if self.segments[-1].size:
                try:
                    self._roll()
                except OSError as error:
                    self._undo_write(error)

    def roll_if_outlived(self) -> None:
        if self.segments[-1].size and self._outlived(self.segments[-1]):
            self.roll()

    def release_sealed(self) -> None:
        """Close the files of segments that are only read; reading opens them again."""
        for segment in self.segments[:-1]:
            segment.release()

    def replace_segments(self, change: Callable[[tuple[Segment, ...]], tuple[Segment, ...]]) -> None:
        """Swap the tuple of segments under the lock; readers keep the one they have."""
        with self._lock:
            self.segments = change(self.segments)

    # -- durability --------------------------------------------------------------------------------------------------

    def make_durable(self, end: int) -> None:
        """Return when all offsets below `end` are on disk; callers that wait at the same time share one sync."""
        with self._sync_done:
            while self._syncing and self._durable.offset < end and self._failure is None:
                self._sync_done.wait()
            self._raise_if_offline()
            if self._durable.offset >= end:
                return
            self._syncing = True
        try:
            self._sync()
        finally:
            with self._sync_done:
                self._syncing = False
                self._sync_done.notify_all()

    def _sync(self) -> None:
        with self._lock:
            self._raise_if_offline()
            target, sealed, directory = self._end, self._unsynced, self._directory_unsynced
            self._unsynced, self._directory_unsynced = [], False
        try:
            for file in sealed:
                file.sync()
            target.segment.file.sync()
            if directory:
                self._storage.sync_directory(self.directory)
        except OSError as error:
            # After a failed sync the pages may be gone although the next sync succeeds: nothing is believed any more.
            self._fail(f"a sync failed: {error}")
            raise PartitionOffline(self.topic, self.number, str(error)) from None
        with self._lock:
            self._durable = target
            self._visible = self._end if self._unconfirmed_end <= target.offset else target
            self._claim(target.offset)
        self._notify()

    def _claim(self, offset: int) -> None:
        try:
            self._witness.claim(offset)
        except OSError as error:
            # Only a witness: without it a broken batch is judged by the last checkpoint.
            logger.warning("%s: the durable mark could not be written: %s", self.directory, error)

    def _fail(self, why: str) -> None:
        self._failure = why
        logger.error("%s is offline: %s", self.directory, why)
        with self._sync_done:
            self._sync_done.notify_all()
        self._notify()

    def _raise_if_offline(self) -> None:
        if self._failure is not None:
            raise PartitionOffline(self.topic, self.number, self._failure)

    def _raise_if_unusable(self) -> None:
        self._raise_if_offline()
        if self._closed:
            raise LogClosed

    def checkpoint(self) -> None:
        """Sync everything and write down how far that is, so that the next opening starts reading there."""
        with self._checkpoint_lock:
            self._checkpoint_due = False
            self.make_durable(self._end.offset)
            with self._lock:
                if self._durable.segment is not self.segments[-1]:
                    self._sync()  # a new segment was begun just now: the mark must lie in the one that is indexed here
                mark = self._durable
                indexes = self.segments[-1].write_indexes()
                checkpoint = Checkpoint(
                    self.start_offset, mark.offset, mark.segment.base_offset, mark.position, self._producers.to_rows()
                )
                self._bytes_since_checkpoint = 0
            for file in indexes:
                file.sync()
                file.close()
            if checkpoint != self._checkpointed:
                write_checkpoint(self._storage, self.directory, checkpoint)
                self._checkpointed = checkpoint

    def checkpoint_if_possible(self) -> None:
        """As checkpoint, where a failure only means that the next opening reads more."""
        try:
            self.checkpoint()
        except (OSError, UnavailableError) as error:
            logger.warning("%s: no checkpoint could be written: %s", self.directory, error)

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, *, bytes_max: int) -> Slices:
        """Batches from the one that holds `offset` on, at least one of them even if it is larger than `bytes_max`.

        The bytes are not read here, and the last batch may be cut short, as readers of this format expect.
        """
        visible, start = self._visible, self.start_offset
        if not start <= offset <= self._end.offset:
            raise OffsetOutOfRange(self.topic, self.number, offset, first=start, end=self._end.offset)
        segments = self.segments
        place = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
        for segment in segments[max(place, 0) :]:
            if offset >= visible.offset or segment.base_offset > visible.offset:
                break
            found = self._slice(segment, offset, visible, bytes_max)
            if found is not None:
                return Slices([found], found.length, visible.offset, start)
        return Slices([], 0, visible.offset, start)

    def _slice(self, segment: Segment, offset: int, visible: Mark, bytes_max: int) -> Slice | None:
        limit = visible.position if segment is visible.segment else segment.size
        batch = segment.position_of(offset, limit=limit)
        if batch is None:
            return None
        wanted = min(batch.position + max(bytes_max, batch.header.size), limit)
        end = segment.clip_to_damage(batch.position, wanted)
        return Slice(segment.file, batch.position, end - batch.position)

    def offset_for_time(self, time_ms: int) -> TimeOffset | None:
        """The first record at or after a time."""
        visible = self._visible
        for segment in self.segments:
            largest = segment.largest_timestamp()
            if largest is None or largest[0] < time_ms:
                continue
            found = self._record_at_time(segment, time_ms, visible)
            if found is not None:
                return found
        return None

    def _record_at_time(self, segment: Segment, time_ms: int, visible: Mark) -> TimeOffset | None:
        limit = visible.position if segment is visible.segment else segment.size
        batch = segment.batch_for_time(time_ms, limit=limit)
        while batch is not None:
            data = segment.read_batch(batch)
            for record in decode_batch(data, bytes_max=self._log_settings.decompressed_bytes_max):
                if record.timestamp_ms >= time_ms and self.start_offset <= record.offset < visible.offset:
                    return TimeOffset(record.timestamp_ms, record.offset)
            following = segment.batches(batch.position + batch.header.size, limit=limit)
            batch = next((b for b in following if b.header.max_timestamp >= time_ms), None)
        return None

    def newest_timestamp(self) -> TimeOffset | None:
        """The record with the largest timestamp, the first of them if several have it."""
        largest = [found for segment in self.segments if (found := segment.largest_timestamp()) is not None]
        return self.offset_for_time(max(timestamp for timestamp, _ in largest)) if largest else None

    # -- giving up records -------------------------------------------------------------------------------------------

    def delete_records(self, before: int) -> int:
        """Make offsets below `before` unreadable for good; -1 means all there are. Answers the new start offset."""
        with self._lock:
            self._raise_if_unusable()
            before = self._visible.offset if before == -1 else before
            if not 0 <= before <= self._visible.offset:
                raise OffsetOutOfRange(
                    self.topic, self.number, before, first=self.start_offset, end=self._visible.offset
                )
            self.start_offset = max(self.start_offset, before)
        self._give_up_below_start()
        return self.start_offset

    def delete_oldest(self, count: int) -> None:
        """Give up the oldest `count` sealed segments."""
        with self._lock:
            following = self.segments[count]
            self.start_offset = max(self.start_offset, following.base_offset)
        self._give_up_below_start()

    def _give_up_below_start(self) -> None:
        try:
            # The start offset is durable before any file goes: after a crash, what is left of them goes too.
            self.checkpoint()
            self._drop_segments_below_start()
        except OSError as error:
            raise PartitionOffline(self.topic, self.number, f"records could not be deleted: {error}") from None

    def _drop_segments_below_start(self) -> None:
        with self._lock:
            dropped = 0
            while dropped + 1 < len(self.segments) and self.segments[dropped + 1].base_offset <= self.start_offset:
                dropped += 1
            victims, self.segments = self.segments[:dropped], self.segments[dropped:]
        for segment in victims:
            for path in segment.paths:
                self._storage.delete(path)
            segment.release()
        if victims:
            self._storage.sync_directory(self.directory)
            self._notify()

    # -- listening and closing ---------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, from any thread, when more can be read, space was freed, or the partition went away."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks = tuple(known for known in self._callbacks if known is not callback)

        return unsubscribe

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()

    def change_settings(self, settings: TopicSettings) -> None:
        with self._lock:
            self.settings = settings
        self._notify()  # a topic that was full may have room now

    def expire_producers(self) -> None:
        expiry_ms = self._log_settings.producer_expiry.total_seconds() * 1000
        with self._lock:
            self._producers.expire(elapsed_ms=self._clock.elapsed_ms(), expiry_ms=int(expiry_ms))

    def close(self, *, checkpoint: bool = True) -> None:
        """Stop. With a checkpoint, the next opening has nothing to read."""
        if checkpoint and not self._closed and not self.offline:
            self.checkpoint_if_possible()
        with self._lock:
            self._closed = True
        for segment in self.segments:
            segment.release()
        self._witness.close()
        self._notify()
