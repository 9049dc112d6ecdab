"""Look after segments while the log runs: their files are there, have their size, and sealed ones get a checksum.

A file that was taken away or cut off is noticed by the next maintenance pass, not only by the next start. Its offsets
become a gap, or go into quarantine, and readers step over them. If it is the one that is written to, the partition goes
offline: the system would take more into a file that has no name, and nothing of it would be there after a stop.
Checksums of sealed segments are computed here, in the background and some at a time, for `headwater log check` to
compare with.
"""

import logging
from collections.abc import Callable
from itertools import pairwise

from headwater.log.manifest import Gap
from headwater.log.partition import Partition
from headwater.log.scan import Expectation, checksum_of, whole_batches
from headwater.log.segment import Damage, Segment
from headwater.log.storage import Storage

logger = logging.getLogger("headwater.log")

CHECKSUM_BYTES_MAX = 256 * 1024**2
"""Of one pass over all partitions; a single segment may be larger."""


class SegmentWatch:
    """One pass over the segments of all partitions of a log."""

    def __init__(self, storage: Storage, *, stopping: Callable[[], bool]) -> None:
        self._storage, self._stopping = storage, stopping
        self._bytes_left = CHECKSUM_BYTES_MAX

    def look_at_active(self, partition: Partition) -> bool:
        """Whether records can be appended; if their file is gone or shorter than it was, the partition goes offline."""
        active = partition.segments[-1]
        known = active.size  # before the file's: it only grows, and the file first
        size = self._size(active)
        if (size is not None and size >= known) or active is not partition.segments[-1]:
            return True
        found = "is gone" if size is None else f"was cut to {size:,} of {known:,} bytes"
        partition.take_offline(f"{active.log_path} {found} while it was written to")
        return False

    def run(self, partition: Partition) -> None:
        """Of its sealed segments."""
        checksums: dict[Segment, int] = {}
        for segment, following in pairwise(partition.segments):
            if not segment.local or segment.base_offset >= partition.checkpointed_segment:
                continue
            size = self._size(segment)
            if size is None:
                why = f"{segment.log_path} is missing"
                partition.replace_sealed(segment, Gap(segment.base_offset, following.base_offset, why))
            elif size < segment.size:
                partition.replace_sealed(segment, self._cut_off(segment, size, following.base_offset))
            elif self._bytes_left > 0 and not self._stopping() and partition.lacks_checksum(segment):
                self._bytes_left -= segment.size
                checksums[segment] = checksum_of(segment.file, segment.size)
        partition.note_checksums(checksums)

    def _size(self, segment: Segment) -> int | None:
        try:
            return self._storage.size(segment.log_path)
        except FileNotFoundError:
            return None

    def _cut_off(self, segment: Segment, size: int, end_offset: int) -> Damage:
        """What is missing of a segment that is shorter than it was: from the last whole batch on."""
        expected = Expectation(segment.base_offset, contiguous=False, end_offset=end_offset)
        position, reached = 0, segment.base_offset
        fresh = self._storage.open(segment.log_path)
        for batch in whole_batches(fresh, 0, size=size, expected=expected):
            position, reached = batch.position + batch.header.size, batch.header.next_offset
        return Damage(position, size, reached, end_offset)
