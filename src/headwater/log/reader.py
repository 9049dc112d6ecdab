"""Batches back into records: the in-process way to read and to follow."""

import threading
from collections.abc import Iterator

from headwater.errors import CorruptBatch, DamagedRange, LogClosed
from headwater.log.batch_format import HEADER_BYTES, decode_batch, read_header
from headwater.log.partition import Partition
from headwater.record import Record

READ_BYTES = 1024**2


def read_records(
    partition: Partition,
    *,
    offset: int | None,
    time_ms: int | None,
    limit: int | None,
    decompressed_bytes_max: int,
) -> Iterator[Record]:
    """Records from the starting point up to the high watermark as it is when reading starts."""
    position = starting_offset(partition, offset=offset, time_ms=time_ms)
    end, remaining = partition.high_watermark, limit
    while position < end and remaining != 0:
        records = read_some(partition, position, decompressed_bytes_max)
        if not records:
            return
        for record in records:
            if record.offset >= end or remaining == 0:
                return
            yield record
            remaining = None if remaining is None else remaining - 1
        position = records[-1].offset + 1


def starting_offset(partition: Partition, *, offset: int | None, time_ms: int | None) -> int:
    if offset is not None:
        return offset
    if time_ms is None:
        return partition.start_offset
    found = partition.offset_for_time(time_ms)
    return partition.high_watermark if found is None else found.offset


def read_some(partition: Partition, offset: int, decompressed_bytes_max: int) -> list[Record]:
    """Some records at or behind an offset; none at the end. DamagedRange if their batch cannot be believed."""
    found = partition.read(offset, bytes_max=READ_BYTES)
    records: list[Record] = []
    for piece in found.slices:
        data = memoryview(piece.file.read_at(piece.position, piece.length))
        while len(data) >= HEADER_BYTES and (size := read_header(data).size) <= len(data):
            try:
                rows = decode_batch(data[:size], bytes_max=decompressed_bytes_max)
            except CorruptBatch:
                if records:
                    return records
                raise _damaged(partition, read_header(data).next_offset, offset) from None
            records += [row for row in rows if row.offset >= offset]
            data = data[size:]
    return records


def _damaged(partition: Partition, next_offset: int, offset: int) -> DamagedRange:
    end = next_offset if offset < next_offset <= partition.end_offset else offset + 1
    return DamagedRange(partition.topic, partition.number, first=offset, end=end)


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
                records = read_some(self._partition, position, self._bytes_max)
                yield from records
                position = records[-1].offset + 1 if records else position
                if not records and not self._wait(grown, timeout):
                    return
        finally:
            unsubscribe()

    def _wait(self, grown: threading.Event, timeout: float | None) -> bool:
        if self._partition.closed:
            raise LogClosed
        return grown.wait(timeout)
