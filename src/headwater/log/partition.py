"""One partition: an ordered sequence of segments, the last of them written.

Three offsets tell how far it is:

    start_offset <= high_watermark <= end_offset

Readers see what lies below the high watermark. A batch appended with `durable=True` stays above it until it is synced,
so that nobody reads what a power cut can take back; one appended without is visible at once.

Locks, in order: `_reshape_lock` while sealed segments are deleted or replaced, `_checkpoint_lock` for a checkpoint, and
`_lock` for all that changes. That one is held for a write to the page cache, never for a sync: one thread syncs for all
who wait (shared_work.py). Reading takes no lock: it works on a snapshot (snapshot.py) that never changes.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from headwater.clock import Clock
from headwater.errors import (
    DamagedRange,
    DiskFull,
    HeadwaterError,
    LogClosed,
    OffsetOutOfRange,
    PartitionOffline,
    ReadFailed,
    UnavailableError,
)
from headwater.log.admission import check_admission, check_room
from headwater.log.archive import PartitionArchive
from headwater.log.batch_format import BatchHeader, Buffer, checked_header, place, stamp_append_time
from headwater.log.checkpoint import Checkpoint, DurableWitness, write_checkpoint
from headwater.log.listeners import Listeners
from headwater.log.producer_state import ProducerStates
from headwater.log.progress import Progress
from headwater.log.recovery import add_to_quarantine, begin_swap, finish_swap, open_partition
from headwater.log.scan import find_damage
from headwater.log.segment import RELATIVE_OFFSET_MAX, Damage, Segment
from headwater.log.shared_work import SharedWork
from headwater.log.snapshot import Mark, Slices, Snapshot, Suspect, TimeOffset
from headwater.log.storage import File, Storage, out_of_space, replace_durably
from headwater.log.topic_settings import TopicSettings
from headwater.record import TopicPartition
from headwater.settings import LogSettings, milliseconds

logger = logging.getLogger("headwater.log")

LEADER_EPOCH = 0
LOOKS_MAX = 3

Found = TypeVar("Found")


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the topic stamps records itself
    start_offset: int
    duplicate: bool


class Partition:
    def __init__(
        self,
        storage: Storage,
        topic_partition: TopicPartition,
        *,
        topic_settings: TopicSettings,
        log_settings: LogSettings,
        archive: PartitionArchive,
        clock: Clock,
        background: Callable[[Callable[[], None]], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.archive = archive
        self.settings = topic_settings
        self._storage, self._clock, self._log_settings = storage, clock, log_settings
        self._background = background
        self.directory = f"{topic_partition.topic}-{topic_partition.partition}"
        self._lock = threading.RLock()
        self._syncing = SharedWork(self._sync)
        self._failure: str | None = None
        self._closed = False
        self._listeners = Listeners()
        self._checkpoint_lock = threading.Lock()
        self._reshape_lock = threading.RLock()  # deleting or replacing sealed segments, one at a time
        self._checkpoint_due = False
        self._open()

    def _open(self) -> None:
        interval, archived_end = self.settings.index_interval_bytes, self.archive.end_offset
        opened = open_partition(self._storage, self.directory, index_interval=interval, archived_end=archived_end)
        self.recovery_report = opened.report
        elapsed = self._clock.elapsed_ms()
        self._producers = ProducerStates.from_rows(opened.checkpoint.producers, elapsed_ms=elapsed)
        for header in opened.scanned_batches:
            self._producers.note(header, elapsed_ms=elapsed)
        archived = self.archive.segments_beside(opened.segments, start_offset=opened.checkpoint.start_offset)
        ordered = sorted([*archived, *opened.segments], key=lambda segment: segment.base_offset)
        self.segments: tuple[Segment, ...] = tuple(ordered)
        self.start_offset = max(opened.checkpoint.start_offset, self.segments[0].base_offset)
        end = Mark(opened.end_offset, self.segments[-1], self.segments[-1].size)
        self._progress = Progress(end)
        self._unsynced: list[File] = []  # files of sealed segments
        self._directory_unsynced = False
        self._bytes_since_checkpoint = 0
        # Without a checkpoint, a gap between segments could not be told from compaction: the first is written at once.
        self._checkpointed = opened.checkpoint if opened.checkpoint_found else None
        if self.segments[-1].size:
            self.segments[-1].first_append_elapsed_ms = elapsed  # or a log that restarts often would never roll
        self._witness = DurableWitness.open(self._storage, self.directory)
        self._claim(end.offset)
        if not opened.checkpoint_found:
            self.checkpoint()
        elif not opened.as_checkpointed:
            self.checkpoint_if_possible()  # a full disk keeps nobody from reading

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
        return self._progress.end.offset

    @property
    def high_watermark(self) -> int:
        return self._progress.visible.offset

    @property
    def durable_end_offset(self) -> int:
        return self._progress.durable.offset

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches, on the local disk and in the archive together: what retention.bytes is about."""
        return sum(segment.size for segment in self.segments)

    @property
    def local_size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments if segment.local)

    @property
    def checkpointed_segment(self) -> int:
        """Base offset of the segment that was active at the last checkpoint; those before it are sealed for good."""
        return self._checkpointed.segment if self._checkpointed else 0

    @property
    def offline(self) -> bool:
        return self._failure is not None

    @property
    def closed(self) -> bool:
        return self._closed

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(self, batch: bytearray | memoryview, *, durable: bool, keyed: bool = False) -> Appended:
        """Store one whole batch, patched in place with where it went; it is not decoded.

        With `durable` the records stay invisible until make_durable has covered them. Without, they are visible when
        this returns. Either way nothing is safe from a power cut before make_durable. `keyed`: each has a key for sure.
        """
        header = checked_header(batch)
        check_admission(
            self.topic, batch, header, self.settings, keyed=keyed,
            now_ms=self._clock.now_ms(), decompressed_bytes_max=self._log_settings.decompressed_bytes_max,
        )  # fmt: skip
        with self._lock:
            self._raise_if_unusable()
            duplicate = self._producers.find_duplicate(header)
            if duplicate is not None:
                return Appended(
                    duplicate.base_offset, duplicate.last_offset, duplicate.append_time_ms, self.start_offset, True
                )
            check_room(self.topic_partition, self.settings, size_bytes=self.size_bytes, batch_bytes=len(batch))
            header = self._prepared(batch, header)
            self._store(batch, header, durable=durable)
            append_time_ms = header.max_timestamp if header.append_time else -1
            appended = Appended(header.base_offset, header.last_offset, append_time_ms, self.start_offset, False)
            visible = self.high_watermark == self.end_offset
            flush = self._flush_due()
        if visible:
            self._listeners.notify()
        if flush:
            self._background(self.checkpoint_if_possible)
        return appended

    def _prepared(self, batch: bytearray | memoryview, header: BatchHeader) -> BatchHeader:
        base = self.end_offset
        if self.settings.append_time:
            header = stamp_append_time(batch, header, now_ms=self._clock.now_ms())
        place(batch, base_offset=base, leader_epoch=LEADER_EPOCH)
        return header._replace(base_offset=base, leader_epoch=LEADER_EPOCH)

    def _store(self, batch: Buffer, header: BatchHeader, *, durable: bool) -> None:
        try:
            self._write(batch, header)
            self._advance(header, durable=durable)
        except HeadwaterError:
            raise
        except BaseException:
            # Interrupted (Ctrl-C) between the file and the books: the same offset must not be given out again.
            self.take_offline("an append was interrupted")
            raise

    def _write(self, batch: Buffer, header: BatchHeader) -> None:
        try:
            if self._roll_needed(len(batch), header):
                self._roll()
            self.segments[-1].append(batch, header, index_interval=self.settings.index_interval_bytes)
        except OSError as error:
            self._undo_write(error)

    def _undo_write(self, error: OSError) -> None:
        """A failed write may have left a piece of the batch behind: take it away, or take the partition offline."""
        active = self.segments[-1]
        try:
            active.file.truncate(active.size)
        except OSError as truncate_error:
            raise self.take_offline(f"a failed write could not be undone: {truncate_error}") from None
        if out_of_space(error):
            raise DiskFull(*self.topic_partition) from None
        raise self.take_offline(f"a write failed: {error}") from None

    def _advance(self, header: BatchHeader, *, durable: bool) -> None:
        elapsed = self._clock.elapsed_ms()
        active = self.segments[-1]
        active.last_append_ms = self._clock.now_ms()
        if active.first_append_elapsed_ms is None:
            active.first_append_elapsed_ms = elapsed
        self._producers.note(header, elapsed_ms=elapsed)
        self._progress.appended(Mark(header.next_offset, active, active.size), durable=durable)
        self._bytes_since_checkpoint += header.size

    def _flush_due(self) -> bool:
        if self._checkpoint_due or self._bytes_since_checkpoint <= self._log_settings.unflushed_bytes_max:
            return False
        self._checkpoint_due = True
        return True

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
        return first is not None and self._clock.elapsed_ms() - first >= self.settings.segment_age_max_ms

    def _roll(self) -> None:
        """Seal the active segment and begin the next. The sealed one is synced with the next sync, in order."""
        active = self.segments[-1]
        indexes = active.write_indexes()
        # Set first: whether the next segment comes into being or is given up, its name must be settled before an ack.
        self._directory_unsynced = True
        try:
            fresh = Segment.create(self._storage, self.directory, self.end_offset)
            active.seal()
        except OSError:
            self._storage.delete(Segment(self._storage, self.directory, self.end_offset).log_path)
            raise
        self._unsynced += [active.file, *indexes]
        self.segments = (*self.segments, fresh)
        # A mark at the end of the sealed segment says the same as one at the start of the fresh one.
        self._progress.end = Mark(self.end_offset, fresh, 0)

    def roll(self) -> None:
        """Begin a new segment if the active one holds anything, so that it can be retired or compacted."""
        with self._lock:
            self._raise_if_unusable()
            try:
                if self.segments[-1].size:
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

    def local_sealed_segments(self) -> tuple[Segment, ...]:
        return tuple(segment for segment in self.segments[:-1] if segment.local)

    def write_beside(self, name: str, content: bytes) -> None:
        """Replace a small file in the partition's folder; LogClosed if the folder is no longer this partition's."""
        with self._reshape_lock:
            self._raise_if_unusable()
            replace_durably(self._storage, f"{self.directory}/{name}", content)

    def swap_segments(self, old: list[Segment], size: int, *, last_append_ms: int) -> bool:
        """Put the cleaned segment written beside them in the place of neighbours; False if they are no longer there.

        Readers that hold an old segment go on with it undisturbed.
        """
        fresh = Segment(self._storage, self.directory, old[0].base_offset, size=size)
        fresh.last_append_ms = last_append_ms
        with self._reshape_lock:
            if self._closed or any(segment not in self.segments for segment in old):
                return False
            for segment in old:
                segment.pin()
            begin_swap(
                self._storage, self.directory,
                replaced=[segment.base_offset for segment in old], replacement=fresh.base_offset,
            )  # fmt: skip
            try:
                finish_swap(self._storage, self.directory)
            except OSError as error:
                self.take_offline(f"segments were being replaced: {error}")  # the next opening finishes it
                raise
            with self._lock:
                first = self.segments.index(old[0])
                self.segments = (*self.segments[:first], fresh, *self.segments[first + len(old) :])
        return True

    def evict(self, archived: Sequence[Segment]) -> None:
        """Put the archive's copies in the place of local segments, whose files go. Readers do not notice."""
        copies = {segment.base_offset: segment for segment in archived}
        with self._reshape_lock:
            self._raise_if_unusable()
            with self._lock:
                evicted = [segment for segment in self.segments[:-1] if segment.base_offset in copies]
                self.segments = tuple(copies.get(segment.base_offset, segment) for segment in self.segments)
            self._delete_files(evicted)

    # -- durability --------------------------------------------------------------------------------------------------

    def make_durable(self, end: int) -> None:
        """Return when all offsets below `end` are on disk; callers that wait at the same time share one sync."""
        self._syncing.until(lambda: self._online() and self.durable_end_offset >= end)

    def _sync(self) -> None:
        """By one thread at a time: what it takes over from `_unsynced` nobody else knows of."""
        with self._lock:
            target, sealed, directory = self._progress.end, self._unsynced, self._directory_unsynced
            self._unsynced, self._directory_unsynced = [], False
        try:
            for file in sealed:
                file.sync()
            target.segment.file.sync()
            if directory:
                self._storage.sync_directory(self.directory)
        except OSError as error:
            # After a failed sync the pages may be gone although the next sync succeeds: nothing is believed any more.
            raise self.take_offline(f"a sync failed: {error}") from None
        except BaseException:
            with self._lock:  # interrupted (Ctrl-C): all of it is still to be done
                self._unsynced, self._directory_unsynced = sealed + self._unsynced, True
            raise
        with self._lock:
            self._progress.synced(target)
            self._claim(target.offset)
        self._listeners.notify()

    def _claim(self, offset: int) -> None:
        try:
            self._witness.claim(offset)
        except OSError as error:
            # Only a witness: without it a broken batch is judged by the last checkpoint.
            logger.warning("%s: the durable mark could not be written: %s", self.directory, error)

    def take_offline(self, why: str) -> PartitionOffline:
        """Acknowledge nothing more until a restart has read the disk again; answers the error that says so."""
        self._failure = why
        logger.error("%s is offline: %s", self.directory, why)
        self._listeners.notify()
        return PartitionOffline(self.topic, self.number, why)

    def _online(self) -> bool:
        if self._failure is not None:
            raise PartitionOffline(self.topic, self.number, self._failure)
        return True

    def _raise_if_unusable(self) -> None:
        if self._online() and self._closed:
            raise LogClosed

    def checkpoint(self) -> None:
        """Sync everything and write down how far that is, so that the next opening starts reading there."""
        with self._checkpoint_lock:
            if self._closed:
                raise LogClosed  # the folder may belong to a new topic of the same name by now
            self._checkpoint_due = False
            checkpoint, indexes = self._synced_state()
            try:
                for file in indexes:
                    file.sync()
                    file.close()
            except OSError as error:
                # As with the log itself: the next sync would succeed without writing what this one lost.
                raise self.take_offline(f"a sync failed: {error}") from None
            if checkpoint != self._checkpointed:
                write_checkpoint(self._storage, self.directory, checkpoint)
                self._checkpointed = checkpoint

    def _synced_state(self) -> tuple[Checkpoint, list[File]]:
        """What is on disk, and the indexes that go with it, written. The mark lies in the active segment."""
        end = self.end_offset
        while True:
            self._syncing.until(lambda: self._online() and self._progress.settled(end, self.segments[-1]))
            with self._lock:
                mark = self._progress.durable
                if mark.segment is self.segments[-1]:
                    self._bytes_since_checkpoint = 0
                    place = mark.segment.base_offset, mark.position
                    producers = self._producers.to_rows(below=mark.offset)
                    checkpoint = Checkpoint(self.start_offset, mark.offset, *place, producers)
                    return checkpoint, mark.segment.write_indexes()

    def checkpoint_if_possible(self) -> None:
        """As checkpoint, where a failure only means that the next opening reads more."""
        try:
            self.checkpoint()
        except (OSError, UnavailableError) as error:
            if not self._closed:
                logger.warning("%s: no checkpoint could be written: %s", self.directory, error)

    # -- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What readers can see now, as a value; cheap, and safe from any thread."""
        visible = self._progress.visible
        return Snapshot(self.topic_partition, self.segments, visible, self.start_offset, self.end_offset)

    def read(self, offset: int, *, bytes_max: int) -> Slices:
        """Batches from the one that holds `offset` on, at least one of them even if it is larger than `bytes_max`.

        The bytes are not read here, and the last batch may be cut short, as readers of this format expect.
        """
        return self._look(lambda snapshot: snapshot.read(offset, bytes_max=bytes_max))

    def read_verified(self, offset: int, *, bytes_max: int) -> Slices:
        """Like read, but checksums not seen before are checked first: what is damaged is quarantined, not given away.

        Each byte is checked once in the life of a process. It may wait for the disk, where `read` hardly does.
        """
        while True:
            try:
                return self._look(lambda snapshot: snapshot.read_verified(offset, bytes_max=bytes_max))
            except Suspect as suspect:
                if self.quarantine(suspect.offset) is None:
                    raise DamagedRange(self.topic, self.number, first=offset, end=offset + 1) from None

    def _look(self, look: Callable[[Snapshot], Found]) -> Found:
        """Look again where a segment's files went, for good or to the archive, since the snapshot was taken."""
        for turn in range(LOOKS_MAX):
            try:
                found = look(self.snapshot())
                break
            except FileNotFoundError:
                if turn == LOOKS_MAX - 1 and not self._closed:
                    raise
            except OSError as error:
                raise ReadFailed(self.topic, self.number, str(error)) from None
        if self._closed:
            raise LogClosed  # what was found may belong to a new topic of the same name
        return found

    def quarantine(self, offset: int) -> Damage | None:
        """Look at the bytes where `offset` should be; if they are damaged, readers step over them from here on."""
        with self._reshape_lock:
            snapshot = self.snapshot()
            segment = snapshot.segments_from(offset)[0]
            size, end = snapshot.limit(segment), snapshot.end_of(segment)
            try:
                damage = find_damage(segment, offset, size=size, end_offset=end)
                if damage is None:
                    return None
                add_to_quarantine(self._storage, self.directory, segment.base_offset, damage)
            except OSError as error:
                raise ReadFailed(self.topic, self.number, str(error)) from None
            segment.damage += (damage,)
        logger.error("%s: offsets %d to %d are damaged and quarantined", self.directory, *damage.offsets)
        return damage

    def offset_for_time(self, time_ms: int) -> TimeOffset | None:
        """The first record at or after a time."""
        bytes_max = self._log_settings.decompressed_bytes_max
        return self._look(lambda snapshot: snapshot.offset_for_time(time_ms, bytes_max=bytes_max))

    def newest_timestamp(self) -> TimeOffset | None:
        """The record with the largest timestamp, the first of them if several have it."""
        bytes_max = self._log_settings.decompressed_bytes_max
        return self._look(lambda snapshot: snapshot.newest_timestamp(bytes_max=bytes_max))

    # -- giving up records -------------------------------------------------------------------------------------------

    def delete_records(self, before: int) -> int:
        """Make offsets below `before` unreadable for good; -1 means all there are. Answers the new start offset."""
        with self._lock:
            self._raise_if_unusable()
            before = self.high_watermark if before == -1 else before
            if not 0 <= before <= self.high_watermark:
                raise OffsetOutOfRange(
                    self.topic, self.number, before, first=self.start_offset, end=self.high_watermark
                )
            self.start_offset = max(self.start_offset, before)
        self._give_up_below_start()
        return self.start_offset

    def retire(self, before: int) -> None:
        """Give up the sealed segments before the one that begins at this offset."""
        with self._lock:
            self.start_offset = max(self.start_offset, before)
        self._give_up_below_start()

    def _give_up_below_start(self) -> None:
        with self._reshape_lock:
            self._raise_if_unusable()
            try:
                # The start offset is durable before any file goes: after a crash, what is left of them goes too.
                self._checkpoint_or_make_room()
                self._drop_segments_below_start()
                if self.start_offset == self.end_offset:
                    self.roll()  # only a sealed segment can go
                    self._drop_segments_below_start()
            except OSError as error:
                if out_of_space(error):
                    raise DiskFull(*self.topic_partition) from None
                raise PartitionOffline(self.topic, self.number, f"records could not be deleted: {error}") from None

    def _checkpoint_or_make_room(self) -> None:
        try:
            self.checkpoint()
        except OSError as error:
            if not out_of_space(error):
                raise
            self._drop_segments_below_start()  # oldest first, so that a crash leaves no hole but a later start
            self.checkpoint()

    def _drop_segments_below_start(self) -> None:
        with self._lock:
            dropped = 0
            while dropped + 1 < len(self.segments) and self.segments[dropped + 1].base_offset <= self.start_offset:
                dropped += 1
            victims, self.segments = self.segments[:dropped], self.segments[dropped:]
        self._delete_files(victims)
        if victims:
            self._listeners.notify()

    def _delete_files(self, segments: Sequence[Segment]) -> None:
        """Archived copies are not ours to delete here: the archive's next pass sees which are no longer needed."""
        for segment in filter(lambda segment: segment.local, segments):
            for path in segment.paths:
                self._storage.delete(path)
            segment.release()
            self._storage.sync_directory(self.directory)

    # -- listening and closing ---------------------------------------------------------------------------------------

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, from any thread, when more can be read, space was freed, or the partition went away."""
        return self._listeners.add(callback)

    def change_settings(self, settings: TopicSettings) -> None:
        with self._lock:
            self.settings = settings
        self._listeners.notify()  # a topic that was full may have room now

    def expire_producers(self) -> None:
        expiry_ms = milliseconds(self._log_settings.producer_expiry)
        with self._lock:
            self._producers.expire(elapsed_ms=self._clock.elapsed_ms(), expiry_ms=expiry_ms)

    def close(self, *, checkpoint: bool = True) -> None:
        """Stop. With a checkpoint, the next opening has nothing to read."""
        if checkpoint and not self._closed and not self.offline:
            self.checkpoint_if_possible()
        with self._reshape_lock, self._checkpoint_lock, self._lock:
            self._closed = True
            self._witness.close()
        self.archive.close()
        for segment in self.segments:
            segment.release()
        self._listeners.notify()
