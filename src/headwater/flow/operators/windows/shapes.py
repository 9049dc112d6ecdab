"""The kinds of windows (pure): which windows a time lies in, and where a window ends.

All times are microseconds since 1970 in UTC. Windows have their start and not their end, but for sliding ones, which
have what happened at their end and not what happened a whole size before it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from math import gcd
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from headwater.flow.state.runs.equality import Integers

UNITS = ("day", "week", "month", "quarter", "year")
LENGTHS = {"day": timedelta(days=1), "week": timedelta(days=7)}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Tumbling:
    """Windows of one size side by side; one begins at `offset_us`."""

    size_us: int
    offset_us: int = 0

    def ends(self, starts_us: Integers) -> Integers:
        return starts_us + self.size_us


@dataclass(frozen=True)
class Calendar:
    """Days, weeks (from Monday), months, quarters or years as the clocks of a zone have them.

    The offset is by the clock on the wall: a day from 06:00 begins at six also when clocks were changed at night.
    """

    unit: str
    zone: str = "UTC"
    offset_us: int = 0

    def ends(self, starts_us: Integers) -> Integers:
        return for_distinct(starts_us, _one_by_one(partial(calendar_end, self)))


@dataclass(frozen=True)
class Hopping:
    """Windows of one size that begin every `slide_us`. They are made of panes: no row is counted more than once."""

    size_us: int
    slide_us: int
    offset_us: int = 0

    @property
    def pane_us(self) -> int:
        return gcd(self.size_us, self.slide_us)

    def first_starts(self, times_us: Integers) -> Integers:
        """The earliest window that a time lies in, or would lie in if windows did not leave gaps between them."""
        return self.last_starts(times_us - self.size_us) + self.slide_us

    def last_starts(self, times_us: Integers) -> Integers:
        """The latest window that begins at a time or before it."""
        return times_us - np.mod(times_us - self.offset_us, self.slide_us)


@dataclass(frozen=True)
class Session:
    """Rows of a key of which each is at most a gap behind another; the window ends a gap behind the last.

    A row exactly a gap behind still belongs to it, as in Spark, Flink and Kafka Streams, although it lies at the end.
    """

    gap_us: int

    @property
    def apart_us(self) -> int:
        """Rows this far from each other are of two sessions, if there is none between them."""
        return self.gap_us + 1


@dataclass(frozen=True)
class Sliding:
    """For each moment at which there is a row of the key: all within (at − size, at].

    `on_change`: also for each moment at which one leaves, a size after it came.
    """

    size_us: int
    on_change: bool = False


@dataclass(frozen=True)
class Count:
    """Every so many rows of a key, in the order of their time and position, once the watermark has passed them."""

    rows: int


Window = Tumbling | Calendar | Hopping | Session | Sliding | Count


def aligned(times_us: Integers, width_us: int, step_us: int, offset_us: int) -> tuple[Integers, Integers]:
    """For each time the range that it lies in, of those that are side by side and of a whole number of steps each."""
    width = -(-width_us // step_us) * step_us
    begins = times_us - np.mod(times_us - offset_us, width)
    return begins, begins + width


@lru_cache(maxsize=4096)
def calendar_end(window: Calendar, start_us: int) -> int:
    """The end of the window that begins at a moment: a day may have 23, 24 or 25 hours.

    >>> moment_of(calendar_end(Calendar("day", "Europe/Berlin"), micros_of(datetime(2024, 3, 30, 23, tzinfo=UTC))))
    datetime.datetime(2024, 3, 31, 22, 0, tzinfo=datetime.timezone.utc)
    """
    local = moment_of(start_us).astimezone(ZoneInfo(window.zone)).replace(tzinfo=None)
    begin = _truncated(window.unit, local - timedelta(microseconds=window.offset_us))
    return _to_utc(window, _next(window.unit, begin))


def calendar_moved(window: Calendar, start_us: int, count: int) -> int:
    """The start of the window that is so many windows behind the one that begins at a moment; before it, if negative.

    >>> month = Calendar("month")
    >>> moment_of(calendar_moved(month, micros_of(datetime(2024, 1, 1, tzinfo=UTC)), -11)).isoformat()
    '2023-02-01T00:00:00+00:00'
    """
    local = moment_of(start_us).astimezone(ZoneInfo(window.zone)).replace(tzinfo=None)
    begin = _truncated(window.unit, local - timedelta(microseconds=window.offset_us))
    return _to_utc(window, _moved(window.unit, begin, count))


def _to_utc(window: Calendar, local: datetime) -> int:
    """A time on the wall that there is not, since clocks are put forward over it, is that much later; one that there
    is twice is the first. Spark takes them the same way.
    """
    wall = local + timedelta(microseconds=window.offset_us)
    return micros_of(wall.replace(tzinfo=ZoneInfo(window.zone)))


def _truncated(unit: str, local: datetime) -> datetime:
    day = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        return day
    if unit == "week":
        return day - timedelta(days=day.weekday())
    months = MONTHS[unit]
    return day.replace(month=(day.month - 1) // months * months + 1, day=1)


def _next(unit: str, begin: datetime) -> datetime:
    return _moved(unit, begin, 1)


def _moved(unit: str, begin: datetime, count: int) -> datetime:
    if unit in LENGTHS:
        return begin + count * LENGTHS[unit]
    months = begin.month - 1 + count * MONTHS[unit]
    return begin.replace(year=begin.year + months // 12, month=months % 12 + 1)


def moment_of(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)


def micros_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def for_distinct(values: Integers, function: Callable[[Integers], Integers]) -> Integers:
    """A function of values of which few are distinct, computed for each of those once."""
    found = pa.array(values, pa.int64()).dictionary_encode()
    results: Integers = function(found.dictionary.to_numpy())[found.indices.to_numpy()]
    return results


def _one_by_one(function: Callable[[int], int]) -> Callable[[Integers], Integers]:
    return lambda values: np.fromiter(map(function, values.tolist()), np.int64, len(values))
