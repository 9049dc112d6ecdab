"""Which window lies so far before another, and which ones look back at it (pure).

Windows are named by their start, in microseconds. Where clocks are put back, two windows of a zone may look back at the
same one; where they are put forward, at one that is an hour later on the wall than they are.
"""

from datetime import timedelta
from functools import lru_cache, partial
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from headwater.flow.operators.comparisons.kinds import Ago
from headwater.flow.operators.windows.aligned import AlignedWindow
from headwater.flow.operators.windows.assignment import DAY_US, for_distinct, micros_of, moment_of
from headwater.flow.state.runs.equality import Integers


class Looking(NamedTuple):
    """Pairs: the number of a window that was asked about, and the start of one that looks back at it."""

    numbers: Integers
    starts: Integers


def reach_us(window: AlignedWindow, ago: Ago) -> int:
    """At most this lies between the starts of two windows, one of which looks back at the other."""
    return ago.windows * window.apart_us + ago.time_us + (DAY_US if ago.zone else 0)


def earlier(window: AlignedWindow, ago: Ago, starts: Integers) -> Integers:
    """The starts of the windows that these look back at. In local time it may be a moment at which no window begins."""
    if ago.zone:
        return for_distinct(starts, partial(_in_zone, ago))
    return window.moved(starts, -ago.windows) - ago.time_us


def later(window: AlignedWindow, ago: Ago, starts: Integers) -> Looking:
    """The windows that look back at these."""
    numbers = np.arange(len(starts))
    if not ago.zone:
        return Looking(numbers, window.moved(starts, ago.windows) + ago.time_us)
    distinct, inverse = np.unique(starts, return_inverse=True)
    found = [_looking_back_at(ago, start) for start in distinct.tolist()]
    counts = np.array([len(one) for one in found], np.int64)[inverse]
    flat = np.array([one for number in inverse.tolist() for one in found[number]], np.int64)
    return Looking(np.repeat(numbers, counts), flat)


@lru_cache(maxsize=65_536)
def _in_zone(ago: Ago, start_us: int) -> int:
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
    return tuple(one for one in candidates if _in_zone(ago, one) == start_us)


def _offset_us(zone: str, time_us: int) -> int:
    offset = moment_of(time_us).astimezone(ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)
