"""Problems of the log itself, for GET /problems: topics that are offline, and offsets that cannot be read."""

from collections.abc import Iterator
from typing import Any

from headwater.log.log import Log

RANGES_MAX = 3
OFFLINE, UNREADABLE = "offline", "unreadable"


def log_problems(log: Log) -> Iterator[dict[str, Any]]:
    """One for each topic or partition; what was noticed at the start has no moment since when it is so."""
    for topic, why in sorted(log.offline_topics().items()):
        yield _problem(topic, OFFLINE, f"it could not be opened: {why}; the other topics are served")
    for one in log.partitions():
        if one.offline:
            yield _problem(one.topic, OFFLINE, f"partition {one.number}: {one.why_offline}")
        gaps = one.unreadable
        if gaps:
            said = [f"{gap.first_offset} to {gap.end_offset - 1} ({gap.why})" for gap in gaps[:RANGES_MAX]]
            more = f" and {len(gaps) - RANGES_MAX} more ranges" if len(gaps) > RANGES_MAX else ""
            text = f"partition {one.number}: offsets {', '.join(said)}{more} cannot be read; the rest is served"
            yield _problem(one.topic, UNREADABLE, text)


def _problem(topic: str, kind: str, text: str) -> dict[str, Any]:
    return {"flow": "", "topic": topic, "kind": kind, "text": text, "since_ms": None}
