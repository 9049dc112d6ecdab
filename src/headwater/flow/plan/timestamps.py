"""What a finished batch knew of time, for people and programs (pure)."""

from datetime import UTC, datetime, timedelta
from typing import Any

from headwater.flow.commit.job_folder import BatchRecord

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def times_json(record: BatchRecord) -> dict[str, Any]:
    """Up to when nothing more is waited for, the newest time that was seen, and partitions that are not waited for."""
    return {
        "watermark": None if record.watermark_us is None else iso(record.watermark_us),
        "newest": None if record.newest_us is None else iso(record.newest_us),
        "idle": [f"{place.topic}/{place.partition}" for place in sorted(record.idle)],
    }


def behind_us(record: BatchRecord) -> int | None:
    """How far the watermark is behind the newest time: so long results wait, at least."""
    if record.watermark_us is None or record.newest_us is None:
        return None
    return max(0, record.newest_us - record.watermark_us)


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def iso(us: int) -> str:
    """
    >>> iso(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return moment(us).isoformat().replace("+00:00", "Z")


def plain(us: int) -> str:
    """As short as a line of a table needs it.

    >>> plain(1_500_000)
    '1970-01-01 00:00:01'
    """
    return f"{moment(us):%Y-%m-%d %H:%M:%S}"
