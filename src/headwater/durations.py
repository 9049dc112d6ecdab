"""Durations as people write them: "10 minutes", "1 hour 30 minutes", "90s"."""

import re
from datetime import timedelta

MICROSECONDS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def duration(text: str) -> timedelta:
    """ValueError if the text is none.

    >>> duration("1 hour 30 minutes"), duration("90s")
    (datetime.timedelta(seconds=5400), datetime.timedelta(seconds=90))
    """
    total, position = 0.0, 0
    while found := PART.match(text, position):
        unit = found[2] if found[2] in MICROSECONDS else found[2].removesuffix("s")
        if unit not in MICROSECONDS:
            break
        total += float(found[1]) * MICROSECONDS[unit]
        position = found.end()
    if position == 0 or position < len(text):
        raise ValueError(f"{text!r} is not a duration")
    return timedelta(microseconds=round(total))
