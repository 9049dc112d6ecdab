"""One partition: an ordered sequence of segments, the last of them written.

Three offsets describe its progress:

    start_offset <= high_watermark <= end_offset

Readers see what lies below the high watermark; what they may ask is in readable_partition.py. A batch appended with
`durable=True` stays above it until it is synced, so that no reader sees a record that a power cut can lose; one
appended without is visible at once.

Locks, in order: `_reshape_lock` while sealed segments are deleted or replaced, `_checkpoint_lock` for a checkpoint, and
`_lock` for all that changes. That one is held for a write to the page cache, never for a sync: one thread syncs for all
who wait (shared_work.py).
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headwater.clock import Clock
from headwater.errors import (
    ConditionalAppendsOnly,
    DiskFull,
    EndOffsetMoved,
    HeadwaterError,
    LogClosed,
    OffsetOutOfRange,
    PartitionOffline,
    UnavailableError,
)
from headwater.log.admission import admitted, check_room
from headwater.log.appended import Appended, Owner
from headwater.log.archive import PartitionArchive
from headwater.log.batch_format import BatchHeader, Buffer, assign_offsets, checked_header, stamp_append_time
from headwater.log.checkpoint import Checkpoint, DurableWitness, write_checkpoint
from headwater.log.listeners import Listeners
from headwater.log.manifest import Gap
from headwater.log.producer_state import Producer, ProducerStates, StoredBatch
from headwater.log.progress import Progress
from headwater.log.quarantine import add_to_quarantine
from headwater.log.readable_partition import LEADER_EPOCH, ReadablePartition
from headwater.log.recovery import Opened, open_partition
from headwater.log.segment import RELATIVE_OFFSET_MAX, Damage, Segment
from headwater.log.segment_swap import begin_swap, finish_swap
from headwater.log.shared_work import SharedWork
from headwater.log.snapshot import Mark
from headwater.log.storage import File, Storage, out_of_space, write_small_file
from headwater.log.topic_settings import TopicSettings
from headwater.log.transactions.aborted_index import Lost, rebuilt, replay
from headwater.log.transactions.markers import Marker
from headwater.log.transactions.open_transactions import OpenTransactions, TransactionRows, Undecided
from headwater.record import TopicPartition
from headwater.settings import LogSettings, milliseconds

logger = logging.getLogger("headwater.log")


class Partition(ReadablePartition):
    def __init__(
        self,
        storage: Storage,
        topic_partition: TopicPartition,
        *,
        topic_settings: TopicSettings,
        log_settings: LogSettings,
        owner: Owner,
        archive: PartitionArchive,
        clock: Clock,
        background: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(storage, topic_partition, log_settings)
        self.archive, self._owner = archive, owner
        self.settings = topic_settings
        self._clock, self._background = clock, background
        self._lock = threading.RLock()
        self._syncing = SharedWork(self._sync)
        self._listeners = Listeners()
        self._checkpoint_lock = threading.Lock()
        self._checkpoint_due = False
        self._open()

    def _open(self) -> None:
        interval, archived = self.settings.index_interval_bytes, self.archive.offsets
        opened = open_partition(self._storage, self.directory, index_interval=interval, archived=archived)
        self.recovery_report, self._manifest, self._gaps = opened.report, opened.manifest, opened.gaps
        elapsed = self._clock.elapsed_ms()
        self._producers = ProducerStates.from_rows(opened.checkpoint.producers, elapsed_ms=elapsed)
        for header in opened.scanned_batches:
            self._producers.note(header, elapsed_ms=elapsed)
        self._aborted_index = opened.transactions
        beside = self.archive.segments_beside(opened.segments, start_offset=opened.checkpoint.start_offset)
        ordered = sorted([*beside, *opened.segments], key=lambda segment: segment.base_offset)
        self.segments = tuple(ordered)
        # What is missing at the start is a gap like any other: should it come back, it is read again.
        first = min([self.segments[0].base_offset, *(gap.first_offset for gap in self._gaps)])
        self.start_offset = max(opened.checkpoint.start_offset, first)
        self.transactions = self._transactions_found(opened)
        end = Mark(opened.end_offset, self.segments[-1], self.segments[-1].size)
        self._progress = Progress(end)
        self._unsynced: list[File] = []  # files of sealed segments
        self._directory_unsynced = False
        self._bytes_since_checkpoint = 0
        # Without a checkpoint, a gap between segments could not be distinguished from compaction: the first is written
        # at once.
        self._checkpointed = opened.checkpoint if opened.checkpoint_found else None
        if self.segments[-1].size:
            self.segments[-1].first_append_elapsed_ms = elapsed  # or a log that restarts often would never roll
        self._witness = DurableWitness.open(self._storage, self.directory)
        self._claim(end.offset)
        if not opened.checkpoint_found:
            self.checkpoint()
        elif not opened.as_checkpointed or (len(self.segments) > 1 and not opened.manifest.version):
            self.checkpoint_if_possible()  # a full disk does not prevent reads

    def _transactions_found(self, opened: Opened) -> OpenTransactions:
        """As the index had them at the last checkpoint, and what the log says after it."""
        index, recovered = opened.transactions, opened.checkpoint.recovery_offset
        damage = [one for segment in opened.segments for one in segment.damage]
        lost = [Lost(one.first_offset, one.end_offset) for one in damage]
        lost += [Lost(gap.first_offset, gap.end_offset) for gap in opened.gaps]
        state = index.state if index.state is not None else rebuilt(self.segments, lost, until=recovered)
        begin = max(index.end, recovered if opened.checkpoint_found else 0)
        headers = (header for header in opened.scanned_batches if header.base_offset >= begin)
        later = ((header, opened.scanned_markers.get(header.base_offset)) for header in headers)
        replay(state, later, [one for one in lost if one.end_offset > begin])
        state.durable(opened.end_offset)
        return state

    # -- where it is -------------------------------------------------------------------------------------------------

    @property
    def checkpointed_segment(self) -> int:
        """Base offset of the segment that was active at the last checkpoint; those before it are sealed for good."""
        return self._checkpointed.segment if self._checkpointed else 0

    @property
    def largest_producer_id(self) -> int:
        """Of the producers that it remembers; -1 if there are none."""
        return self._producers.largest_id

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(
        self, batch: bytearray | memoryview, *, durable: bool, keyed: bool = False, marker: Marker | None = None,
        coordinator: bool = False, at: int | None = None,
    ) -> Appended:  # fmt: skip
        """Store one whole batch, patched with where it went; not decoded but where the topic has its compression.

        With `durable` the records stay invisible until make_durable has covered them. Without, they are visible when
        this returns. Either way nothing is safe from a power cut before make_durable. `keyed`: each has a key for sure.

        `coordinator`: the batch is the transaction coordinator's own, a `marker` maybe. Whether a batch may be part of
        a transaction at all is for the coordinator to say, before.

        `at`: store it at this offset only; EndOffsetMoved if the partition ends elsewhere, since another append came
        first. What was decided from the records before `at` then still holds: a check and its append are one step.
        """
        header = checked_header(batch)
        if not coordinator:
            batch, header = admitted(
                self.topic, batch, header, self.settings, keyed=keyed,
                now_ms=self._clock.now_ms(), decompressed_bytes_max=self._log_settings.decompressed_bytes_max,
            )  # fmt: skip
        with self._lock:
            self._raise_if_unusable()
            duplicate = self._duplicate_of(header, batch, coordinator=coordinator)
            if duplicate is None and not coordinator:
                self._check_condition(at)
            if duplicate is not None:
                return Appended(
                    duplicate.base_offset, duplicate.last_offset, duplicate.append_time_ms, self.start_offset, True
                )
            header = self._prepared(batch, header)
            self._store(batch, header, durable=durable, marker=marker)
            append_time_ms = header.max_timestamp if header.append_time else -1
            appended = Appended(header.base_offset, header.last_offset, append_time_ms, self.start_offset, False)
            visible = self.high_watermark == self.end_offset
            flush = self._flush_due()
        if visible:
            self._listeners.notify()
        if flush:
            self._background(self.checkpoint_if_possible)
        return appended

    def _duplicate_of(self, header: BatchHeader, batch: Buffer, *, coordinator: bool) -> StoredBatch | None:
        """The stored batch that this one repeats, if any; an error says why it may not be stored."""
        if coordinator:
            self._producers.check_own(header)
            return None
        duplicate = self._producers.find_duplicate(header)
        if duplicate is None:
            self.transactions.check(header)
            check_room(self.topic_partition, self.settings, size_bytes=self.size_bytes, batch_bytes=len(batch))
        return duplicate

    def _check_condition(self, at: int | None) -> None:
        if at is None and self.settings.conditional:
            raise ConditionalAppendsOnly(self.topic)
        if at is not None and at != self.end_offset:
            raise EndOffsetMoved(*self.topic_partition, expected=at, actual=self.end_offset)

    def _prepared(self, batch: bytearray | memoryview, header: BatchHeader) -> BatchHeader:
        base = self.end_offset
        if self.settings.append_time:
            header = stamp_append_time(batch, header, now_ms=self._clock.now_ms())
        assign_offsets(batch, base_offset=base, leader_epoch=LEADER_EPOCH)
        return header._replace(base_offset=base, leader_epoch=LEADER_EPOCH)

    def _store(self, batch: Buffer, header: BatchHeader, *, durable: bool, marker: Marker | None) -> None:
        try:
            self._write(batch, header)
            # Before readers see the batch: they must know that it is in a transaction.
            self.transactions.note(header, marker)
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
        """A failed write may have left part of the batch in the file: truncate it, or take the partition offline."""
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
            active.write_indexes_again()
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

    def write_beside(self, name: str, content: object) -> None:
        """Replace a small file in the partition's folder; LogClosed if the folder is no longer this partition's."""
        with self._reshape_lock:
            self._raise_if_unusable()
            write_small_file(self._storage, f"{self.directory}/{name}", content)

    def swap_segments(self, old: list[Segment], size: int, *, last_append_ms: int) -> bool:
        """Replace neighbouring segments with the cleaned segment made of them; False if they are no longer there.

        Readers that hold an old segment keep reading it undisturbed.
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
                finish_swap(self._storage, self.directory, self._manifest)
            except OSError as error:
                self.take_offline(f"segments were being replaced: {error}")  # the next opening finishes it
                raise
            with self._lock:
                first = self.segments.index(old[0])
                self.segments = (*self.segments[:first], fresh, *self.segments[first + len(old) :])
        return True

    def evict(self, archived: Sequence[Segment]) -> None:
        """Replace local segments with the archive's copies and delete the local files. Readers do not notice."""
        copies = {segment.base_offset: segment for segment in archived}
        with self._reshape_lock:
            self._raise_if_unusable()
            with self._lock:
                evicted = [segment for segment in self.segments[:-1] if segment.base_offset in copies]
                self.segments = tuple(copies.get(segment.base_offset, segment) for segment in self.segments)
            self._manifest.record(self.segments, below=self.checkpointed_segment, start_offset=self.start_offset)
            self._delete_files(evicted)

    def replace_sealed(self, segment: Segment, found: Gap | Damage) -> None:
        """Drops the lost part of a sealed segment's file. The archive's copy is used instead."""
        with self._reshape_lock:
            if self._closed or segment not in self.segments:
                return
            if self.archive.holds(segment):
                logger.error("%s is damaged or missing; the archive's copy is used", segment.log_path)
                fresh = [self.archive.segment_like(segment)]
            elif isinstance(found, Damage):
                fresh = [Segment(self._storage, self.directory, segment.base_offset, size=found.end_position)]
                fresh[0].last_append_ms, fresh[0].damage = segment.last_append_ms, (*segment.damage, found)
                add_to_quarantine(self._storage, self.directory, segment.base_offset, found)
                logger.error("%s was cut off: offsets %d to %d are missing", segment.log_path, *found.offsets)
            else:
                logger.error("%s: %s", self.directory, found)
                fresh = []
                self._gaps = [*self._gaps, found]
            with self._lock:
                index = self.segments.index(segment)
                self.segments = (*self.segments[:index], *fresh, *self.segments[index + 1 :])

    def lacks_checksum(self, segment: Segment) -> bool:
        row = self._manifest.segments.get(segment.base_offset)
        return row is not None and row.crc32c is None and row.size == segment.size and not segment.damage

    def note_checksums(self, checksums: Mapping[Segment, int]) -> None:
        with self._reshape_lock:
            known = {segment: checksum for segment, checksum in checksums.items() if segment in self.segments}
            if not self._closed and known:
                self._manifest.note_checksums(
                    {one.base_offset: checksum for one, checksum in known.items() if self.lacks_checksum(one)}
                )

    # -- durability --------------------------------------------------------------------------------------------------

    def make_durable(self, end: int) -> None:
        """Return when all offsets below `end` are on disk; callers that wait at the same time share one sync."""
        self._syncing.until(lambda: self._online() and self.durable_end_offset >= end)

    def _sync(self) -> None:
        """Called by one thread at a time: no other thread knows the batches it takes from `_unsynced`."""
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
            # After a failed sync the kernel may have dropped the pages although the next sync succeeds: no later sync
            # is trusted.
            raise self.take_offline(f"a sync failed: {error}") from None
        except BaseException:
            with self._lock:  # interrupted (Ctrl-C): all of it is still to be done
                self._unsynced, self._directory_unsynced = sealed + self._unsynced, True
            raise
        with self._lock:
            self._progress.synced(target)
            self.transactions.durable(target.offset)
            self._claim(target.offset)
        self._listeners.notify()

    def _claim(self, offset: int) -> None:
        try:
            self._witness.claim(offset)
        except OSError as error:
            # Only a witness: without it a broken batch is classified by the last checkpoint.
            logger.warning("%s: the durable mark could not be written: %s", self.directory, error)

    def take_offline(self, why: str) -> PartitionOffline:
        """Acknowledge nothing more until a restart has read the disk again; returns the error that says so."""
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
        with self._reshape_lock, self._checkpoint_lock:
            if self._closed:
                raise LogClosed  # the folder may belong to a new topic of the same name by now
            self._checkpoint_due = False
            checkpoint, indexes, transactions = self._synced_state()
            try:
                for file in indexes:
                    file.sync()
                    file.close()
            except OSError as error:
                # As with the log itself: the next sync would succeed without writing what this one lost.
                raise self.take_offline(f"a sync failed: {error}") from None
            self._manifest.record(self.segments, below=checkpoint.segment, start_offset=checkpoint.start_offset)
            self._aborted_index.write(transactions, end=checkpoint.recovery_offset)
            checkpoint = replace(checkpoint, manifest=self._manifest.version, transactions=self._aborted_index.version)
            if checkpoint != self._checkpointed:
                write_checkpoint(self._storage, self.directory, checkpoint)
                self._checkpointed = checkpoint

    def _synced_state(self) -> tuple[Checkpoint, list[File], TransactionRows]:
        """Returns a checkpoint of the synced log, with its mark in the active segment, the index files written, and the
        transactions as they were there."""
        end = self.end_offset
        while True:
            self._syncing.until(lambda: self._online() and self._progress.settled(end, self.segments[-1]))
            with self._lock:
                mark = self._progress.durable
                if mark.segment is self.segments[-1]:
                    self._bytes_since_checkpoint = 0
                    location = mark.segment.base_offset, mark.position
                    producers = self._producers.to_rows(below=mark.offset)
                    checkpoint = Checkpoint(
                        self.start_offset, mark.offset, *location, producers, *self._owner,
                        index_ends=mark.segment.index_ends(mark.offset),
                    )  # fmt: skip
                    self.transactions.forget(below=self.start_offset)
                    transactions = self.transactions.to_rows(below=mark.offset)
                    return checkpoint, mark.segment.write_indexes(), transactions

    def checkpoint_if_possible(self) -> None:
        """As checkpoint, where a failure only means that the next opening reads more."""
        try:
            self.checkpoint()
        except (OSError, UnavailableError) as error:
            if not self._closed:
                logger.warning("%s: no checkpoint could be written: %s", self.directory, error)

    # -- giving up records -------------------------------------------------------------------------------------------

    def delete_records(self, before: int) -> int:
        """Make offsets below `before` unreadable for good; -1 means all there are. Returns the new start offset."""
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
            open_now = {one.producer_id for one in self.transactions.open()}
            self._producers.expire(elapsed_ms=self._clock.elapsed_ms(), expiry_ms=expiry_ms, kept=open_now)

    # -- transactions ------------------------------------------------------------------------------------------------

    def producers(self) -> list[tuple[int, Producer, Undecided | None]]:
        """Those that it remembers, each with the transaction it has open here."""
        with self._lock:
            return [(id, one, self.transactions.open_of(id)) for id, one in self._producers.described()]

    def forget_aborted(self, *, below: int) -> None:
        """Compaction has removed all records of transactions that were aborted below an offset. Durable on return."""
        with self._lock:
            self.transactions.forget(below=below)
        self.checkpoint()

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
