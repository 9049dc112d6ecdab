"""How far a partition is: what was written, what is on disk, what readers may see. Pure.

    visible <= end, durable <= end

A batch that must be durable before it is seen holds back every later batch. One that need not be is visible at once,
unless it follows such a batch.
"""

from headwater.log.segment import Segment
from headwater.log.snapshot import Mark


class Progress:
    """Three marks and the rule that moves them. Each is replaced as a whole, so readers need no lock."""

    def __init__(self, end: Mark) -> None:
        self.end = self.durable = self.visible = end
        self._unconfirmed_end = end.offset  # of the last batch that must be durable before it is seen

    def settled(self, end: int, active: Segment) -> bool:
        """Is everything below `end` on disk, by a sync that began when this segment was already the active one?"""
        return self.durable.offset >= end and self.durable.segment is active

    def appended(self, end: Mark, *, durable: bool) -> None:
        """A batch was written up to `end`; with `durable` it is seen only once it is synced."""
        self.end = end
        if durable:
            self._unconfirmed_end = end.offset
        elif self._unconfirmed_end <= self.durable.offset:
            self.visible = end

    def synced(self, target: Mark) -> None:
        """Everything below a mark, which was the end when the sync began, is on disk."""
        self.durable = target
        if self._unconfirmed_end <= target.offset:
            self.visible = self.end
        elif self.visible.offset < target.offset:  # what was shown without waiting for a sync stays in sight
            self.visible = target
