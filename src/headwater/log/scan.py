"""Walk over the batches of a file and tell what is whole and what is not. Reads, decides, changes nothing."""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.log.batch_format import HEADER_BYTES, MAGIC, BatchHeader, check_crc, plausible, read_header
from headwater.log.segment import BatchAt
from headwater.log.storage import File

WINDOW_BYTES = 4 * 1024**2
MAGIC_AT = 16


class Expectation(NamedTuple):
    """What the next batch must look like."""

    offset: int
    contiguous: bool  # no gaps: a range that was never compacted
    end_offset: int = 2**63 - 1  # base offset of the next segment

    def allows(self, header: BatchHeader) -> bool:
        fits = header.base_offset == self.offset if self.contiguous else header.base_offset >= self.offset
        return fits and header.next_offset <= self.end_offset


class _Window:
    """A piece of a file in memory, moved forward as needed."""

    def __init__(self, file: File, size: int) -> None:
        self._file, self._size = file, size
        self._start, self._data = 0, b""

    def at(self, position: int, length: int) -> tuple[bytes, int]:
        """Bytes that hold `length` bytes from `position` on (fewer only at the end), and where in them it starts."""
        if not self._start <= position or position + length > self._start + len(self._data):
            wanted = min(max(length, WINDOW_BYTES), self._size - position)
            self._start, self._data = position, self._file.read_at(position, wanted)
        return self._data, position - self._start


def whole_batches(file: File, position: int, *, size: int, expected: Expectation) -> Iterator[BatchAt]:
    """Batches from `position` on for as long as each is whole, checksum included, and in its place."""
    window = _Window(file, size)
    while (batch := _batch_at(window, position, size, expected)) is not None:
        yield batch
        position += batch.header.size
        expected = expected._replace(offset=batch.header.next_offset)


def next_whole_batch(file: File, position: int, *, size: int, expected: Expectation) -> BatchAt | None:
    """The first whole batch at or behind `position`, wherever it starts; for the search behind damage."""
    window = _Window(file, size)
    anywhere = expected._replace(contiguous=False)
    while position + HEADER_BYTES <= size:
        data, start = window.at(position, HEADER_BYTES)
        found = data.find(MAGIC, start + MAGIC_AT)
        if found < 0:
            position += max(1, len(data) - start - MAGIC_AT)
            continue
        position += found - MAGIC_AT - start
        batch = _batch_at(window, position, size, anywhere)
        if batch is not None:
            return batch
        position += 1
    return None


def _batch_at(window: _Window, position: int, size: int, expected: Expectation) -> BatchAt | None:
    if position + HEADER_BYTES > size:
        return None
    data, start = window.at(position, HEADER_BYTES)
    if len(data) - start < HEADER_BYTES:
        return None
    header = read_header(data, start)
    if not plausible(header, bytes_left=size - position) or not expected.allows(header):
        return None
    data, start = window.at(position, header.size)
    if len(data) - start < header.size or not check_crc(data, header, start):
        return None
    return BatchAt(position, header)
