"""One append-only file of record batches and its two sparse indexes.

    00000000000000000050.log         batches, one after the other, as producers sent them
    00000000000000000050.index       offset -> position   (offset_index.py)
    00000000000000000050.timeindex   timestamp -> offset  (time_index.py)

The name is the base offset: no record in the file has a smaller one. Names and contents are those of Apache Kafka.

The active segment keeps its indexes in memory and writes them out at checkpoints and when it is sealed; a sealed one
reads the few index entries that a look-up needs from the file, so that a long log costs no memory.
Not thread-safe for writing; the owning Partition serialises that. Reading is safe beside it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, overload

from headwater.log.batch_format import HEADER_BYTES, BatchHeader, Buffer, read_header
from headwater.log.byte_ranges import ByteRanges
from headwater.log.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from headwater.log.offset_index import OffsetIndex, entry_at_or_below
from headwater.log.storage import File, Storage
from headwater.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from headwater.log.time_index import TimeIndex, entry_before, index_ends

NO_TIMESTAMP = -1
HIGHEST_OFFSET = 2**63 - 1
RELATIVE_OFFSET_MAX = 2**31 - 1
SCAN_BYTES = 16 * 1024


def segment_name(base_offset: int) -> str:
    """
    >>> segment_name(50)
    '00000000000000000050'
    """
    return f"{base_offset:020d}"


class Damage(NamedTuple):
    """A range of a segment file that is not what was written: quarantined, never served."""

    position: int
    end_position: int
    first_offset: int
    end_offset: int

    @property
    def offsets(self) -> tuple[int, int]:
        """The first and the last."""
        return self.first_offset, self.end_offset - 1


class BatchAt(NamedTuple):
    position: int
    header: BatchHeader


class Segment:
    local = True  # its files are on this disk; those of an archived one are not (archived_segment.py)

    def __init__(self, storage: Storage, directory: str, base_offset: int, *, size: int = 0, suffix: str = "") -> None:
        self._storage = storage
        self._path = f"{directory}/{segment_name(base_offset)}"
        self._suffix = suffix
        self._pinned = False
        self._file: File | None = None
        self.base_offset = base_offset
        self.size = size
        self.damage: tuple[Damage, ...] = ()
        self.verified = ByteRanges()  # bytes whose checksums this process has seen to be right
        self.last_append_ms = 0
        self.first_append_elapsed_ms: int | None = None
        self._largest: tuple[int, int] | None = None  # (timestamp, last offset of its batch)
        self.active = False  # being written: its indexes are in memory
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._unindexed_bytes = 0
        self._indexes_cover = -1  # size when the indexes were last written

    # -- files ---------------------------------------------------------------------------------------------------

    @property
    def log_path(self) -> str:
        return f"{self._path}.log{self._suffix}"

    @property
    def index_path(self) -> str:
        return f"{self._path}.index{self._suffix}"

    @property
    def time_index_path(self) -> str:
        return f"{self._path}.timeindex{self._suffix}"

    @property
    def paths(self) -> tuple[str, str, str]:
        return self.log_path, self.index_path, self.time_index_path

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            opened = self._open(self.log_path)
            # If the segment was pinned meanwhile, the path may have come to mean its successor.
            file = self._file if self._pinned and self._file is not None else opened
            self._file = file
        return file

    def _open(self, path: str) -> File:
        return self._storage.open(path)

    @classmethod
    def create(cls, storage: Storage, directory: str, base_offset: int, *, suffix: str = "") -> "Segment":
        """A new, empty, active segment. The caller syncs the directory before anything in it is acknowledged."""
        segment = cls(storage, directory, base_offset, suffix=suffix)
        segment._file = storage.open(segment.log_path, create=True)
        segment._file.truncate(0)
        for path in (segment.index_path, segment.time_index_path):
            storage.delete(path)
        segment.activate(OffsetIndex(), TimeIndex())
        return segment

    def activate(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Take these indexes as the state so far, and continue from there."""
        self._offsets, self._times, self.active = offsets, times, True
        self._largest = self._with_base(times.entries[-1]) if times.entries else None
        self._unindexed_bytes = 0

    def release(self) -> None:
        """Close the file; it is opened again when needed. Readers that hold it are not disturbed."""
        if not self._pinned:
            self._file = None

    def pin(self) -> None:
        """Hold all of it open and in memory, so that readers of this object stay right while its files are replaced."""
        self._file = self.file
        offsets, times = (self._storage.open(path) for path in (self.index_path, self.time_index_path))
        self._offsets = OffsetIndex.from_bytes(offsets.read_at(0, offsets.size()))
        self._times = TimeIndex.from_bytes(times.read_at(0, times.size()))
        self._pinned = True

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, batch: Buffer, header: BatchHeader, *, index_interval: int) -> None:
        """Append a batch whose offsets are assigned.

        If the write fails, the file keeps its length, or an OSError is raised.
        """
        position = self.size
        self.file.write_at(position, [batch])
        self.size = position + len(batch)
        self.verified.add(position, self.size)
        self.note_batch(BatchAt(position, header), index_interval=index_interval)

    def note_batch(self, batch: BatchAt, *, index_interval: int) -> None:
        """Account for a batch that is in the file: largest timestamp and index entries."""
        assert self._offsets is not None, "only an active segment is indexed"
        header = batch.header
        if self._largest is None or header.max_timestamp > self._largest[0]:
            self._largest = (header.max_timestamp, header.last_offset)
        # As in Kafka, an entry is written before the batch that passes the interval, and never for the first batch.
        if self._unindexed_bytes > index_interval:
            self._offsets.add(header.last_offset - self.base_offset, batch.position)
            self._note_largest()
            self._unindexed_bytes = 0
        self._unindexed_bytes += header.size

    def _note_largest(self) -> None:
        assert self._times is not None
        if self._largest is not None:
            timestamp, offset = self._largest
            self._times.add(timestamp, offset - self.base_offset)

    def write_indexes(self) -> list[File]:
        """Write both indexes to their files; the files are returned to be synced. None, if nothing was added since."""
        assert self._offsets is not None
        assert self._times is not None
        if self._indexes_cover == self.size:
            return []
        covered = self.size
        self._note_largest()
        written = []
        for path, data in ((self.index_path, self._offsets.to_bytes()), (self.time_index_path, self._times.to_bytes())):
            file = self._storage.open(path, create=True)
            file.write_at(0, [data])
            file.truncate(len(data))
            written.append(file)
        self._indexes_cover = covered
        return written

    def index_ends(self, offset: int) -> list[list[int]] | None:
        """Where its indexes end below an offset, for the checkpoint."""
        assert self._offsets is not None
        assert self._times is not None
        below = bisect_left(self._offsets.entries, offset - self.base_offset, key=itemgetter(0))
        return index_ends(self._offsets.entries[max(0, below - 1) : below], self._times.entries)

    def write_indexes_again(self) -> None:
        """What `write_indexes` wrote was not synced, and will not be: have the next call write and return it."""
        self._indexes_cover = -1

    def seal(self) -> None:
        """No more batches: from here on look-ups read the index files, which must have been written."""
        self._storage.set_modified_ms(self.log_path, self.last_append_ms)  # may fail: then it is still active
        self.active = False
        self._offsets = self._times = None

    # -- look-ups ------------------------------------------------------------------------------------------------

    def largest_timestamp(self) -> tuple[int, int] | None:
        """The largest timestamp and the last offset of the batch that has it; None if there are no records."""
        if self._largest is None and not self.active:
            entries = self._time_entries()
            last = entries[len(entries) - 1] if len(entries) else None
            self._largest = (
                self._with_base(last) if last and self._has_time_as_indexed(last) else self._largest_of_all()
            )
        return self._largest

    def _largest_of_all(self) -> tuple[int, int] | None:
        """From the headers of all batches, where the index is wrong; of equal timestamps the first counts."""
        headers = (batch.header for batch in self.batches(0, limit=self.size))
        largest = max(headers, key=lambda header: header.max_timestamp, default=None)
        return None if largest is None else (largest.max_timestamp, largest.last_offset)

    def position_of(self, offset: int, *, limit: int) -> BatchAt | None:
        """Returns the batch that holds `offset`, or the first after it; None if that lies at or after byte `limit`."""
        return self.batch_from(self.scan_start(offset), offset, limit=limit)

    def batch_from(self, start: int, offset: int, *, limit: int) -> BatchAt | None:
        """As position_of, where to start scanning is known."""
        return next((batch for batch in self.batches(start, limit=limit) if batch.header.last_offset >= offset), None)

    def scan_start(self, offset: int) -> int:
        """Start of a batch at or before the one that holds `offset`, as the index knows it.

        An index has no checksum, and one in memory may have come from a file. What it says is held against the batch it
        points to: a wrong entry costs a longer scan, never a record.
        """
        entry = entry_at_or_below(self._offset_entries(), offset - self.base_offset)
        return entry[1] if entry is not None and self._ends_as_indexed(entry, offset) else 0

    def offset_bound(self, position: int) -> int:
        """An offset at or after those of all batches that begin before a byte, as near as the index knows.

        A wrong entry, too, gives one that is too high, never one that is too low.
        """
        entries = self._offset_entries()
        following = bisect_left(entries, position, key=itemgetter(1))
        if following == len(entries) or not self._ends_as_indexed(entries[following], HIGHEST_OFFSET):
            return HIGHEST_OFFSET
        return self.base_offset + entries[following][0] + 1

    def _ends_as_indexed(self, entry: tuple[int, int], offset: int) -> bool:
        last_offset, position = entry[0] + self.base_offset, entry[1]
        header = self.file.read_at(position, HEADER_BYTES) if position + HEADER_BYTES <= self.size else b""
        return len(header) == HEADER_BYTES and read_header(header).last_offset == last_offset <= offset

    def batch_for_time(self, timestamp_ms: int, *, limit: int) -> BatchAt | None:
        """The first batch with a record at or after the time."""
        before = entry_before(self._time_entries(), timestamp_ms)
        start = self.scan_start(before[1] + self.base_offset) if before and self._has_time_as_indexed(before) else 0
        for batch in self.batches(start, limit=limit):
            if batch.header.max_timestamp >= timestamp_ms:
                return batch
        return None

    def _has_time_as_indexed(self, entry: tuple[int, int]) -> bool:
        timestamp_ms, offset = self._with_base(entry)
        batch = self.position_of(offset, limit=self.size)
        return batch is not None and (batch.header.max_timestamp, batch.header.last_offset) == (timestamp_ms, offset)

    def batches(self, position: int, *, limit: int) -> Iterator[BatchAt]:
        """Headers from a batch start on, damage skipped; reads little more than the headers."""
        file, chunk, chunk_start = self.file, b"", position
        while position < limit:
            position = self._behind_damage(position)
            if position + HEADER_BYTES > limit:
                return
            if not chunk_start <= position <= chunk_start + len(chunk) - HEADER_BYTES:
                chunk, chunk_start = file.read_at(position, SCAN_BYTES), position
                if len(chunk) < HEADER_BYTES:
                    return
            header = read_header(chunk, position - chunk_start)
            if header.length <= 0:
                return  # zeros: damage not noticed yet; `log check` finds it
            yield BatchAt(position, header)
            position += header.size

    def _behind_damage(self, position: int) -> int:
        for damage in self.damage:
            if damage.position <= position < damage.end_position:
                return damage.end_position
        return position

    def clip_to_damage(self, position: int, end: int) -> int:
        """How far a read from `position` may go before it meets damage; what is missing without a trace is none."""
        ahead = [damage for damage in self.damage if position <= damage.position < damage.end_position]
        return min([end, *(damage.position for damage in ahead)])

    def read_batch(self, batch: BatchAt) -> bytes:
        return self.file.read_at(batch.position, batch.header.size)

    def _with_base(self, entry: tuple[int, int]) -> tuple[int, int]:
        return entry[0], entry[1] + self.base_offset

    def _offset_entries(self) -> Sequence[tuple[int, int]]:
        if self._offsets is None:
            file = self._open(self.index_path)
            # Looked at again: if it was pinned meanwhile, the path may have come to mean its successor.
            if self._offsets is None:
                return _FileEntries(file, OFFSET_ENTRY_BYTES)
        return self._offsets.entries

    def _time_entries(self) -> Sequence[tuple[int, int]]:
        if self._times is None:
            file = self._open(self.time_index_path)
            if self._times is None:
                return _FileEntries(file, TIME_ENTRY_BYTES)
        return self._times.entries


class _FileEntries(Sequence[tuple[int, int]]):
    """Index entries read one by one from the file: a look-up needs about eighteen of a quarter million."""

    def __init__(self, file: File, entry_bytes: int) -> None:
        self._file, self._entry_bytes = file, entry_bytes
        self._count = file.size() // entry_bytes
        self._first = entry_bytes - 4  # both kinds end in a uint32

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        entry = self._file.read_at(index * self._entry_bytes, self._entry_bytes)
        first = int.from_bytes(entry[: self._first], "big", signed=self._first == 8)
        return first, int.from_bytes(entry[self._first :], "big")
