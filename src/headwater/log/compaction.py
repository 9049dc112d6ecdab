"""Compaction: what to clean, what survives, what goes together. Pure decisions; compactor.py carries them out.

A compacted topic keeps at least the newest record of each key. The log of a partition has three parts:

    |  clean  |  dirty  |  not yet  |
    cleaned before      sealed, old enough     active segment, or younger than min.compaction.lag.ms

A pass reads the keys of the dirty part, then rewrites clean and dirty segments without the records that a newer one of
the same key has made needless. Offsets never change.

The dirty part ends at the last stable offset: what is above it may still be aborted. Records of aborted transactions go
with the first pass that meets them; the markers stay as long as tombstones do.

A tombstone (null value) stays for delete.retention.ms after the pass that first met it, so that a reader who began
before it has that long to see it. The history of passes shows which tombstones are that old.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.log.retention import SegmentInfo
from headwater.log.topic_settings import TopicSettings

CLEANING = "cleaning.json"
PASSES_REMEMBERED = 256


@dataclass(frozen=True)
class CleaningState:
    """How far a partition is clean, and the passes that made it so: (end offset, when), oldest first."""

    clean_until: int = 0
    passes: tuple[tuple[int, int], ...] = field(default=())

    def after_pass(self, *, clean_until: int, now_ms: int, delete_retention_ms: int) -> "CleaningState":
        old = [done for done in self.passes if now_ms - done[1] >= delete_retention_ms]
        recent = [done for done in self.passes if now_ms - done[1] < delete_retention_ms]
        # Of the passes long enough ago only the furthest matters.
        passes = [*([max(old)] if old else []), *recent, (clean_until, now_ms)]
        if len(passes) > PASSES_REMEMBERED:
            # Forgetting a recent pass only keeps tombstones longer.
            del passes[1::2]
        return CleaningState(clean_until, tuple(passes))

    def tombstones_below(self, *, now_ms: int, delete_retention_ms: int) -> int:
        """Offset below which every tombstone has been met by a pass long enough ago.

        >>> CleaningState(90, ((40, 1_000), (90, 5_000))).tombstones_below(now_ms=6_500, delete_retention_ms=2_000)
        40
        """
        return max((end for end, when in self.passes if now_ms - when >= delete_retention_ms), default=0)


@dataclass(frozen=True)
class CleaningPlan:
    segments: int  # how many of the sealed segments, oldest first, take part
    dirty_from: int
    dirty_until: int


def plan_cleaning(
    sealed: Sequence[SegmentInfo], *, end_offset: int, state: CleaningState, settings: TopicSettings, now_ms: int
) -> CleaningPlan | None:
    """Returns the range that a pass would clean now; None if it is not worth a pass yet.

    `end_offset` is where the sealed part ends.
    """
    count = 0
    # A clock slightly behind the one that stamped the segment must not delay a topic without compaction lag.
    while count < len(sealed) and max(0, now_ms - sealed[count].last_append_ms) >= settings.min_compaction_lag_ms:
        count += 1
    if not count:
        return None
    until = sealed[count].base_offset if count < len(sealed) else end_offset
    start = max(state.clean_until, sealed[0].base_offset)
    ends = [segment.base_offset for segment in sealed[1:count]] + [until]
    dirty = [segment for segment, end in zip(sealed[:count], ends, strict=True) if end > start]
    if not dirty or start >= until:
        return None
    total = sum(segment.bytes for segment in sealed[:count])
    dirty_bytes = sum(segment.bytes for segment in dirty)
    overdue = now_ms - dirty[0].last_append_ms >= settings.max_compaction_lag_ms
    if not overdue and (not dirty_bytes or dirty_bytes / total <= settings.min_cleanable_dirty_ratio):
        return None
    return CleaningPlan(count, start, until)


def group_segments(
    sealed: Sequence[SegmentInfo], *, end_offset: int, bytes_max: int, offsets_max: int
) -> list[list[SegmentInfo]]:
    """Neighbours that fit into one file together, so that cleaning does not leave many tiny files.

    >>> sizes = [SegmentInfo(0, 0, 40), SegmentInfo(5, 0, 40), SegmentInfo(9, 0, 40)]
    >>> groups = group_segments(sizes, end_offset=20, bytes_max=80, offsets_max=100)
    >>> [[segment.base_offset for segment in group] for group in groups]
    [[0, 5], [9]]
    """
    ends = [segment.base_offset for segment in sealed[1:]] + [end_offset]
    groups: list[list[SegmentInfo]] = []
    for segment, end in zip(sealed, ends, strict=True):
        fits = (
            bool(groups)
            and sum(member.bytes for member in groups[-1]) + segment.bytes <= bytes_max
            and end - groups[-1][0].base_offset <= offsets_max
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups
