"""Scans the batches of a file and classifies them as whole, torn or damaged. Reads only."""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from headwater.log.batch_format import HEADER_BYTES, MAGIC, BatchHeader, check_crc, plausible, read_header
from headwater.log.segment import RELATIVE_OFFSET_MAX, BatchAt, Damage, Segment
from headwater.log.storage import File

WINDOW_BYTES = 4 * 1024**2
MAGIC_AT = 16


class Expectation(NamedTuple):
    """The expected header of the next batch."""

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
    """Batches from `position` on for as long as each is whole, checksum included, and at the expected offset."""
    window = _Window(file, size)
    while (batch := _batch_at(window, position, size, expected)) is not None:
        yield batch
        position += batch.header.size
        expected = expected._replace(offset=batch.header.next_offset)


def next_whole_batch(file: File, position: int, *, size: int, expected: Expectation) -> BatchAt | None:
    """Returns the first whole batch at or after `position`, wherever it starts; for the search after damage."""
    window = _Window(file, size)
    # A segment spans no more offsets than this. Without the bound, much that is not a header would look like one, of a
    # huge batch whose checksum has to be tried.
    bound = min(expected.end_offset, expected.offset + RELATIVE_OFFSET_MAX + 1)
    anywhere = expected._replace(contiguous=False, end_offset=bound)
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


def damage_at(file: File, position: int, *, size: int, expected: Expectation, synced_offset: int) -> Damage:
    """How far the damage that begins at `position` goes: to the next whole batch, or to the end of the file."""
    whole = next_whole_batch(file, position, size=size, expected=expected)
    if whole is not None:
        return Damage(position, whole.position, expected.offset, whole.header.base_offset)
    end_offset = min(expected.end_offset, max(synced_offset, expected.offset + 1))
    return Damage(position, size, expected.offset, end_offset)


def find_damage(segment: Segment, offset: int, *, size: int, end_offset: int) -> Damage | None:
    """Damage that keeps `offset` from being read, not counting what is known already; None if there is none.

    `end_offset` is that of the segment, as far as it can be read.
    """
    expected = Expectation(segment.base_offset, contiguous=False, end_offset=end_offset)
    indexed = whole_batches(segment.file, segment.scan_start(offset), size=size, expected=expected)
    if any(batch.header.last_offset >= offset for batch in indexed):
        return None
    # From the start, if need be: only a whole batch before the damage shows at which offset the damage begins.
    position = segment.scan_start(offset - 1)
    if next(whole_batches(segment.file, position, size=size, expected=expected), None) is None:
        position = 0
    while position < size:
        for batch in whole_batches(segment.file, position, size=size, expected=expected):
            position = batch.position + batch.header.size
            expected = expected._replace(offset=batch.header.next_offset)
            if expected.offset > offset:
                return None
        if position >= size:
            return None
        known = next((damage for damage in segment.damage if damage.position == position), None)
        if known is None:
            return damage_at(segment.file, position, size=size, expected=expected, synced_offset=end_offset)
        position, expected = known.end_position, expected._replace(offset=known.end_offset)
    return None


def verify(segment: Segment, position: int, length: int, *, size: int, end_offset: int) -> int:
    """How many of `length` bytes from a batch start on are what was written; batches checked before are believed."""
    end = position + length
    if segment.verified.covers(position, end):
        return length
    good = position
    expected = Expectation(segment.base_offset, contiguous=False, end_offset=end_offset)
    for batch in whole_batches(segment.file, position, size=size, expected=expected):
        good = batch.position + batch.header.size
        segment.verified.add(batch.position, good)
        if good >= end:
            break
    return min(good, end) - position


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
    if not expected.contiguous and _belied(window, position + header.size, size, header, expected):
        return None
    return BatchAt(position, header)


def _belied(window: _Window, position: int, size: int, header: BatchHeader, expected: Expectation) -> bool:
    """No checksum covers a batch's offsets. If it claims higher ones than the batch after it has, and there is room
    for it before that one, then it is wrong, and not the other.
    """
    if position + HEADER_BYTES > size:
        return False
    following = read_header(*window.at(position, HEADER_BYTES))
    room_until = expected.offset + header.last_offset_delta + 1
    return plausible(following, bytes_left=size - position) and room_until <= following.base_offset < header.next_offset


def checksum_of(file: File, size: int) -> int:
    """CRC-32C of the first `size` bytes of a file."""
    checksum = 0
    for position in range(0, size, WINDOW_BYTES):
        checksum = crc32c(file.read_at(position, min(WINDOW_BYTES, size - position)), checksum)
    return checksum
