"""Dates and times as MariaDB packs them into rows, into JSON. Pure.

All are emitted as text in ISO 8601, with as many digits of a second as the column has; a timestamp is in UTC and says
so. What MariaDB allows and no calendar has (month 0, day 0, year 0) is emitted as it is stored.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Reader = Callable[[bytes, int], tuple[bytes, int]]
"""Reads a value at a position of a row; returns its JSON and the position after it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS = 86_400


def year(data: bytes, at: int) -> tuple[bytes, int]:
    """
    >>> year(bytes([126]), 0), year(bytes([0]), 0)
    ((b'2026', 1), (b'0', 1))
    """
    since = data[at]
    return b"%d" % (1900 + since if since else 0), at + 1


def date(data: bytes, at: int) -> tuple[bytes, int]:
    """
    >>> date(bytes([0x3F, 0xD4, 0x0F]), 0)
    (b'"2026-01-31"', 3)
    """
    end = at + 3
    packed = int.from_bytes(data[at:end], "little")
    return b'"%04d-%02d-%02d"' % (packed >> 9, packed >> 5 & 15, packed & 31), end


def fraction(data: bytes, at: int, digits: int) -> bytes:
    """The fraction of the seconds, with its point."""
    if not digits:
        return b""
    size = (digits + 1) // 2
    number = int.from_bytes(data[at : at + size], "big")
    return b".%b" % (b"%0*d" % (2 * size, number))[:digits]


def datetime_of(digits: int) -> Reader:
    """
    >>> datetime_of(0)(bytes([0x99, 0xB8, 0xFE, 0xC0, 0x00]), 0)
    (b'"2026-01-31T12:00:00"', 5)
    """
    size = 5 + (digits + 1) // 2

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        packed = int.from_bytes(data[at : at + 5], "big") & 0x7FFFFFFFFF
        months, clock = packed >> 22, packed & 0x1FFFF
        text = b'"%04d-%02d-%02dT%02d:%02d:%02d%b"' % (
            months // 13, months % 13, packed >> 17 & 31, clock >> 12, clock >> 6 & 63, clock & 63,
            fraction(data, at + 5, digits),
        )  # fmt: skip
        return text, at + size

    return read


def timestamp_of(digits: int) -> Reader:
    """
    >>> timestamp_of(2)(bytes([0x69, 0x7D, 0xEE, 0xC0, 50]), 0)
    (b'"2026-01-31T12:00:00.50Z"', 5)
    """
    size = 4 + (digits + 1) // 2
    days: dict[int, bytes] = {}

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        parts = fraction(data, at + 4, digits)
        if seconds == 0 and not parts.strip(b".0"):
            return b'"0000-00-00T00:00:00%bZ"' % parts, at + size
        since, rest = divmod(seconds, _DAY_SECONDS)
        day = days.get(since)
        if day is None:
            day = days[since] = (_EPOCH + timedelta(days=since)).strftime("%Y-%m-%d").encode()
        return b'"%bT%02d:%02d:%02d%bZ"' % (day, rest // 3600, rest // 60 % 60, rest % 60, parts), at + size

    return read


def time_of(digits: int) -> Reader:
    """
    >>> time_of(0)(bytes([0x80, 0xC0, 0x00]), 0), time_of(1)(bytes([0x7F, 0xFF, 0xFE, 0xCE]), 0)
    ((b'"12:00:00"', 3), (b'"-00:00:01.5"', 4))
    """
    size = (digits + 1) // 2
    whole, middle = 3 + size, 1 << (8 * (3 + size) - 1)

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + whole
        packed = int.from_bytes(data[at:end], "big") - middle
        sign, packed = (b"-", -packed) if packed < 0 else (b"", packed)
        clock, rest = packed >> 8 * size, packed & ((1 << 8 * size) - 1)
        parts = b".%b" % (b"%0*d" % (2 * size, rest))[:digits] if digits else b""
        return b'"%b%02d:%02d:%02d%b"' % (sign, clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63, parts), end

    return read
