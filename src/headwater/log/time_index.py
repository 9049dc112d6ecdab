"""Sparse index from timestamp to offset for one segment.

Entry, 12 bytes, big-endian:

    0  int64   largest timestamp in the segment so far
    8  uint32  last offset of the batch that has it - base offset

Timestamps and offsets both grow from entry to entry, whatever order records arrived in. The last entry of a sealed
segment holds its largest timestamp. No checksum: rebuilt like the offset index.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter

ENTRY_BYTES = 12
_ENTRY = struct.Struct(">qI")

Entries = Sequence[tuple[int, int]]  # (timestamp, relative last offset)


class TimeIndex:
    """The entries of one segment in memory, while it is written."""

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries: list[tuple[int, int]] = [] if entries is None else entries

    def add(self, timestamp_ms: int, relative_last_offset: int) -> None:
        """Note the largest timestamp so far; an entry that says nothing new is not kept."""
        if not self.entries or timestamp_ms > self.entries[-1][0]:
            self.entries.append((timestamp_ms, relative_last_offset))

    def to_bytes(self) -> bytes:
        return b"".join(_ENTRY.pack(*entry) for entry in self.entries)

    @classmethod
    def from_bytes(cls, data: bytes) -> "TimeIndex":
        whole = len(data) - len(data) % ENTRY_BYTES
        return cls(list(_ENTRY.iter_unpack(data[:whole])))


def entry_before(entries: Entries, timestamp_ms: int) -> tuple[int, int] | None:
    """The last entry up to whose offset every record is older than the time; None if no record is known to be.

    >>> entry_before([(100, 4), (200, 9)], 150)
    (100, 4)
    >>> entry_before([(100, 4), (200, 9)], 100) is None
    True
    """
    index = bisect_left(entries, (timestamp_ms, 0))
    return entries[index - 1] if index else None


def index_ends(offsets: Entries, times: Entries) -> list[list[int]] | None:
    """The last entry of an offset index, and that of the time index up to its offset: the largest time so far.

    >>> index_ends([(4, 0), (8, 700)], [(100, 4), (200, 9)])
    [[8, 700], [100, 4]]
    """
    if not offsets:
        return None
    newest = times[: bisect_right(times, offsets[-1][0], key=itemgetter(1))][-1:]
    return [list(entry) for entry in (offsets[-1], *newest)]


def synced_entries(entries: list[tuple[int, int]], offset_at: int, bound: int) -> list[tuple[int, int]]:
    """Entries of a file of either index whose offset is below that of a checkpoint, up to the first that is not larger
    than its predecessor in both its numbers.

    The file may have been written again, further, after the checkpoint and before its successor was in place: what it
    holds beyond is not synced, and may be zeros.

    >>> synced_entries([(4, 100), (9, 200), (0, 0), (19, 400)], 0, 9)
    [(4, 100)]
    """
    for index in range(1, len(entries)):
        (first, second), (next_first, next_second) = entries[index - 1 : index + 1]
        if next_first <= first or next_second <= second:
            entries = entries[:index]
            break
    return [entry for entry in entries if entry[offset_at] < bound]
