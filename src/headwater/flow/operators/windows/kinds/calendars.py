"""Calendar windows: the event-time window of each row, as [start, end), in the time zone of the window (vectorised).

Window boundaries are tabulated year by year with Python's `zoneinfo`, and rows are assigned by binary search. The time
zone database is thus that of the system or, where there is none, of the `tzdata` package, which pandas depends on;
pyarrow's own lookup, which knows only the system's, is not used.

A boundary is a local time of the zone. Where daylight saving skips that local time it is later by as much as is
skipped, and where it occurs twice it is the first. Rows are compared with boundaries as instants, never as local times:
a row whose local time repeats the end of a day after that day's boundary belongs to the next day. Spark SQL's
`from_utc_timestamp` and `to_utc_timestamp` resolve local times in the same way.
"""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from headwater.flow.operators.windows.shapes import LENGTHS, MONTHS, Calendar, micros_of
from headwater.flow.state.runs.equality import Integers

CYCLE_YEARS, CYCLE_US = 400, 146_097 * 86_400_000_000
"""The Gregorian calendar repeats itself, days of the week included."""
FIRST_YEAR, LAST_YEAR = 401, 9600
"""Years whose boundaries are computed by `datetime`; those of others are a number of cycles away."""
AROUND = 2
"""The window of a row, and the one after it, start at most so many calendar years from the row's year in UTC."""
SPREAD_YEARS = 100
"""Up to so many years between the oldest and the newest row, boundaries of all years between them are looked up."""


def calendar_spans(window: Calendar, times_us: Integers) -> tuple[Integers, Integers]:
    """Start and end of the window that each event time belongs to.

    >>> day = Calendar("day", "Europe/Berlin")
    >>> starts, ends = calendar_spans(day, np.array([micros_of(datetime.fromisoformat("2024-03-31T12:00Z"))]))
    >>> ((ends - starts) // 3_600_000_000).tolist()
    [23]
    """
    if not len(times_us):
        return times_us, times_us
    first_us, last_us = int(times_us.min()), int(times_us.max())
    boundaries = _boundaries(window, _years(times_us, first_us, last_us))
    low = int(np.searchsorted(boundaries, first_us, "right")) - 1
    high = int(np.searchsorted(boundaries, last_us, "right")) + 1
    boundaries = boundaries[low:high]
    if len(boundaries) == 2:  # all rows are of one window, as those of most batches are
        return np.full(len(times_us), boundaries[0]), np.full(len(times_us), boundaries[1])
    places = np.searchsorted(boundaries, times_us, "right")
    return boundaries[places - 1], boundaries[places]


def _years(times_us: Integers, first_us: int, last_us: int) -> tuple[int, ...]:
    """Years of which boundaries are needed: all between the first and the last, unless these are far apart."""
    first, last = _in_years(np.array([first_us, last_us])).tolist()
    if last - first <= SPREAD_YEARS:
        return tuple(range(first - AROUND, last + AROUND + 1))
    near = pa.array(_in_years(times_us)).unique().to_numpy()[:, np.newaxis] + np.arange(-AROUND, AROUND + 1)
    return tuple(np.unique(near).tolist())


def _in_years(times_us: Integers) -> Integers:
    return times_us.view("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1970


@lru_cache(maxsize=64)
def _boundaries(window: Calendar, years: tuple[int, ...]) -> Integers:
    return np.concatenate([_starts_in(window, year) for year in years])


@lru_cache(maxsize=4096)
def _starts_in(window: Calendar, year: int) -> Integers:
    """Starts of the windows whose first local day, before the offset is added, is in a year."""
    cycles = min((year - FIRST_YEAR) // CYCLE_YEARS, 0) + max(-((LAST_YEAR - year) // CYCLE_YEARS), 0)
    zone, offset = ZoneInfo(window.zone), timedelta(microseconds=window.offset_us)
    locals_ = (datetime.combine(day, time()) + offset for day in _first_days(window.unit, year - cycles * CYCLE_YEARS))
    starts = np.fromiter((micros_of(local.replace(tzinfo=zone)) for local in locals_), np.int64)
    return starts + cycles * CYCLE_US


def _first_days(unit: str, year: int) -> Iterator[date]:
    """Days of a year that a unit of the calendar starts with."""
    if unit in MONTHS:
        yield from (date(year, month, 1) for month in range(1, 13, MONTHS[unit]))
        return
    day, step = date(year, 1, 1), LENGTHS[unit]
    if unit == "week":
        day += timedelta(days=-day.weekday() % 7)
    while day.year == year:
        yield day
        day += step
