"""When a row happened: from a column, from the record, or from three clocks; and whether that can be true. Pure.

A device's clock may be wrong by hours, and a device may be offline for days. If it says when something occurred and
when it sent that, both by its own clock, then what is wrong with the clock is in both, and

    occurred + (received - sent)

is when it occurred by the clock of the receiver, but for the time that the way took.

A time that cannot be true would drag the watermark with it and make all that comes after it late. So a row that lies
too far from the timestamp of its own record is set aside. That timestamp, not the clock on the wall, is what it is
compared with: rows that are read again after a year are treated as they were on the first day.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.source.columns import TIMESTAMP_TYPE, microseconds
from headwater.flow.source.poison import NO_POISON, Poison
from headwater.flow.source.times.clock_rules import ClockRules, DeviceTime
from headwater.log.record_columns import Int64Array

YEAR_US = 366 * 86_400_000_000
UNITS_TOO_SMALL = ((1_000, "a thousandth"), (1_000_000, "a millionth"))
"""What a time is of the right one if seconds were read as milliseconds, or milliseconds as microseconds; or both."""
UNITS_TOO_LARGE = {
    1_000: "nanoseconds read as microseconds, or microseconds read as milliseconds",
    1_000_000: "nanoseconds read as milliseconds",
}
"""By how much a time is too large, and what was mistaken for what then."""


def as_microseconds(times: pa.Array) -> pa.Array:
    """Times as whole numbers; days begin at midnight UTC."""
    wanted = TIMESTAMP_TYPE if pa.types.is_timestamp(times.type) and times.type.tz else pa.timestamp("us")
    return times.cast(wanted).cast(pa.int64())


def estimated(
    device: DeviceTime, columns: Mapping[str, pa.Array], timestamps_ms: Int64Array
) -> tuple[pa.Array, Poison]:
    """When rows occurred by the receiver's clock; null where the device says nothing or is not believed."""
    occurred, sent = (as_microseconds(columns[name]) for name in (device.occurred, device.sent))
    received = pa.array(microseconds(timestamps_ms))
    if device.received is not None:
        received = pc.coalesce(as_microseconds(columns[device.received]), received)
    correction = pc.subtract(received, sent)
    unsent = pc.and_(occurred.is_valid(), sent.is_null())
    far = pc.fill_null(pc.greater(pc.abs(correction), device.most_us), False)
    wrong = np.flatnonzero(np.asarray(pc.or_(unsent, pc.and_(far, occurred.is_valid()))))
    estimate = pc.add(occurred, correction)
    reasons = [_why_not_corrected(device, correction[row].as_py()) for row in wrong.tolist()]
    return estimate.cast(pa.timestamp("us", "UTC")), Poison(wrong.astype(np.int64), reasons)


def _why_not_corrected(device: DeviceTime, correction_us: int | None) -> str:
    if correction_us is None:
        return f"{device.sent}: missing, and without it the device's clock cannot be corrected"
    way = "behind" if correction_us > 0 else "ahead of"
    return (
        f"{device.sent} lies {span(abs(correction_us))} {way} the time at which the record was received, "
        f"and no correction above {span(device.most_us)} is believed"
    )


def doubtful(name: str, rules: ClockRules, times_us: pa.Array, timestamps_ms: Int64Array) -> Poison:
    """Rows whose time is too far from that of their record. Where a record has no timestamp, nothing is known."""
    if not len(times_us) or (rules.ahead_us is None and rules.behind_us is None):
        return NO_POISON
    edges = pc.min_max(times_us)
    least, most = edges["min"].as_py(), edges["max"].as_py()
    if least is None:
        return NO_POISON
    first, last = int(timestamps_ms.min()) * 1000, int(timestamps_ms.max()) * 1000
    # One look at the edges is all that rows of a usual batch cost.
    fine_ahead = rules.ahead_us is None or most <= first + rules.ahead_us
    fine_behind = least >= last - (YEAR_US if rules.behind_us is None else min(rules.behind_us, YEAR_US))
    return NO_POISON if fine_ahead and fine_behind else _looked_at(name, rules, times_us, timestamps_ms)


def _looked_at(name: str, rules: ClockRules, times_us: pa.Array, timestamps_ms: Int64Array) -> Poison:
    records_us = microseconds(timestamps_ms)
    known = np.asarray(times_us.is_valid()) & (timestamps_ms > 0)
    times = pc.fill_null(times_us, 0).to_numpy()
    # Halves: the difference of two times need not fit into 64 bits.
    distance = times // 2 - records_us // 2
    wrong = np.zeros(len(times), dtype=np.bool_)
    if rules.ahead_us is not None:
        wrong |= distance > rules.ahead_us // 2
    if rules.behind_us is not None:
        wrong |= -distance > rules.behind_us // 2
    wrong = (wrong | _too_small(times, records_us)) & known
    rows = np.flatnonzero(wrong).astype(np.int64)
    reasons = [_why_doubtful(name, rules, int(times[row]), int(records_us[row])) for row in rows.tolist()]
    return Poison(rows, reasons)


def _too_small(times_us: Int64Array, records_us: Int64Array) -> npt.NDArray[np.bool_]:
    """A time of the seventies that, a thousand or a million times as large, is that of its record by a year."""
    found = np.zeros(len(times_us), dtype=np.bool_)
    modern = records_us > 10 * YEAR_US
    for factor, _ in UNITS_TOO_SMALL:
        likely = modern & (np.abs(times_us) < 2**62 // factor)
        found |= likely & (np.abs(np.where(likely, times_us, 0) * factor - records_us) < YEAR_US)
    return found


def _why_doubtful(name: str, rules: ClockRules, time_us: int, record_us: int) -> str:
    lies = f"{name}: {shown(time_us)} lies {span(abs(time_us - record_us))}"
    if time_us > record_us:
        likely = [units for factor, units in UNITS_TOO_LARGE.items() if abs(time_us // factor - record_us) < YEAR_US]
        hint = f": it looks like {likely[0]}" if likely else ""
        return f"{lies} after its record ({shown(record_us)}); at most {span(rules.ahead_us or 0)} is believed{hint}"
    for factor, part in UNITS_TOO_SMALL:
        if abs(time_us * factor - record_us) < YEAR_US:
            return f"{lies} before its record and is {part} of that: it looks like {_units(factor)}"
    return f"{lies} before its record ({shown(record_us)}); at most {span(rules.behind_us or 0)} is believed"


def _units(factor: int) -> str:
    return {
        1_000: "seconds read as milliseconds, or milliseconds read as microseconds",
        1_000_000: "seconds read as microseconds",
    }[factor]


def shown(time_us: int) -> str:
    """
    >>> shown(0), shown(2**62)
    ('1970-01-01T00:00:00+00:00', '4611686018427387904 µs')
    """
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return f"{time_us} µs"


def span(us: int) -> str:
    """
    >>> span(90_000_000), span(172_800_000_000)
    ('0:01:30', '2 days, 0:00:00')
    """
    return str(timedelta(microseconds=us)) if us < 10**17 else f"{us // YEAR_US:,} years"
