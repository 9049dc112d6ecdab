"""Which segments may go? Pure decisions; the partition deletes.

Age counts from a segment's last append, by a clock that jumps cannot move (trusted_time.py), never from the timestamps
inside records: those may lie in the past (a back-fill would be deleted at once) or in the future (never deleted).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.log.topic_settings import TopicSettings

AS_RETENTION = -2  # of local.retention.ms and local.retention.bytes


@dataclass(frozen=True)
class SegmentInfo:
    base_offset: int
    last_append_ms: int
    bytes: int


def expired(segments: Sequence[SegmentInfo], *, now_ms: int, retention_ms: int) -> int:
    """How many of the oldest segments have outlived the limit.

    Stops at the first to keep, so that deletion never leaves a hole.

    >>> old, young, oddly_old = SegmentInfo(0, 10, 1), SegmentInfo(5, 95, 1), SegmentInfo(9, 20, 1)
    >>> expired([old, young, oddly_old], now_ms=100, retention_ms=50)
    1
    """
    if retention_ms < 0:
        return 0
    count = 0
    while count < len(segments) and now_ms - segments[count].last_append_ms > retention_ms:
        count += 1
    return count


def surplus(segments: Sequence[SegmentInfo], *, retention_bytes: int) -> int:
    """How many of the oldest segments can go while what stays is still at least the limit.

    >>> surplus([SegmentInfo(0, 0, 40), SegmentInfo(5, 0, 40), SegmentInfo(9, 0, 40)], retention_bytes=80)
    1
    """
    if retention_bytes < 0:
        return 0
    excess = sum(segment.bytes for segment in segments) - retention_bytes
    count = 0
    while count < len(segments) and excess >= segments[count].bytes:
        excess -= segments[count].bytes
        count += 1
    return count


def evictable(local: Sequence[SegmentInfo], active: SegmentInfo, settings: TopicSettings, *, now_ms: int) -> int:
    """How many of the oldest local segments need not stay on the local disk once they are in the archive.

    >>> settings = TopicSettings.from_configs({"local.retention.bytes": "80"})
    >>> evictable([SegmentInfo(0, 0, 40), SegmentInfo(5, 0, 40)], SegmentInfo(9, 0, 40), settings, now_ms=0)
    1
    """
    retention_ms, retention_bytes = settings.local_retention_ms, settings.local_retention_bytes
    by_age = expired(
        local, now_ms=now_ms, retention_ms=settings.retention_ms if retention_ms == AS_RETENTION else retention_ms
    )
    by_size = surplus(
        [*local, active],
        retention_bytes=settings.retention_bytes if retention_bytes == AS_RETENTION else retention_bytes,
    )
    return max(by_age, min(by_size, len(local)))


def deletable(sealed: Sequence[SegmentInfo], active: SegmentInfo, settings: TopicSettings, *, now_ms: int) -> int:
    """How many of the sealed segments retention allows to delete, oldest first."""
    if not settings.deleted:
        return 0
    by_age = expired(sealed, now_ms=now_ms, retention_ms=settings.retention_ms)
    if settings.headwater_full_policy != "drop-oldest":
        return by_age  # a full topic makes its producers wait or fail; it does not forget
    by_size = surplus([*sealed, active], retention_bytes=settings.retention_bytes)
    return max(by_age, min(by_size, len(sealed)))
