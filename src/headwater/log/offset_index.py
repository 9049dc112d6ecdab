"""Sparse index from offset to file position for one segment.

Entry, 8 bytes, big-endian:

    0  uint32  offset - base offset     base 50, offset 55 is stored as 5
    4  uint32  position in the segment file

The offset is the last one of the batch that starts at the position. Entries are sorted. Not every batch has one: a
look-up answers the nearest batch start at or below, and the reader scans forward from there.

No checksum: after an unclean stop, entries after the checkpoint are discarded and rebuilt from the segment.
"""

import struct
from bisect import bisect_left
from collections.abc import Sequence

ENTRY_BYTES = 8
_ENTRY = struct.Struct(">II")

Entries = Sequence[tuple[int, int]]  # (relative last offset, position)


class OffsetIndex:
    """The entries of one segment in memory, while it is written."""

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries: list[tuple[int, int]] = [] if entries is None else entries

    def add(self, relative_last_offset: int, position: int) -> None:
        self.entries.append((relative_last_offset, position))

    def to_bytes(self) -> bytes:
        return b"".join(_ENTRY.pack(*entry) for entry in self.entries)

    @classmethod
    def from_bytes(cls, data: bytes) -> "OffsetIndex":
        whole = len(data) - len(data) % ENTRY_BYTES
        return cls(list(_ENTRY.iter_unpack(data[:whole])))


def entry_at_or_below(entries: Entries, relative_offset: int) -> tuple[int, int] | None:
    """Where to start scanning for an offset: the last entry whose batch ends at or before it.

    >>> entry_at_or_below([(4, 0), (9, 100), (19, 200)], 9)
    (9, 100)
    >>> entry_at_or_below([(4, 0), (9, 100), (19, 200)], 12)
    (9, 100)
    >>> entry_at_or_below([], 5) is None
    True
    """
    index = bisect_left(entries, (relative_offset + 1, 0))
    return entries[index - 1] if index else None
