"""Sparse index from timestamp to offset for one segment.

Entry, 12 bytes, big-endian:

    0  int64   largest timestamp in the segment so far
    8  uint32  last offset of the batch that has it - base offset

Timestamps and offsets both grow from entry to entry, whatever order records arrived in. The last entry of a sealed
segment holds its largest timestamp. No checksum: rebuilt like the offset index.
"""

import struct
from bisect import bisect_left
from collections.abc import Sequence

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
