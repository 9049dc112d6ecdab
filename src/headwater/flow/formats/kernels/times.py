"""Cells to timestamps and dates. Compiled.

    2026-11-15   2026-11-15T10:40   2026-11-15T10:40:31.123456789Z   2026-11-15 10:40:31+01:00

Years 0001 to 9999, each part with all its digits; any digits of a second, of which six are kept. Without an offset
a timestamp is UTC, or local time of the zone that the reader names; a timestamp_ntz must not have one. Numbers are
timestamps only if the reader says in which unit.

Where clocks are put back, a local time comes twice: it is taken for the first. Where they are put forward, one is left
out: it is taken for as long after the change as it claims to be, so that 02:30 is 03:30. Spark does the same.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.formats.kernels.cells import (
    ABSENT,
    INTEGER,
    NULL,
    NUMBER,
    TEXT,
    VALID,
    WRONG,
    ByteArray,
    Cells,
    Int32Array,
    frozen,
)
from headwater.flow.formats.kernels.compiling import compiled, inner
from headwater.flow.formats.kernels.memory import address_of, byte_at
from headwater.flow.formats.kernels.numbers import Int64Array, decimal_words, limit_of

# How many digits of a microsecond count stand behind the point of one unit.
DIGITS_OF_UNIT = {"seconds": 6, "millis": 3, "micros": 0}
NO_UNIT = -1
DIGITS_OF_TIMESTAMP = 18
FIRST_MICROS, LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
DAY_SECONDS = 86_400
MONTH_DAYS = frozen(np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64))
_LIMIT = limit_of(DIGITS_OF_TIMESTAMP)


class TimeReading(NamedTuple):
    """What is not said in a timestamp itself."""

    unit: str | None = None
    """Of numbers; None: a number is no timestamp."""
    zone: str | None = None
    """Of texts without an offset; None: UTC."""


AS_WRITTEN = TimeReading()


def timestamps(cells: Cells, *, zoned: bool, times: TimeReading = AS_WRITTEN) -> tuple[Int64Array, ByteArray]:
    """Microseconds since 1970, and states."""
    values, states = np.empty(len(cells.kinds), dtype=np.int64), np.empty(len(cells.kinds), dtype=np.uint8)
    digits = NO_UNIT if times.unit is None else DIGITS_OF_UNIT[times.unit]
    _timestamps(*cells, zoned, digits, _LIMIT, values, states)
    if zoned and times.zone is not None:
        local = np.zeros(len(values), dtype=np.bool_)
        _without_offset(*cells, states, local)
        values[local] = moments_of(values[local], times.zone)
        states[local & ((values < FIRST_MICROS) | (values > LAST_MICROS))] = WRONG
    return values, states


def moments_of(local_us: Int64Array, zone: str) -> Int64Array:
    """When it is what time in a zone; pa.ArrowInvalid if there is no such zone.

    >>> moments_of(np.array([3_600_000_000]), "Europe/Paris").tolist()
    [0]
    """
    local = pa.array(local_us, pa.timestamp("us"))
    # Of a time that is left out the moment before the change is given, and with it what was ahead of UTC then.
    near = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    ahead = pc.local_timestamp(near).cast(pa.int64()).to_numpy() - near.cast(pa.int64()).to_numpy()
    return np.asarray(local_us - ahead, dtype=np.int64)


def dates(cells: Cells) -> tuple[Int32Array, ByteArray]:
    """Days since 1970, and states."""
    values, states = np.empty(len(cells.kinds), dtype=np.int32), np.empty(len(cells.kinds), dtype=np.uint8)
    _dates(*cells, values, states)
    return values, states


@inner
def _two_digits(body, offset):  # type: ignore[no-untyped-def]
    tens, ones = byte_at(body, offset) - 48, byte_at(body, offset + 1) - 48
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else -1


@inner
def _days(body, offset, end):  # type: ignore[no-untyped-def]
    """Days since 1970 of the date that stands here, and whether it is one."""
    if offset + 10 > end or byte_at(body, offset + 4) != 45 or byte_at(body, offset + 7) != 45:
        return 0, False
    century, rest = _two_digits(body, offset), _two_digits(body, offset + 2)
    month, day = _two_digits(body, offset + 5), _two_digits(body, offset + 8)
    year = century * 100 + rest
    if century < 0 or rest < 0 or year < 1 or not 1 <= month <= 12 or day < 1:
        return 0, False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > MONTH_DAYS[month] + (1 if month == 2 and leap else 0):
        return 0, False
    # Years that begin in March have their leap day at the end, so that days before a month follow a straight line.
    shifted = year - 1 if month <= 2 else year
    month_from_march = (month + 9) % 12
    day_of_year = (153 * month_from_march + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + day_of_year - 719_468, True


@inner
def _zone_seconds(body, offset, end):  # type: ignore[no-untyped-def]
    """How far a zone (Z, +hh, +hhmm, +hh:mm) is ahead of UTC, and whether it is one."""
    if end - offset == 1:
        return 0, (byte_at(body, offset) | 32) == 122
    if end - offset < 3 or (byte_at(body, offset) != 43 and byte_at(body, offset) != 45):
        return 0, False
    negative = byte_at(body, offset) == 45
    hours, minutes = _two_digits(body, offset + 1), 0
    offset += 3
    if offset < end:
        if byte_at(body, offset) == 58:
            offset += 1
        if end - offset != 2:
            return 0, False
        minutes = _two_digits(body, offset)
    if not 0 <= hours <= 18 or not 0 <= minutes <= 59 or (hours == 18 and minutes > 0):
        return 0, False
    seconds = hours * 3600 + minutes * 60
    return (-seconds if negative else seconds), True


@inner
def _fraction_micros(body, offset, end):  # type: ignore[no-untyped-def]
    """Microseconds of the digits behind a point, and the offset behind them; -1 if there are none."""
    micros, count = np.int64(0), 0
    while offset < end and 48 <= byte_at(body, offset) <= 57:
        if count < 6:
            micros = micros * 10 + (byte_at(body, offset) - 48)
        count += 1
        offset += 1
    if count == 0:
        return 0, -1
    for _ in range(count, 6):
        micros *= 10
    return micros, offset


@inner
def _micros(body, offset, end, zoned):  # type: ignore[no-untyped-def]
    """Microseconds since 1970 of a text, and whether it is a timestamp."""
    days, fine = _days(body, offset, end)
    if not fine:
        return 0, False
    total = days * DAY_SECONDS
    offset += 10
    micros = 0
    if offset < end:
        between = byte_at(body, offset)
        if (between != 32 and between | 32 != 116) or offset + 6 > end or byte_at(body, offset + 3) != 58:
            return 0, False
        hour, minute, second = _two_digits(body, offset + 1), _two_digits(body, offset + 4), 0
        offset += 6
        if offset < end and byte_at(body, offset) == 58:
            if offset + 3 > end:
                return 0, False
            second = _two_digits(body, offset + 1)
            offset += 3
            if offset < end and byte_at(body, offset) == 46:
                micros, offset = _fraction_micros(body, offset + 1, end)
                if offset < 0:
                    return 0, False
        if not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 59:
            return 0, False
        total += hour * 3600 + minute * 60 + second
    if offset < end:
        ahead, fine = _zone_seconds(body, offset, end)
        if not fine or not zoned:
            return 0, False
        total -= ahead
    return total * 1_000_000 + micros, True


@compiled
def _timestamps(body, starts, ends, kinds, zoned, digits, limit, values, states):  # type: ignore[no-untyped-def]
    text = address_of(body)
    limit_low, limit_high = limit
    for row in range(len(starts)):
        kind = kinds[row]
        values[row] = 0
        states[row] = WRONG if kind > NULL else ABSENT
        micros, fine = np.int64(0), False
        if kind == TEXT:
            micros, fine = _micros(text, np.int64(starts[row]), np.int64(ends[row]), zoned)
        elif kind in (INTEGER, NUMBER) and digits >= 0:
            low, _, fine = decimal_words(
                text, np.int64(starts[row]), np.int64(ends[row]), DIGITS_OF_TIMESTAMP, digits, limit_low, limit_high
            )
            micros = np.int64(low)
        if fine and FIRST_MICROS <= micros <= LAST_MICROS:
            values[row] = micros
            states[row] = VALID


@compiled
def _without_offset(body, starts, ends, kinds, states, local):  # type: ignore[no-untyped-def]
    text = address_of(body)
    for row in range(len(starts)):
        if kinds[row] != TEXT or states[row] != VALID:
            continue
        local[row] = byte_at(text, np.int64(ends[row]) - 1) | 32 != 122
        for offset in range(starts[row] + 10, ends[row]):
            byte = byte_at(text, np.int64(offset))
            if byte == 43 or byte == 45:
                local[row] = False


@compiled
def _dates(body, starts, ends, kinds, values, states):  # type: ignore[no-untyped-def]
    text = address_of(body)
    for row in range(len(starts)):
        values[row] = 0
        states[row] = WRONG if kinds[row] > NULL else ABSENT
        if kinds[row] == TEXT and ends[row] - starts[row] == 10:
            days, fine = _days(text, np.int64(starts[row]), np.int64(ends[row]))
            if fine:
                values[row] = days
                states[row] = VALID
