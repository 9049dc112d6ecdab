"""Batches straight from the segment files of our own log, beside the node that owns them.

The node may at any moment append, roll, compact, delete or archive. What makes reading safe all the same:

* bytes below the high watermark never change in a file that is open; a file is replaced by another, never rewritten;
* nothing is read from `end` on, which the caller has from the node and which lies at or below the high watermark;
* every batch is checked: its header here, its checksum where it is decoded;
* a file that is gone, or does not hold what was looked for, ends the reading early: the caller goes on with the node.

The layout of files and names is drawn in log/segment.py.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headwater.flow.source.record_batches.batch_positions import READ_BEFORE, scan_start
from headwater.log.batch_format import CODEC_MASK, HEADER_BYTES, read_header
from headwater.log.batch_table import (
    ATTRIBUTES,
    BASE_OFFSET,
    LAST_OFFSET,
    POSITION,
    SIZE,
    BatchTable,
    batches_before_damage,
    find_batches,
)
from headwater.small_file import read_newest

CHUNK_BYTES = 4 * 1024**2
UNPACKING_RATIO = 8
"""What compressed batches are taken to grow by."""
SEARCHES_MAX = 3
"""How often a segment that vanished between being listed and being opened is looked for again."""


class Chunk(NamedTuple):
    """Whole batches that hold every record there is from `first` to below `next_offset`."""

    first: int
    next_offset: int
    data: bytes | memoryview


def partition_directory(data: Path, topic: str, partition: int) -> Path:
    return data / f"{topic}-{partition}"


def read_files(directory: Path, first: int, end: int, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Chunks from `first` on as far as the files reach; the last one's next_offset is `end` if they hold all.

    A chunk may hold records from `end` on, in the batch that holds the last one before it; the caller cuts them off.
    A gap within a file is what compaction left. One between two files may be a file that is just being replaced: there
    the reading ends.
    """
    place = first
    while place < end:
        advanced = False
        for chunk in _read_segment(directory, place, end, chunk_bytes):
            yield chunk
            place, advanced = chunk.next_offset, True
        if not advanced:
            return


def _read_segment(directory: Path, first: int, end: int, chunk_bytes: int) -> Iterator[Chunk]:
    with _opened(directory, first) as found:
        if found is None:
            return
        base, file = found
        place = first
        for position, table, data in _tables(file, scan_start(directory, base, file, first), chunk_bytes):
            _note_last(file, position, table, end)
            chunk = _wanted(table, data, place, end)
            if chunk is not None:
                yield chunk
                place = chunk.next_offset
            if place >= end:
                return


def _note_last(file: int, position: int, table: BatchTable, end: int) -> None:
    """The next to read this file is likely to begin where this reading ends."""
    before = table.rows[table.column(BASE_OFFSET) < end]
    if len(before):
        READ_BEFORE.note(file, int(before[-1, BASE_OFFSET]), position + int(before[-1, POSITION]))


def _wanted(table: BatchTable, data: bytes, first: int, end: int) -> Chunk | None:
    """The batches of a table that hold offsets from `first` to below `end`; None if all lie before."""
    rows = table.rows[(table.column(LAST_OFFSET) >= first) & (table.column(BASE_OFFSET) < end)]
    beyond = len(table.rows) > 0 and int(table.column(LAST_OFFSET)[-1]) >= end - 1
    if not len(rows):
        return Chunk(first, end, b"") if beyond else None
    start = int(rows[0, POSITION])
    stop = int(rows[-1, POSITION] + rows[-1, SIZE])
    next_offset = end if beyond else int(rows[-1, LAST_OFFSET]) + 1
    return Chunk(first, next_offset, memoryview(data)[start:stop])


def divided(chunk: Chunk, *, unpacked_bytes: int = 4 * CHUNK_BYTES) -> Iterator[Chunk]:
    """The chunk in pieces that will not unpack to very much more than they may; most are one piece."""
    table = find_batches(chunk.data)
    packed = (table.column(ATTRIBUTES) & CODEC_MASK) != 0
    weights = table.column(SIZE) * np.where(packed, UNPACKING_RATIO, 1)
    groups = (np.cumsum(weights) - weights) // unpacked_bytes
    edges = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(table.rows)]
    place = chunk.first
    for start, stop in pairwise(edges):
        last = stop == len(table.rows)
        next_offset = chunk.next_offset if last else int(table.rows[stop - 1, LAST_OFFSET]) + 1
        data = memoryview(chunk.data)[int(table.rows[start, POSITION]) :]
        yield Chunk(place, next_offset, data if last else data[: int(table.rows[start:stop, SIZE].sum())])
        place = next_offset


def _tables(file: int, position: int, chunk_bytes: int) -> Iterator[tuple[int, BatchTable, bytes]]:
    """The batches of a file from a batch start on, piece by piece with its position, to its end or to what is not a
    batch."""
    wanted = chunk_bytes
    while True:
        data = os.pread(file, wanted, position)
        if len(data) < HEADER_BYTES:
            return
        # Damage, or the zeros of a write that was never finished: the node knows which.
        table, damaged = batches_before_damage(data)
        if table.length == 0:
            size = read_header(data).size
            if damaged or size <= wanted:
                return
            wanted = size
            continue
        yield position, table, data[: table.length] if table.length < len(data) else data
        position += table.length
        wanted = chunk_bytes


@contextmanager
def _opened(directory: Path, offset: int) -> Iterator[tuple[int, int] | None]:
    """Base offset and file descriptor of the segment that may hold an offset; None if there is none any more."""
    file = None
    for _ in range(SEARCHES_MAX):
        bases = _bases(directory)
        base = max((base for base in bases if base <= offset), default=None)
        if base is None:
            break
        try:
            file = os.open(directory / f"{base:020d}.log", os.O_RDONLY | os.O_CLOEXEC)
            break
        except FileNotFoundError:
            continue
    if file is None or base is None:
        yield None
        return
    try:
        yield base, file
    finally:
        os.close(file)


def quarantined(directory: Path) -> list[tuple[int, int]]:
    """Ranges of offsets that the log has found to be damaged, in segments that are still there."""
    try:
        said = read_newest(str(directory / "quarantine.json"), lambda path: Path(path).read_bytes()).content
        listed = [(int(base), int(row[2]), int(row[3])) for base, rows in said.items() for row in rows]
    except (OSError, ValueError, TypeError, AttributeError, IndexError):
        return []
    present = set(_bases(directory))
    return sorted((first, end) for base, first, end in listed if base in present)


def _bases(directory: Path) -> list[int]:
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    logs = [name.removesuffix(".log") for name in names if name.endswith(".log")]
    return sorted(int(name) for name in logs if len(name) == 20 and name.isdecimal())
