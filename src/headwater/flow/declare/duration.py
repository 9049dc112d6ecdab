"""Durations in declarations, with the line of the app in the error."""

from datetime import timedelta

from headwater.durations import MICROSECONDS, duration
from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place


def duration_us(text: str) -> int:
    """
    >>> duration_us("10 minutes"), duration_us("1 hour 30 minutes"), duration_us("90s")
    (600000000, 5400000000, 90000000)
    """
    try:
        return duration(text) // timedelta(microseconds=1)
    except ValueError:
        raise InvalidDeclaration(
            f"{text!r} ({calling_place()}) is not a duration", 'Write for example "10 minutes", "1 hour" or "90s".'
        ) from None


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
