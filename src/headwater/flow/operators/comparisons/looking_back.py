"""Which window lies so far before another, and which ones look back at it (pure).

Windows are named by their start, in microseconds. Where clocks are put back, two windows of a zone may look back at the
same one; where they are put forward, at one that is an hour later on the wall than they are.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache, partial
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from headwater.flow.operators.comparisons.kinds import Ago
from headwater.flow.operators.windows.shapes import (
    Calendar,
    Hopping,
    Tumbling,
    calendar_moved,
    for_distinct,
    micros_of,
    moment_of,
)
from headwater.flow.state.runs.equality import Integers

DAY_US = 86_400_000_000
LONGEST_US = {
    unit: days * DAY_US
    for unit, days in {"hour": 1, "day": 2, "week": 8, "month": 32, "quarter": 93, "year": 367}.items()
}
"""No window of a calendar is longer, whatever its zone does to its clocks."""

Placed = Tumbling | Hopping | Calendar
"""Windows that have a place in time of their own, whatever rows there are."""


class Looking(NamedTuple):
    """Pairs: the number of a window that was asked about, and the start of one that looks back at it."""

    places: Integers
    starts: Integers


def step_us(window: Tumbling | Hopping) -> int:
    """From the start of a window to that of the next."""
    return window.size_us if isinstance(window, Tumbling) else window.slide_us


def longest_us(window: Placed) -> int:
    return LONGEST_US[window.unit] if isinstance(window, Calendar) else window.size_us


def ends_of(window: Placed, starts: Integers) -> Integers:
    return starts + window.size_us if isinstance(window, Hopping) else window.ends(starts)


def reach_us(window: Placed, ago: Ago) -> int:
    """At most this lies between the starts of two windows, one of which looks back at the other."""
    apart = longest_us(window) if isinstance(window, Calendar) else step_us(window)
    return ago.windows * apart + ago.time_us + (DAY_US if ago.zone else 0)


def earlier(window: Placed, ago: Ago, starts: Integers) -> Integers:
    """What windows look back at. By a clock on the wall it may be a time at which no window begins."""
    if isinstance(window, Calendar):
        return for_distinct(starts, _each(partial(_in_calendar, window, -ago.windows)))
    if ago.zone:
        return for_distinct(starts, _each(partial(_on_the_wall, ago)))
    return starts - ago.windows * step_us(window) - ago.time_us


def later(window: Placed, ago: Ago, starts: Integers) -> Looking:
    """The windows that look back at these."""
    places = np.arange(len(starts))
    if isinstance(window, Calendar):
        return Looking(places, for_distinct(starts, _each(partial(_in_calendar, window, ago.windows))))
    if not ago.zone:
        return Looking(places, starts + ago.windows * step_us(window) + ago.time_us)
    distinct, numbers = np.unique(starts, return_inverse=True)
    found = [_looking_back_at(ago, start) for start in distinct.tolist()]
    counts = np.array([len(one) for one in found], np.int64)[numbers]
    flat = np.array([one for number in numbers.tolist() for one in found[number]], np.int64)
    return Looking(np.repeat(places, counts), flat)


@lru_cache(maxsize=65_536)
def _in_calendar(window: Calendar, count: int, start_us: int) -> int:
    return calendar_moved(window, start_us, count)


@lru_cache(maxsize=65_536)
def _on_the_wall(ago: Ago, start_us: int) -> int:
    """A time on the wall that there is not, since clocks are put forward over it, is that much later; of two, the
    first."""
    zone = ZoneInfo(ago.zone)
    wall = moment_of(start_us).astimezone(zone).replace(tzinfo=None, fold=0)
    return micros_of((wall - timedelta(microseconds=ago.time_us)).replace(tzinfo=zone))


@lru_cache(maxsize=65_536)
def _looking_back_at(ago: Ago, start_us: int) -> tuple[int, ...]:
    """Where clocks were changed in between, windows lie as much further or nearer as the clocks were put."""
    near = (-DAY_US, 0, DAY_US)
    offsets = {_offset_us(ago.zone, start_us + off + one) for off in (0, ago.time_us) for one in near}
    shifts = {one - other for one in offsets for other in offsets}
    candidates = sorted(start_us + ago.time_us + shift for shift in shifts)
    return tuple(one for one in candidates if _on_the_wall(ago, one) == start_us)


def _offset_us(zone: str, time_us: int) -> int:
    offset = moment_of(time_us).astimezone(ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)


def _each(function: Callable[[int], int]) -> Callable[[Integers], Integers]:
    return lambda values: np.fromiter(map(function, values.tolist()), np.int64, len(values))
