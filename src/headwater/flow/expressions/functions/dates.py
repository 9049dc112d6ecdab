"""Functions of dates that go by the calendar (pure)."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, failing
from headwater.flow.expressions.functions.times import UNITS_US
from headwater.flow.expressions.tree import Expression

DAY_US = UNITS_US["day"]
DIFFERENCES = {**UNITS_US, "week": 7 * DAY_US}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
TRUNCATED_DATES = {
    "week": "week", "month": "month", "mon": "month", "mm": "month", "quarter": "quarter", "year": "year",
    "yyyy": "year", "yy": "year",
}  # fmt: skip
FIRST_DAY, LAST_DAY = -719_528, 2_932_896
"""Of the years 0000 to 9999."""
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


def _numbers(column: pa.Array, fill: int = 0) -> Any:
    return pc.fill_null(column, pa.scalar(fill, column.type)).to_numpy(zero_copy_only=False).astype(np.int64)


def _missing(*columns: pa.Array) -> Any:
    found = columns[0].is_null().to_numpy(zero_copy_only=False)
    for one in columns[1:]:
        found = found | one.is_null().to_numpy(zero_copy_only=False)
    return found


def _days(values: pa.Array) -> Any:
    return _numbers(values.cast(pa.int32()))


def _dates(days: Any, missing: Any) -> pa.Array:
    return pa.array(np.where(missing, 0, days).astype(np.int32), pa.int32(), mask=missing).cast(pa.date32())


def _months(days: Any) -> Any:
    """Since January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_day(months: Any) -> Any:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def truncated(node: Expression, rows: int, value: Values) -> Evaluated:
    """trunc of a date, to a unit that is a literal."""
    unit, values = node.option("unit"), as_array(value, rows)
    days = _days(values)
    if unit == "week":
        return Evaluated(_dates(days - np.mod(days + 3, 7), _missing(values)))
    months = _months(days)
    return Evaluated(_dates(first_day(months - np.mod(months, MONTHS[unit])), _missing(values)))


def last_day(node: Expression, rows: int, value: Values) -> Evaluated:
    values = as_array(value, rows)
    return Evaluated(_dates(first_day(_months(_days(values)) + 1) - 1, _missing(values)))


def _moved(days: Any, months: Any) -> Any:
    """A day so many months later: the same of the month, or its last."""
    own = _months(days)
    length = first_day(own + months + 1) - first_day(own + months)
    return first_day(own + months) + np.minimum(days - first_day(own), length - 1)


def months_added(node: Expression, rows: int, value: Values, count: Values) -> Evaluated:
    values, counts = as_array(value, rows), as_array(count, rows)
    days = _moved(_days(values), _numbers(counts))
    missing = _missing(values, counts)
    outside = ~missing & ((days < INT_MIN) | (days > INT_MAX))
    errors = failing(pa.array(outside), "a date is outside what one can hold", rows)
    return Evaluated(_dates(days, missing | outside), errors)


def time_months_added(node: Expression, rows: int, value: Values) -> Evaluated:
    """A time and a literal number of months."""
    values = as_array(value, rows)
    micros = _numbers(values.cast(pa.int64()))
    days = np.floor_divide(micros, DAY_US)
    moved = _moved(days, np.int64(node.option("months")))
    inside = (moved > LONG_MIN // DAY_US + 1) & (moved < LONG_MAX // DAY_US)
    found = np.where(inside, moved, 0) * DAY_US + (micros - days * DAY_US)
    missing = _missing(values)
    errors = failing(pa.array(~missing & ~inside), "a time is outside what one can hold", rows)
    return Evaluated(pa.array(found, pa.int64(), mask=missing | ~inside).cast(values.type), errors)


def made(node: Expression, rows: int, year: Values, month: Values, day: Values) -> Evaluated:
    """make_date; what is no date is an error of its row."""
    parts = [as_array(one, rows) for one in (year, month, day)]
    years, months, days = (_numbers(one, 1) for one in parts)
    missing = _missing(*parts)
    known = (months >= 1) & (months <= 12) & (days >= 1) & (abs(years) < 10**7)
    place = (np.where(known, years, 1970) - 1970) * 12 + np.where(known, months, 1) - 1
    first = first_day(place)
    found = first + days - 1
    good = known & (found < first_day(place + 1)) & (found >= INT_MIN) & (found <= INT_MAX)
    errors = failing(pa.array(~good & ~missing), "year, month and day are no date", rows)
    return Evaluated(_dates(found, missing | ~good), errors)


def since(node: Expression, rows: int, start: Values, end: Values) -> Evaluated:
    """timestampdiff in whole units of a fixed length, towards zero."""
    begins, ends = as_array(start, rows), as_array(end, rows)
    one, other = (_numbers(column.cast(pa.int64())) for column in (begins, ends))
    with np.errstate(over="ignore"):
        micros = other - one
    missing = _missing(begins, ends)
    over = ((other >= 0) != (one >= 0)) & ((micros >= 0) != (other >= 0)) & ~missing
    errors = failing(pa.array(over), "two times are too far apart", rows)
    per = node.option("micros")
    whole = micros // per + ((micros < 0) & (micros % per != 0))
    return Evaluated(pa.array(whole, pa.int64(), mask=missing | over), errors)


def as_number(node: Expression, rows: int, value: Values) -> Evaluated:
    """A time as its microseconds, a date as its days, and back."""
    values = as_array(value, rows)
    between = pa.int32() if pa.int32() in (values.type, node.type) else pa.int64()
    return Evaluated(values.cast(between).cast(node.type))


def unix_seconds(node: Expression, rows: int, value: Values) -> Evaluated:
    """unix_timestamp of a time or a date."""
    values = as_array(value, rows)
    if pa.types.is_date(values.type):
        return Evaluated(pc.multiply(values.cast(pa.int32()).cast(pa.int64()), DAY_US // 10**6))
    return Evaluated(pc.divide(values.cast(pa.int64()), 10**6))


def weekday(node: Expression, rows: int, value: Values) -> Evaluated:
    """Monday is 0."""
    values = as_array(value, rows)
    return Evaluated(pa.array(np.mod(_days(values) + 3, 7).astype(np.int32), pa.int32(), mask=_missing(values)))


def text_of_days(values: pa.Array) -> pa.Array:
    """Dates as Spark writes them: years of more than four digits have a sign."""
    days, missing = _days(values), _missing(values)
    text = np.datetime_as_string(days.astype("datetime64[D]"))
    usual = (days >= FIRST_DAY) & (days <= LAST_DAY)
    if usual.all():
        return pa.array(text, pa.string(), mask=missing)
    years = _months(days) // 12 + 1970
    pairs = zip(years.tolist(), text.tolist(), usual.tolist(), strict=True)
    written = [one if plain else f"{'-' if year < 0 else '+'}{abs(year):04d}{one[-6:]}" for year, one, plain in pairs]
    return pa.array(written, pa.string(), mask=missing)


def text_of_times(values: pa.Array) -> pa.Array:
    """Times as Spark writes them: without the zeros at the end of a second's fraction."""
    micros = _numbers(values.cast(pa.int64()))
    days = np.floor_divide(micros, DAY_US)
    within = pa.array(micros - days * DAY_US).cast(pa.time64("us")).cast(pa.string())  # always with six digits
    clock = pc.utf8_rtrim(pc.utf8_rtrim(within, "0"), ".")
    clock = pc.if_else(pc.ends_with(within, ".000000"), pc.utf8_slice_codeunits(within, 0, 8), clock)
    joined = pc.binary_join_element_wise(text_of_days(_dates(days, _missing(values))), clock, " ")
    return pc.if_else(pc.is_valid(values), joined, pa.scalar(None, pa.string()))
