"""Durations as people write them: "10 minutes", "1 hour 30 minutes", "90s"."""

import re

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place

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


def duration_us(text: str) -> int:
    """
    >>> duration_us("10 minutes"), duration_us("1 hour 30 minutes"), duration_us("90s")
    (600000000, 5400000000, 90000000)
    """
    total, position = 0.0, 0
    while found := PART.match(text, position):
        unit = found[2] if found[2] in MICROSECONDS else found[2].removesuffix("s")
        if unit not in MICROSECONDS:
            break
        total += float(found[1]) * MICROSECONDS[unit]
        position = found.end()
    if position == 0 or position < len(text):
        raise InvalidDeclaration(
            f"{text!r} ({calling_place()}) is not a duration", 'Write for example "10 minutes", "1 hour" or "90s".'
        )
    return round(total)


def positive_us(text: str, what: str) -> int:
    """InvalidDeclaration, which names what it is for, unless the duration is longer than nothing."""
    found = duration_us(text)
    if found <= 0:
        raise InvalidDeclaration(f"{what} ({calling_place()}) is {text}", "Take more than nothing.")
    return found


def spelled(us: int) -> str:
    """The shortest way to write a duration that reads back as the same.

    >>> spelled(600_000_000), spelled(5_400_000_000), spelled(0)
    ('10 minutes', '90 minutes', '0 seconds')
    """
    units = ("day", "hour", "minute", "second", "millisecond", "microsecond")
    unit = next(unit for unit in units if us % MICROSECONDS[unit] == 0) if us else "second"
    count = us // MICROSECONDS[unit]
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
