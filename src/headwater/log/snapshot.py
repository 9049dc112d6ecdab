"""A read snapshot of a partition: visible records and their segments. An immutable value.

Looking things up reads indexes and a few batch headers, never records, but for the one batch that a time leads to.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from headwater.errors import CorruptBatch, InvalidRecord, OffsetOutOfRange, UnsupportedFormat
from headwater.log.batch_format import batch_times
from headwater.log.scan import find_damage, verify
from headwater.log.segment import BatchAt, Segment
from headwater.log.storage import File
from headwater.record import TopicPartition

UNTRUE_BATCHES_MAX = 64
"""Batches that hold no record of the time their header promises, after which a look-up believes the header."""


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
    verified: bool = True  # False: read_verified must look at these bytes before they are given away
    end_offset: int = -1  # at or after the last record in these bytes


class Mark(NamedTuple):
    """An offset and where it is: everything before it lies before that byte of that segment."""

    offset: int
    segment: Segment
    position: int


class Found(NamedTuple):
    """Bytes to read, and the bytes whose headers led there: (segment, from, to)."""

    segment: Segment
    piece: Slice
    way: list[tuple[Segment, int, int]]


class Suspect(Exception):
    """What should lead to this offset is not what was written: to be looked at, and quarantined."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Snapshot(NamedTuple):
    topic_partition: TopicPartition
    segments: tuple[Segment, ...]
    visible: Mark
    start_offset: int
    end_offset: int

    @property
    def local_start_offset(self) -> int:
        """First offset that is read without the archive."""
        first = next(segment for segment in self.segments if segment.local)
        return max(self.start_offset, first.base_offset)

    def until(self, offset: int) -> "Snapshot":
        """As readers see it who see only what lies below an offset; a batch begins there."""
        if offset >= self.visible.offset:
            return self
        segment = self.segments_from(offset)[0]
        limit = self.limit(segment)
        batch = segment.position_of(offset, limit=limit)
        return self._replace(visible=Mark(offset, segment, limit if batch is None else batch.position))

    def nothing(self) -> Slices:
        return Slices([], 0, self.visible.offset, self.start_offset)

    def limit(self, segment: Segment) -> int:
        """How much of a segment readers may see."""
        if segment.base_offset > self.visible.segment.base_offset:
            return 0
        return self.visible.position if segment is self.visible.segment else segment.size

    def segments_from(self, offset: int) -> tuple[Segment, ...]:
        """Returns the segment that holds an offset, and all later segments."""
        index = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1
        return self.segments[max(index, 0) :]

    def end_of(self, segment: Segment) -> int:
        """Returns the end offset of a segment, limited to what readers may see."""
        later = self.segments[self.segments.index(segment) + 1 :]
        return min([self.visible.offset, *(following.base_offset for following in later[:1])])

    def find(self, offset: int, *, bytes_max: int) -> Found | None:
        """Where to read for an offset, at least a whole batch; None at the end."""
        if not self.start_offset <= offset <= self.end_offset:
            topic, partition = self.topic_partition
            raise OffsetOutOfRange(topic, partition, offset, first=self.start_offset, end=self.end_offset)
        way: list[tuple[Segment, int, int]] = []
        for segment in self.segments_from(offset):
            if offset >= self.visible.offset or segment.base_offset >= self.visible.offset:
                break
            start, limit = segment.scan_start(offset), self.limit(segment)
            batch = segment.batch_from(start, offset, limit=limit)
            if batch is not None:
                way.append((segment, start, batch.position))
                return Found(segment, self._slice(segment, batch, limit, bytes_max), way)
            way.append((segment, start, limit))
        return None

    def read(self, offset: int, *, bytes_max: int) -> Slices:
        found = self.find(offset, bytes_max=bytes_max)
        if found is None:
            return self.nothing()
        piece = found.piece
        bytes_used = [*found.way, (found.segment, piece.position, piece.position + piece.length)]
        verified = all(segment.verified.covers(start, end) for segment, start, end in bytes_used)
        return self._slices(found.segment, piece, verified=verified)

    def read_verified(self, offset: int, *, bytes_max: int) -> Slices:
        """As read, up to the first byte that is not what was written; Suspect if that is the first one."""
        found = self.find(offset, bytes_max=bytes_max)
        if found is None:
            return self.nothing()
        for passed, start, end in found.way:
            self._check_way(passed, start, end, max(offset, passed.base_offset))
        segment, piece = found.segment, found.piece
        size, end_offset = self.limit(segment), self.end_of(segment)
        length = verify(segment, piece.position, piece.length, size=size, end_offset=end_offset)
        if not length:
            raise Suspect(max(offset, segment.base_offset))
        return self._slices(segment, piece._replace(length=length))

    def _slices(self, segment: Segment, piece: Slice, *, verified: bool = True) -> Slices:
        end = min(self.end_of(segment), segment.offset_bound(piece.position + piece.length))
        return Slices([piece], piece.length, self.visible.offset, self.start_offset, verified, end)

    def _check_way(self, segment: Segment, start: int, end: int, offset: int) -> None:
        """Headers led from where the index points to what was found; a wrong one may have led past what is wanted."""
        size, end_offset = self.limit(segment), self.end_of(segment)
        if verify(segment, start, end - start, size=size, end_offset=end_offset) == end - start:
            return
        if find_damage(segment, offset, size=size, end_offset=end_offset) is not None:
            raise Suspect(offset)

    def local(self, offset: int) -> bool:
        """Whether the offset is on this disk. If not, reading it asks the archive, and may take seconds."""
        return self.segments_from(offset)[0].local

    def _slice(self, segment: Segment, batch: BatchAt, limit: int, bytes_max: int) -> Slice:
        wanted = min(batch.position + max(bytes_max, batch.header.size), limit)
        end = segment.clip_to_damage(batch.position, wanted)
        return Slice(segment.file, batch.position, end - batch.position)

    def offset_for_time(self, time_ms: int, *, bytes_max: int) -> TimeOffset | None:
        for segment in self.segments:
            largest = segment.largest_timestamp()
            if largest is None or largest[0] < time_ms:
                continue
            found = self._record_at_time(segment, time_ms, bytes_max)
            if found is not None:
                return found
        return None

    def _record_at_time(self, segment: Segment, time_ms: int, bytes_max: int) -> TimeOffset | None:
        limit = self.limit(segment)
        batch = segment.batch_for_time(time_ms, limit=limit)
        tried = 0
        while batch is not None:
            found = next((t for t in self._times_in(segment, batch, bytes_max) if t.timestamp_ms >= time_ms), None)
            if found is not None:
                return found
            tried += batch.header.last_offset >= self.start_offset
            if tried >= UNTRUE_BATCHES_MAX:
                # Headers that say what the records do not: each costs the unpacking of a batch. Too early is not wrong.
                return TimeOffset(batch.header.max_timestamp, max(batch.header.base_offset, self.start_offset))
            following = segment.batches(batch.position + batch.header.size, limit=limit)
            batch = next((b for b in following if b.header.max_timestamp >= time_ms), None)
        return None

    def newest_timestamp(self, *, bytes_max: int) -> TimeOffset | None:
        newest: TimeOffset | None = None
        largest = [(found[0], segment) for segment in self.segments if (found := segment.largest_timestamp())]
        for timestamp_ms, segment in sorted(largest, key=lambda pair: (-pair[0], pair[1].base_offset)):
            if newest is not None and newest.timestamp_ms > timestamp_ms:
                break
            found = self._record_at_time(segment, timestamp_ms, bytes_max) or self._newest_in(segment, bytes_max)
            newest = max(filter(None, (newest, found)), key=lambda t: (t.timestamp_ms, -t.offset), default=None)
        return newest

    def _newest_in(self, segment: Segment, bytes_max: int) -> TimeOffset | None:
        """The long way, for a segment whose newest record readers do not see: not yet, or no longer."""
        batches = [
            b for b in segment.batches(0, limit=self.limit(segment)) if b.header.last_offset >= self.start_offset
        ]
        newest: TimeOffset | None = None
        likely = sorted(batches, key=lambda b: (-b.header.max_timestamp, b.position))
        for batch in likely[:UNTRUE_BATCHES_MAX]:
            if newest is not None and newest.timestamp_ms >= batch.header.max_timestamp:
                break
            for found in self._times_in(segment, batch, bytes_max):
                if newest is None or found.timestamp_ms > newest.timestamp_ms:
                    newest = found
        return newest

    def _times_in(self, segment: Segment, batch: BatchAt, bytes_max: int) -> Iterator[TimeOffset]:
        """Returns the visible records of a batch, up to the first that cannot be decoded."""
        if batch.header.last_offset < self.start_offset:
            return
        try:
            for timestamp_ms, offset in batch_times(segment.read_batch(batch), bytes_max=bytes_max):
                if self.start_offset <= offset < self.visible.offset:
                    yield TimeOffset(timestamp_ms, offset)
        except (CorruptBatch, InvalidRecord, UnsupportedFormat):
            return
