"""Calendar windows: days, weeks, months, quarters and years in a time zone.

A boundary is a local time of the zone. Where daylight saving skips that local time it is later by as much as is
skipped, and where it occurs twice it is the first. Rows are compared with boundaries as instants, never as local times:
a row whose local time repeats the end of a day after that day's boundary belongs to the next day. Spark SQL's
`from_utc_timestamp` and `to_utc_timestamp` resolve local times in the same way.

Boundaries are tabulated year by year with Python's `zoneinfo`, and rows are assigned by binary search. The time zone
database is thus that of the system or, where there is none, of the `tzdata` package, which pandas depends on; pyarrow's
own lookup, which knows only the system's, is not used.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place, calling_place
from headwater.flow.declare.duration import duration_us, spelled
from headwater.flow.formats.schema import nearest, quoted
from headwater.flow.operators.comparisons.kinds import Ago
from headwater.flow.operators.windows.aligned import DisjointWindow, ended, windows_in
from headwater.flow.operators.windows.assignment import DAY_US, EPOCH, Spans, for_distinct, micros_of, moment_of
from headwater.flow.operators.windows.step import END, START
from headwater.flow.operators.windows.window import COMPLETE, WHEN, Window
from headwater.flow.state.runs.equality import Integers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LONGEST_DAYS = {"day": 2, "week": 8, "month": 32, "quarter": 93, "year": 367}
"""No window of a unit is longer, whatever its zone does to its clocks."""
UNITS = tuple(LONGEST_DAYS)
DAYS = {"day": 1, "week": 7}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
CYCLE_YEARS, CYCLE_US = 400, 146_097 * DAY_US
"""The Gregorian calendar repeats itself, days of the week included."""
FIRST_YEAR, LAST_YEAR = 401, 9600
"""Years whose boundaries are computed by `datetime`; those of others are a number of cycles away."""
AROUND = 2
"""The window of a row, and the one after it, start at most so many calendar years from the row's year in UTC."""
SPREAD_YEARS = 100
"""Up to so many years between the oldest and the newest row, boundaries of all years between them are looked up."""


@dataclass(frozen=True)
class Calendar(DisjointWindow):
    """Days, weeks (from Monday), months, quarters or years as the clocks of a zone have them.

    The offset is in local time: a day from 06:00 begins at six also when clocks were changed at night.
    """

    unit: str
    zone: str = "UTC"
    offset_us: int = 0

    @property
    def in_words(self) -> str:
        beginning = f" from {spelled(self.offset_us)}" if self.offset_us else ""
        return f"calendar {self.unit} in {self.zone}{beginning}"

    @property
    def longest_us(self) -> int:
        return LONGEST_DAYS[self.unit] * DAY_US

    @property
    def apart_us(self) -> int:
        return self.longest_us

    def earliest(self, times_us: Integers) -> Spans:
        return Spans(*calendar_spans(self, times_us))

    def ends(self, starts_us: Integers) -> Integers:
        return self.moved(starts_us, 1)

    def next_end_us(self, now_us: int) -> int:
        return calendar_moved(self, now_us, 1)

    def slot_ranges(self, starts_us: Integers, slot_us: int) -> tuple[Integers, Integers]:
        return starts_us, self.ends(starts_us)

    def moved(self, starts_us: Integers, count: int) -> Integers:
        return for_distinct(starts_us, partial(calendar_moved, self, count=count))

    def landing(self, ago: Ago, place: Place) -> Ago:
        if ago.zone:
            raise InvalidDeclaration(
                f"compare() at {place} names a zone, and calendar windows have one", "Leave it out."
            )
        if self.unit not in DAYS:
            raise InvalidDeclaration(
                f"compare() at {place} looks back {spelled(ago.time_us)}, and a {self.unit} is not always as long",
                'Say how many windows: hw.change("n", 12) of months is the same month of the year before.',
            )
        return Ago(windows_in(ago.time_us, DAYS[self.unit] * DAY_US, f"a {self.unit}", place))

    def reference_earlier(self, start: "Column", ago: Ago) -> "Column":
        from pyspark.sql import functions as f

        count, unit = (3 * ago.windows, "month") if self.unit == "quarter" else (ago.windows, self.unit)
        shift = f.expr(f"interval {self.offset_us} microseconds")
        then = f.from_utc_timestamp(start, self.zone) - shift - f.expr(f"interval {count} {unit}")
        return f.to_utc_timestamp(then + shift, self.zone)

    def reference(
        self, rows: "DataFrame", by: tuple[str, ...], results: "list[Column]", reached_us: int | None
    ) -> "DataFrame":
        from pyspark.sql import functions as f

        times = f.unix_micros(WHEN)
        bounds = rows.agg(f.min(times).alias("first"), f.max(times).alias("last")).first()
        starts = [] if bounds is None or bounds["first"] is None else _counted_up(self, bounds["first"], bounds["last"])
        spans = rows.sparkSession.createDataFrame(list(pairwise(starts)), f"{START} long, {END} long")
        spans = spans.select(*(f.timestamp_micros(name).alias(name) for name in (START, END)))
        within = (f.col(WHEN) >= f.col(START)) & (f.col(WHEN) < f.col(END))
        windows = rows.join(spans, within).groupBy(*map(quoted, by), START, END).agg(*results)
        return windows.withColumn(COMPLETE, ended(reached_us))


def calendar(unit: str, *, zone: str, offset: str = "0s") -> Window:
    """Days, weeks (from Monday), months, quarters or years as people in a time zone live them.

    `offset` is in local time: `hw.calendar("day", zone="Europe/Berlin", offset="6 hours")` has days from six in the
    morning to six in the morning.
    """
    if unit not in UNITS:
        raise InvalidDeclaration(f"{unit!r} ({calling_place()}) is no part of a calendar", nearest(unit, UNITS))
    if zone not in available_timezones():
        near = nearest(zone, available_timezones())
        hint = near if near.startswith("Did") else 'Zones have names such as "Europe/Berlin" and "UTC".'
        raise InvalidDeclaration(f"{zone!r} ({calling_place()}) is no time zone", hint)
    offset_us = duration_us(offset)
    if offset_us >= DAY_US:
        raise InvalidDeclaration(f"the offset of a calendar window ({calling_place()}) is {offset}", "Less than a day.")
    return Calendar(unit, zone, offset_us)


@lru_cache(maxsize=65_536)
def calendar_moved(window: Calendar, start_us: int, count: int) -> int:
    """The start of the window that is so many windows after the one that a moment is in; before it, if negative. A day
    may have 23, 24 or 25 hours.

    >>> month = Calendar("month")
    >>> moment_of(calendar_moved(month, micros_of(datetime.fromisoformat("2024-01-01T00:00Z")), -11)).isoformat()
    '2023-02-01T00:00:00+00:00'
    """
    offset = timedelta(microseconds=window.offset_us)
    local = moment_of(start_us).astimezone(ZoneInfo(window.zone)).replace(tzinfo=None)
    begin = _moved(window.unit, _truncated(window.unit, local - offset), count)
    return micros_of((begin + offset).replace(tzinfo=ZoneInfo(window.zone)))


def _truncated(unit: str, local: datetime) -> datetime:
    day = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in DAYS:
        return day - timedelta(days=day.weekday()) if unit == "week" else day
    months = MONTHS[unit]
    return day.replace(month=(day.month - 1) // months * months + 1, day=1)


def _moved(unit: str, begin: datetime, count: int) -> datetime:
    if unit in DAYS:
        return begin + timedelta(days=count * DAYS[unit])
    months = begin.month - 1 + count * MONTHS[unit]
    return begin.replace(year=begin.year + months // 12, month=months % 12 + 1)


def _counted_up(window: Calendar, first_us: int, last_us: int) -> list[int]:
    """The starts of all windows from before a moment to after another, counted up day by day: for the reference query,
    which shares nothing with how rows are assigned."""
    zone, offset = ZoneInfo(window.zone), timedelta(microseconds=window.offset_us)
    day = (EPOCH + timedelta(microseconds=first_us, days=-370)).replace(tzinfo=None, hour=0, minute=0, second=0)
    day = day.replace(microsecond=0)
    found: list[int] = []
    while not found or found[-1] <= last_us:
        begins = {
            "day": True, "week": day.weekday() == 0, "month": day.day == 1,
            "quarter": day.day == 1 and day.month % 3 == 1, "year": day.day == 1 == day.month,
        }  # fmt: skip
        if begins[window.unit]:
            found.append(((day + offset).replace(tzinfo=zone) - EPOCH) // timedelta(microseconds=1))
        day += timedelta(days=1)
    return found


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
    after = np.searchsorted(boundaries, times_us, "right")
    return boundaries[after - 1], boundaries[after]


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
    day, step = date(year, 1, 1), timedelta(days=DAYS[unit])
    if unit == "week":
        day += timedelta(days=-day.weekday() % 7)
    while day.year == year:
        yield day
        day += step
