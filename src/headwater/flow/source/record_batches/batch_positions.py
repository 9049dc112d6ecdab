"""Where to begin reading a segment file for an offset: at a batch that the index names, or that was read before.

The node writes the index of the segment it appends to every few seconds. A reader that had nothing else would read all
that came since again for every batch of a job, and a young topic from its first byte. So a process remembers where the
batches begin at which its reading ended:

    file      ├──────────────── indexed ────────────────┤──── read before ────┤── new ──►
    begins at             an index entry ▲               a position from here ▲

Neither is believed: where the batch at a position does not begin as it should, the next best is taken, and the start of
the file is always right. A position that is wrong costs a longer scan only.
"""

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from headwater.log.batch_format import HEADER_BYTES, BatchHeader, plausible, read_header
from headwater.log.offset_index import ENTRY_BYTES

FILES_MAX = 512
APART_BYTES = 256 * 1024
"""How far positions of a file are apart at least, but for the last: 4,000 for a segment of 1 GiB."""

Position = tuple[int, int]
"""A base offset, and where its batch begins."""


class BatchPositions:
    """Positions of batches that were read, by file; those of files that were not looked at for long are dropped."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[int, int], list[Position]] = OrderedDict()
        self._lock = Lock()

    def note(self, file: int, base_offset: int, position: int) -> None:
        """A batch of an open file begins there."""
        with self._lock:
            known = self._of(file)
            at = bisect_right(known, (base_offset, position))
            if at and known[at - 1] == (base_offset, position):
                return
            if at == len(known) > 1 and known[-1][1] - known[-2][1] < APART_BYTES:
                known[-1] = base_offset, position
            elif at == len(known) or position - known[at - 1][1] >= APART_BYTES:
                known.insert(at, (base_offset, position))

    def at_or_below(self, file: int, offset: int) -> Position | None:
        with self._lock:
            known = self._of(file)
            at = bisect_right(known, offset, key=lambda one: one[0])
            return known[at - 1] if at else None

    def _of(self, file: int) -> list[Position]:
        status = os.fstat(file)
        name = status.st_dev, status.st_ino
        known = self._files.setdefault(name, [])
        self._files.move_to_end(name)
        if len(self._files) > FILES_MAX:
            self._files.popitem(last=False)
        return known


READ_BEFORE = BatchPositions()
"""Those of this process."""


def scan_start(directory: Path, base: int, file: int, offset: int, read_before: BatchPositions = READ_BEFORE) -> int:
    """Start of a batch at or before the one that holds the offset, in the segment that begins with offset `base`."""
    return max(_candidates(directory, base, file, offset, read_before), default=0)


def _candidates(directory: Path, base: int, file: int, offset: int, read_before: BatchPositions) -> Iterator[int]:
    """Positions at which a batch begins as is said of it."""
    known = read_before.at_or_below(file, offset)
    if known is not None and (header := _header_at(file, known[1])) and header.base_offset == known[0]:
        yield known[1]
    entry = _index_entry(directory / f"{base:020d}.index", offset - base)
    if entry is not None and (header := _header_at(file, entry[1])) and header.last_offset == base + entry[0]:
        yield entry[1]


def _header_at(file: int, position: int) -> BatchHeader | None:
    data = os.pread(file, HEADER_BYTES, position)
    if len(data) < HEADER_BYTES:
        return None
    header = read_header(data)
    return header if plausible(header, bytes_left=2**31) else None


def _index_entry(path: Path, relative_offset: int) -> tuple[int, int] | None:
    """The last entry of an index file whose batch ends at or before an offset."""
    try:
        data = path.read_bytes()
    except OSError:
        return None

    def number(at: int, within: int) -> int:
        return int.from_bytes(data[at * ENTRY_BYTES + within : at * ENTRY_BYTES + within + 4], "big")

    count = len(data) // ENTRY_BYTES
    at = bisect_right(range(count), relative_offset, key=lambda one: number(one, 0))
    return (number(at - 1, 0), number(at - 1, 4)) if at else None
