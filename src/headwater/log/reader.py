"""Batches back into records: the in-process way to read and to follow.

Only committed records are read: none beyond the last stable offset, none of an aborted transaction, no marker. So
offsets have gaps, and what is read may end before the high watermark while a transaction is open.
"""

import sys
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from headwater.errors import (
    CorruptBatch,
    DamagedRange,
    HeadwaterError,
    InvalidRecord,
    LogClosed,
    OffsetOutOfRange,
    ReadFailed,
    UnavailableError,
)
from headwater.log.batch_format import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    decode_batch,
    read_header,
    records_of,
    unpacked,
)
from headwater.log.partition import Partition
from headwater.log.snapshot import Slice, Slices
from headwater.log.transactions.open_transactions import AbortedBatches
from headwater.record import Record

READ_BYTES = 1024**2
UNPACKED_BYTES = 8 * 1024**2
NEAR_OFFSETS, NEAR_BYTES = 200, 64 * 1024
"""Records so near to each other are read together."""


def read_records(
    partition: Partition,
    *,
    offset: int | None,
    time_ms: int | None,
    limit: int | None,
    decompressed_bytes_max: int,
) -> Iterator[Record]:
    """Records from the starting point up to the last stable offset as it is when reading starts."""
    position = starting_offset(partition, offset=offset, time_ms=time_ms)
    end, remaining = partition.last_stable_offset, limit
    while position < end and remaining != 0:
        records, following = read_some(partition, position, decompressed_bytes_max)
        if following == position:
            return
        for record in records:
            if record.offset >= end or remaining == 0:
                return
            yield record
            remaining = None if remaining is None else remaining - 1
        position = following


def starting_offset(partition: Partition, *, offset: int | None, time_ms: int | None) -> int:
    if offset is not None:
        first, end = partition.start_offset, partition.end_offset
        if not first <= offset <= end:
            raise OffsetOutOfRange(partition.topic, partition.number, offset, first=first, end=end)
        return offset
    if time_ms is None:
        return partition.start_offset
    found = partition.offset_for_time(time_ms)
    return partition.last_stable_offset if found is None else found.offset


def read_some(
    partition: Partition,
    offset: int,
    decompressed_bytes_max: int,
    *,
    records_max: int | None = None,
    field_bytes_max: int = sys.maxsize,
    wait_seconds: float | None = None,
) -> tuple[list[Record], int]:
    """Returns some records at or after an offset, and the offset of the next read: the same one at the end.

    There may be none although the offset moves: then all were aborted.
    Longer keys and values than `field_bytes_max` are cut to a Beginning.
    At most `records_max`, and no further batch once those read are UNPACKED_BYTES, however small they were packed.
    A batch may end after its last record, where compaction removed some: only its header gives the next offset.
    DamagedRange if the batch at the offset cannot be believed, or cannot be unpacked; UnavailableError if others unpack
    large batches for longer than `wait_seconds`.
    """
    found = _found(partition, offset, committed=True)
    aborted = AbortedBatches(partition.aborted_between(offset, found.end_offset))
    records: list[Record] = []
    following, room = offset, UNPACKED_BYTES
    for piece in found.slices:
        data = _bytes_of(partition, piece)
        why = ""
        while len(data) >= HEADER_BYTES and HEADER_BYTES <= (header := read_header(data)).size <= len(data):
            wanted = None if records_max is None else records_max - len(records)
            if room <= 0 or (wanted is not None and wanted <= 0):
                return records, following
            if header.control or header in aborted:
                following, data = header.next_offset, data[header.size :]
                continue
            try:
                with unpacked(data[: header.size], bytes_max=decompressed_bytes_max, wait_seconds=wait_seconds) as (
                    _,
                    body,
                ):
                    rows, whole = _decoded(header, body, offset, wanted, field_bytes_max)
                    size = len(body)
            except (CorruptBatch, InvalidRecord) as error:
                why = str(error)
                break
            except UnavailableError:
                if following == offset:
                    raise
                return records, following
            records += rows
            if not whole:
                return records, rows[-1].offset + 1
            following, room = header.next_offset, room - size
            data = data[header.size :]
        if following == offset:  # of what is there, not even the first batch can be believed
            raise _damaged(partition, offset, data, why)
    return records, following


def _found(partition: Partition, offset: int, *, committed: bool, bytes_max: int = READ_BYTES) -> Slices:
    found = partition.read(offset, bytes_max=bytes_max, committed=committed)
    if found.verified:
        return found
    if (damage := partition.quarantine(offset)) is not None:
        raise DamagedRange(partition.topic, partition.number, first=damage.first_offset, end=damage.end_offset)
    return partition.read_verified(offset, bytes_max=bytes_max, committed=committed)


def read_batches(
    partition: Partition, offset: int, decompressed_bytes_max: int
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Every batch up to the high watermark, whatever transaction it is in; markers too, which have no records."""
    while True:
        found = _found(partition, offset, committed=False)
        begun = offset
        for piece in found.slices:
            data = _bytes_of(partition, piece)
            while len(data) >= HEADER_BYTES and HEADER_BYTES <= (header := read_header(data)).size <= len(data):
                try:
                    records = (
                        [] if header.control else decode_batch(data[: header.size], bytes_max=decompressed_bytes_max)
                    )
                except (CorruptBatch, InvalidRecord) as error:
                    raise _damaged(partition, offset, data, str(error)) from None
                yield header, records
                offset, data = header.next_offset, data[header.size :]
        if offset == begun:
            if found.slices:
                raise _damaged(partition, offset, data, "")
            return


class StoredBatch(NamedTuple):
    """A batch as it was sent, with its header read."""

    header: BatchHeader
    data: memoryview


def read_stored(
    partition: Partition, offset: int, *, bytes_max: int, committed: bool = True
) -> tuple[list[StoredBatch], int]:
    """Returns whole batches from the one that holds an offset on, and the offset after them: the same one at the end.

    There are no markers among them and, with `committed`, none of an open or aborted transaction. DamagedRange if the
    first one cannot be believed.
    """
    found = _found(partition, offset, committed=committed, bytes_max=bytes_max)
    aborted = AbortedBatches(partition.aborted_between(offset, found.end_offset) if committed else ())
    batches: list[StoredBatch] = []
    following = offset
    for piece in found.slices:
        data = _bytes_of(partition, piece)
        while len(data) >= HEADER_BYTES and HEADER_BYTES <= (header := read_header(data)).size <= len(data):
            if not header.control and header not in aborted:
                batches.append(StoredBatch(header, data[: header.size]))
            following, data = header.next_offset, data[header.size :]
        if following == offset and len(data):
            raise _damaged(partition, offset, data, "")
    return batches, following


def read_at(partition: Partition, offsets: Sequence[int], decompressed_bytes_max: int) -> Iterator[Record]:
    """Records at these offsets, which ascend and lie below the high watermark; those that were deleted are left out.

    DamagedRange where one cannot be believed.
    """
    row = bisect_left(offsets, partition.start_offset)
    while row < len(offsets):
        offset = offsets[row]
        near = row + 1 < len(offsets) and offsets[row + 1] - offset < NEAR_OFFSETS
        found = _found(partition, offset, committed=False, bytes_max=NEAR_BYTES if near else 1)
        data = _bytes_of(partition, found.slices[0]) if found.slices else memoryview(b"")
        begun = row
        while row < len(offsets) and len(data) >= HEADER_BYTES and (header := read_header(data)).size <= len(data):
            if offsets[row] <= header.last_offset:
                wanted = set(offsets[row : bisect_right(offsets, header.last_offset)])
                row += len(wanted)
                try:
                    yield from (
                        one for one in _records_in(header, data, decompressed_bytes_max) if one.offset in wanted
                    )
                except (CorruptBatch, InvalidRecord) as error:
                    raise _damaged(partition, offset, data, str(error)) from None
            data = data[header.size :]
        if row == begun:
            if data:
                raise _damaged(partition, offset, data, "")
            return


def _records_in(header: BatchHeader, data: memoryview, decompressed_bytes_max: int) -> list[Record]:
    return [] if header.control else decode_batch(data[: header.size], bytes_max=decompressed_bytes_max)


def last_header(partition: Partition, end: int) -> BatchHeader | None:
    """The header of the batch that ends before an offset; None if it cannot be read."""
    try:
        found = _found(partition, end - 1, committed=False, bytes_max=1)
        header = read_header(_bytes_of(partition, found.slices[0])) if found.slices else None
    except (HeadwaterError, ValueError):
        return None
    return header if header is not None and header.next_offset == end else None


def _decoded(
    header: BatchHeader, body: Buffer, offset: int, records_max: int | None, field_bytes_max: int
) -> tuple[list[Record], bool]:
    """Records of a batch from an offset on, and whether these are all of them.

    One by one: a batch may hold millions, of which a few are wanted.
    """
    rows = (row for row in records_of(header, body, field_bytes_max=field_bytes_max) if row.offset >= offset)
    kept = list(islice(rows, records_max))
    return kept, records_max is None or len(kept) < records_max


def _bytes_of(partition: Partition, piece: Slice) -> memoryview:
    try:
        return memoryview(piece.file.read_at(piece.position, piece.length))
    except OSError as error:
        raise ReadFailed(partition.topic, partition.number, str(error)) from None


def _damaged(partition: Partition, offset: int, data: memoryview, why: str) -> DamagedRange:
    """Raised once: the next read skips the range."""
    damage = partition.quarantine(offset)
    if damage is not None:
        return DamagedRange(partition.topic, partition.number, first=damage.first_offset, end=damage.end_offset)
    # The bytes are as they were sent, but make no sense: their header still gives the offset after them.
    end = read_header(data).next_offset if len(data) >= HEADER_BYTES else 0
    end = end if offset < end <= partition.end_offset else offset + 1
    return DamagedRange(partition.topic, partition.number, first=offset, end=end, why=why)


class Follower:
    """Reads a partition as it grows: woken by appends, never polling."""

    def __init__(self, partition: Partition, decompressed_bytes_max: int) -> None:
        self._partition, self._bytes_max = partition, decompressed_bytes_max

    def records(self, *, offset: int | None, time_ms: int | None, timeout: float | None) -> Iterator[Record]:
        position = starting_offset(self._partition, offset=offset, time_ms=time_ms)
        grown = threading.Event()
        unsubscribe = self._partition.subscribe(grown.set)
        try:
            while True:
                grown.clear()
                records, following = read_some(self._partition, position, self._bytes_max)
                yield from records
                if following == position and not self._wait(grown, timeout):
                    return
                position = following
        finally:
            unsubscribe()

    def _wait(self, grown: threading.Event, timeout: float | None) -> bool:
        if self._partition.closed:
            raise LogClosed
        return grown.wait(timeout)
