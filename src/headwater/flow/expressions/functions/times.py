"""Functions of dates and times; the session's zone is UTC (pure)."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, failing_values
from headwater.flow.expressions.tree import Expression

FIELDS = {
    "year": pc.year, "month": pc.month, "day": pc.day, "hour": pc.hour, "minute": pc.minute, "second": pc.second,
    "quarter": pc.quarter, "day_of_year": pc.day_of_year, "week": pc.iso_week,
}  # fmt: skip
UNITS_US = {"microsecond": 1, "millisecond": 1_000, "second": 10**6, "minute": 60 * 10**6, "hour": 3_600 * 10**6,
            "day": 86_400 * 10**6}  # fmt: skip
TRUNCATED = {
    **{name: name for name in (*UNITS_US, "week", "month", "quarter", "year")},
    "mon": "month", "mm": "month", "yyyy": "year", "yy": "year", "dd": "day",
}  # fmt: skip
LONG_MAX = 2**63 - 1


def field(node: Expression, rows: int, value: Values) -> Evaluated:
    """year, month, day, hour, …"""
    if node.kind == "day_of_week":  # Sunday is 1
        found = pc.day_of_week(value, count_from_zero=False, week_start=7)
    else:
        found = FIELDS[node.kind](value)
    return Evaluated(found.cast(pa.int32()))


def truncated(node: Expression, rows: int, value: Values) -> Evaluated:
    """date_trunc, of a unit that is a literal."""
    unit, values = node.option("unit"), as_array(value, rows)
    micros = values.cast(pa.int64())
    if unit in UNITS_US:
        numbers = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
        floor = numbers - np.mod(numbers, UNITS_US[unit])
        return Evaluated(pa.array(floor, pa.int64(), mask=_missing(values)).cast(values.type))
    days = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False) // UNITS_US["day"]
    if unit == "week":
        start = days - np.mod(days + 3, 7)
    else:
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        months -= np.mod(months, {"month": 1, "quarter": 3, "year": 12}[unit])
        start = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return Evaluated(pa.array(start * UNITS_US["day"], pa.int64(), mask=_missing(values)).cast(values.type))


def _missing(values: pa.Array) -> Any:
    return pc.is_null(values).to_numpy(zero_copy_only=False)


def shifted(node: Expression, rows: int, value: Values) -> Evaluated:
    """A time and a length of time that is a literal."""
    values, by = as_array(value, rows), node.option("micros")
    numbers = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    outside = numbers > LONG_MAX - by if by > 0 else numbers < -LONG_MAX - 1 - by
    errors = failing_values(pa.array(outside), values.cast(pa.int64()), "the time {} µs cannot be shifted so far")
    with np.errstate(over="ignore"):
        moved = numbers + by
    return Evaluated(pa.array(moved, pa.int64(), mask=_missing(values) | outside).cast(values.type), errors)


def day_added(node: Expression, rows: int, value: Values) -> Evaluated:
    values = as_array(value, rows).cast(pa.int32()).cast(pa.int64())
    days = pc.add(values, node.option("days"))
    outside = pc.or_(pc.greater(days, 2**31 - 1), pc.less(days, -(2**31)))
    errors = failing_values(outside, days, "day {} is outside what a date can hold")
    return Evaluated(pc.if_else(outside, None, days).cast(pa.int32()).cast(pa.date32()), errors)


def days_between(node: Expression, rows: int, end: Values, start: Values) -> Evaluated:
    return Evaluated(pc.subtract(*(one.cast(pa.int32()) for one in (end, start))))


def since_epoch(node: Expression, rows: int, value: Values) -> Evaluated:
    """unix_micros, unix_millis, unix_seconds."""
    per, values = node.option("micros"), as_array(value, rows)
    numbers = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return Evaluated(pa.array(np.floor_divide(numbers, per), pa.int64(), mask=_missing(values)))


def from_epoch(node: Expression, rows: int, value: Values) -> Evaluated:
    """timestamp_micros, timestamp_millis, timestamp_seconds of whole numbers."""
    per, values = node.option("micros"), as_array(value, rows).cast(pa.int64())
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    outside = (numbers > LONG_MAX // per) | (numbers < (-LONG_MAX - 1) // per + (per > 1))
    errors = failing_values(pa.array(outside), values, "{} is outside what a timestamp can hold")
    safe = np.where(outside, 0, numbers) * per
    return Evaluated(pa.array(safe, pa.int64(), mask=_missing(values) | outside).cast(node.type), errors)
