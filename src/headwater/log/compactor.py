"""Carry out a compaction pass on one partition; compaction.py decides what it does.

Cleaned segments are written beside the old ones as `*.cleaned`, synced, and then swapped in by a small journal
(segment_swap.py) that a crash cannot leave half done. Readers keep the files they have open. The state of cleaning is
in `cleaning.json`; losing it costs a pass over everything and keeps tombstones longer, nothing else.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headwater.errors import CorruptBatch, DamagedFile, InvalidRecord
from headwater.log.batch_format import (
    HEADER_BYTES,
    LENGTH_END,
    BatchHeader,
    check_crc,
    pack_header,
    seal,
)
from headwater.log.compaction import CLEANING, CleaningPlan, CleaningState, group_segments, plan_cleaning
from headwater.log.compression import compress
from headwater.log.key_map import KeyMap
from headwater.log.partition import Partition
from headwater.log.record_columns import KEY, VALUE, RecordColumns, kept_records, record_columns
from headwater.log.retention import SegmentInfo
from headwater.log.segment import RELATIVE_OFFSET_MAX, BatchAt, Segment
from headwater.log.segment_swap import CLEANED
from headwater.log.storage import Storage, read_small_file
from headwater.log.transactions.open_transactions import AbortedBatches
from headwater.settings import LogSettings

logger = logging.getLogger("headwater.log")


class Stopped(Exception):
    """The log is being closed: a pass is given up, what it swapped in already stays."""


class DamagedBatch(Exception):
    """A batch that must not be believed was met: nothing of this pass is kept but what was swapped in whole."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Compactor:
    """One partition's cleaner. One pass at a time; the log's maintenance sees to that."""

    def __init__(
        self, storage: Storage, partition: Partition, settings: LogSettings, *, stopping: Callable[[], bool]
    ) -> None:
        self._storage, self._partition, self._stopping = storage, partition, stopping
        self._memory_bytes, self._bytes_max = settings.compaction_memory_bytes, settings.decompressed_bytes_max
        self._aborted = AbortedBatches(())

    def run(self, *, now_ms: int) -> bool:
        """Clean if it is worth it; returns whether a pass was made. Damage that it meets is quarantined."""
        try:
            return self._run(now_ms)
        except DamagedBatch as damaged:
            self._partition.quarantine(damaged.offset)
            return False
        except Stopped:
            return False

    def _run(self, now_ms: int) -> bool:
        partition = self._partition
        state = read_state(self._storage, partition.directory)
        sealed, end_offset = self._decided(partition.local_sealed_segments())
        infos = [SegmentInfo(segment.base_offset, segment.last_append_ms, segment.size) for segment in sealed]
        plan = plan_cleaning(infos, end_offset=end_offset, state=state, settings=partition.settings, now_ms=now_ms)
        if plan is None:
            return False
        # From here on the checkpoint lies after every cleaned segment: recovery will not miss the gaps.
        partition.checkpoint()
        self._aborted = AbortedBatches(partition.aborted_between(0, end_offset))
        keys, clean_until = self._read_keys(sealed[: plan.segments], plan)
        retention_ms = partition.settings.delete_retention_ms
        tombstones_below = min(
            state.tombstones_below(now_ms=now_ms, delete_retention_ms=retention_ms),
            # Values in a damaged segment are not cleaned away, so the tombstones that hide them must stay.
            *(segment.base_offset for segment in sealed if segment.damage),
            end_offset,
        )
        if tombstones_below:
            # Before the markers go: without its marker, an aborted transaction would seem to go on.
            partition.forget_aborted(below=min(tombstones_below, clean_until))
        cleaner = _Cleaner(keys, clean_until, tombstones_below, self._bytes_max, self._aborted)
        for group in self._groups(sealed[: plan.segments], plan, clean_until):
            if not self._clean(group, cleaner):
                return False
        after = state.after_pass(clean_until=clean_until, now_ms=now_ms, delete_retention_ms=retention_ms)
        partition.write_beside(CLEANING, state_content(after))
        return True

    def _decided(self, sealed: Sequence[Segment]) -> tuple[Sequence[Segment], int]:
        """The sealed segments in which every transaction has ended, and where they end."""
        stable, segments = self._partition.last_stable_offset, self._partition.segments
        ends = {one.base_offset: following.base_offset for one, following in pairwise(segments)}
        decided = [one for one in sealed if ends.get(one.base_offset, stable + 1) <= stable]
        return decided, ends[decided[-1].base_offset] if decided else 0

    def _read_keys(self, segments: Sequence[Segment], plan: CleaningPlan) -> tuple[KeyMap, int]:
        """The newest offset of each dirty key, and up to where: less than planned if memory does not hold them all."""
        counts = [
            batch.header.record_count
            for segment in segments
            for batch in segment.batches(0, limit=segment.size)
            if batch.header.last_offset >= plan.dirty_from
        ]
        keys = KeyMap(memory_bytes=self._memory_bytes, keys_expected=sum(counts), keys_at_once=max(counts, default=0))
        reached = plan.dirty_from
        for segment in segments:
            for batch, data in self._batches_from(segment, plan.dirty_from):
                needless = batch.header.control or batch.header in self._aborted
                columns = None if needless else _columns_of(data, batch.header, self._bytes_max)
                if columns is not None and not keys.note(columns):
                    return keys, reached
                reached = batch.header.next_offset
        return keys, plan.dirty_until

    def _batches_from(self, segment: Segment, offset: int) -> Iterator[tuple[BatchAt, bytes]]:
        """Yields whole batches that end at or after an offset, each with its checksum verified."""
        for batch in segment.batches(0, limit=segment.size):
            if batch.header.last_offset < offset:
                continue
            if self._stopping():
                raise Stopped
            data = segment.read_batch(batch)
            if len(data) < batch.header.size or not check_crc(data, batch.header):
                raise DamagedBatch(batch.header.base_offset)
            yield batch, data

    def _groups(self, segments: Sequence[Segment], plan: CleaningPlan, clean_until: int) -> Iterator[list[Segment]]:
        """Undamaged neighbours to be written as one. What is damaged is evidence and stays as it is."""
        reached = [segment for segment in segments if segment.base_offset < clean_until]
        by_base = {segment.base_offset: segment for segment in reached}
        runs: list[list[Segment]] = [[]]
        for segment in reached:
            if segment.damage:
                runs.append([])
            else:
                runs[-1].append(segment)
        for run in filter(None, runs):
            infos = [SegmentInfo(segment.base_offset, segment.last_append_ms, segment.size) for segment in run]
            following = [segment.base_offset for segment in segments if segment.base_offset > run[-1].base_offset]
            end = following[0] if following else plan.dirty_until
            for group in group_segments(
                infos, end_offset=end, bytes_max=self._partition.settings.segment_bytes, offsets_max=RELATIVE_OFFSET_MAX
            ):
                yield [by_base[info.base_offset] for info in group]

    def _clean(self, group: list[Segment], cleaner: "_Cleaner") -> bool:
        """Rewrite a group as one segment and swap it in; False if the partition changed under way."""
        fresh = Segment.create(self._storage, self._partition.directory, group[0].base_offset, suffix=CLEANED)
        interval = self._partition.settings.index_interval_bytes
        unchanged = len(group) == 1
        for segment in group:
            for batch, data in self._batches_from(segment, 0):
                header, cleaned = cleaner.cleaned(batch.header, data)
                unchanged = unchanged and cleaned is data
                if cleaned:
                    fresh.append(cleaned, header, index_interval=interval)
        if unchanged:
            for path in fresh.paths:
                self._storage.delete(path)
            return True
        fresh.last_append_ms = max(segment.last_append_ms for segment in group)
        fresh.file.sync()
        for file in fresh.write_indexes():
            file.sync()
            file.close()
        fresh.seal()
        fresh.release()
        return self._partition.swap_segments(group, fresh.size, last_append_ms=fresh.last_append_ms)


class _Cleaner:
    """Decides record by record, in bulk, and writes what is left of a batch."""

    def __init__(
        self, keys: KeyMap, clean_until: int, tombstones_below: int, bytes_max: int, aborted: AbortedBatches
    ) -> None:
        self._keys, self._clean_until, self._aborted = keys, clean_until, aborted
        self._in_transaction: set[int] = set()  # producers of which a record stayed since their last marker
        self._tombstones_below, self._bytes_max = tombstones_below, bytes_max

    def cleaned(self, header: BatchHeader, data: bytes) -> tuple[BatchHeader, bytes]:
        """The batch without needless records: the same bytes if all stay, none if none does."""
        if header.control:
            return header, data if self._needed(header) else b""
        header, cleaned = self._without_needless(header, data)
        if cleaned and header.transactional:
            self._in_transaction.add(header.producer_id)
        return header, cleaned

    def _needed(self, marker: BatchHeader) -> bool:
        """A marker goes as a tombstone does, and never before the last record of its transaction: without it, that one
        would seem to be open."""
        alone = marker.producer_id not in self._in_transaction
        self._in_transaction.discard(marker.producer_id)
        old = marker.last_offset < min(self._tombstones_below, self._clean_until)
        return not (alone and old)

    def _without_needless(self, header: BatchHeader, data: bytes) -> tuple[BatchHeader, bytes]:
        if header.base_offset >= self._clean_until:
            return header, data
        if header in self._aborted:
            return header, b""
        columns = _columns_of(data, header, self._bytes_max)
        if columns is None:
            return header, data
        tombstone = (columns.column(VALUE + 1) < 0) & (columns.column(KEY + 1) >= 0)
        old_tombstone = tombstone & (columns.offsets < self._tombstones_below)
        kept = self._keys.newest(columns) & ~old_tombstone
        if kept.all():
            return header, data
        if not kept.any():
            return header, b""
        return _without(header, columns, kept)


def _columns_of(data: bytes, header: BatchHeader, bytes_max: int) -> RecordColumns | None:
    """None for a batch that is as it was sent, but that nothing can unpack: it stays, and does not stop the others."""
    try:
        return record_columns(data, header, bytes_max=bytes_max)
    except (CorruptBatch, InvalidRecord) as error:
        logger.warning("the batch at offset %d stays uncompacted: %s", header.base_offset, error)
        return None


def _without(header: BatchHeader, columns: RecordColumns, kept: npt.NDArray[np.bool_]) -> tuple[BatchHeader, bytes]:
    """The batch with only the kept records. Its offsets, producer and sequence stay: retries are still recognised."""
    body = compress(header.codec, kept_records(columns, kept))
    header = header._replace(
        length=HEADER_BYTES - LENGTH_END + len(body), max_timestamp=int(columns.timestamps_ms[kept].max()),
        record_count=int(kept.sum()),
    )  # fmt: skip
    batch = pack_header(header) + body
    return header._replace(crc=seal(batch)), bytes(batch)


def read_state(storage: Storage, directory: str) -> CleaningState:
    path = f"{directory}/{CLEANING}"
    try:
        content = read_small_file(storage, path).content
        return CleaningState(content["clean_until"], tuple((end, when) for end, when in content["passes"]))
    except FileNotFoundError:
        return CleaningState()
    except (DamagedFile, ValueError, KeyError, TypeError) as error:
        logger.warning("%s; all of %s is compacted again", error, directory)
        return CleaningState()


def state_content(state: CleaningState) -> dict[str, object]:
    return {"clean_until": state.clean_until, "passes": state.passes}
