"""The oracle of window assignment, in Spark SQL: where a row's window begins, and which rows are late.

All are written as text: a column made call by call asks the JVM several times for each, in every batch again.

Times are in microseconds. Where a reduced row lies is told by these columns; until tasks are given them their names
begin with `_w_`, as no column of a user's does.

    tumbling, calendar   window_start
    hopping              pane_start         a pane is a part that every window has whole or not at all
    session              first_time, last_time
    sliding              time
    count                time, source, partition, offset
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.operators.windows.kinds.calendar import Calendar
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.sliding import Sliding
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.window import Window
from headwater.flow.plan.timestamps import EPOCH

AT = "_at"
OWN = "_w_"
TIME = f"{OWN}time"
LATE_START, LATE_END = "_late_start", "_late_end"
MONTHS = {"month": 1, "quarter": 3, "year": 12}
DAYS = {"day": 1, "week": 7}


HAPPENED = f"unix_micros({AT}.time)"


class Span(NamedTuple):
    start: str
    end: str


def time_us() -> Column:
    """When a row happened."""
    return f.expr(HAPPENED)


def pane_of(window: Hopping) -> str:
    """Where the pane of a row begins."""
    return _floor(HAPPENED, window.pane_us, window.offset_us)


def groups_of(window: Window) -> Mapping[str, Column]:
    """What, beside the user's key, the rows of a batch are grouped by before they are merged."""
    return {name: f.expr(sql) for name, sql in _grouping(window).items()}


def _grouping(window: Window) -> dict[str, str]:
    match window:
        case Tumbling() | Calendar():
            return {f"{OWN}window_start": earliest(window).start}
        case Hopping():
            return {f"{OWN}pane_start": pane_of(window)}
        case Session(gap_us):
            # Rows of one bucket are less than a gap apart, and so always of one session.
            return {f"{OWN}bucket": _floor(HAPPENED, gap_us, 0)}
        case Sliding():
            return {TIME: HAPPENED}
        case Count():
            return {TIME: HAPPENED, **{f"{OWN}{name}": f"{AT}.{name}" for name in ("source", "partition", "offset")}}
    raise AssertionError(window)


def measured(window: Window) -> Mapping[str, Column]:
    """What is found out of a group of rows, beside the user's aggregates."""
    if isinstance(window, Session):
        return {f"{OWN}first_time": f.min(TIME), f"{OWN}last_time": f.max(TIME)}
    return {}


def earliest(window: Tumbling | Calendar | Hopping) -> Span:
    """The first of the windows that a row lies in."""
    match window:
        case Tumbling(size_us, offset_us):
            start = _floor(HAPPENED, size_us, offset_us)
            return Span(start, f"({start} + {size_us}L)")
        case Hopping(size_us, slide_us, offset_us):
            start = f"({_floor(f'({HAPPENED} - {size_us}L)', slide_us, offset_us)} + {slide_us}L)"
            return Span(start, f"({start} + {size_us}L)")
        case Calendar(unit, zone, offset_us):
            return _in_calendar(unit, zone, offset_us)


def is_late(window: Window, watermark_us: int | None, horizon_us: int) -> Column:
    """Of a row: does it come when one of its windows is no longer kept? Then it counts in none of them."""
    if watermark_us is None:
        return f.lit(False)
    forgotten_us = watermark_us - horizon_us
    if isinstance(window, Tumbling | Calendar | Hopping):
        return f.expr(f"{earliest(window).end} <= {forgotten_us}L")
    return f.expr(f"{HAPPENED} < {forgotten_us}L")


def moment(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def _floor(time: str, step_us: int, offset_us: int) -> str:
    return f"({time} - pmod({time} - {offset_us}L, {step_us}L))"


def _in_calendar(unit: str, zone: str, offset_us: int) -> Span:
    """By the clock on the wall of the zone, taken back to UTC.

    Where the wall shows a time twice, or skips one, a row that it shows before the beginning of a window may lie behind
    it, or the other way round: moments decide.
    """
    shift = f"interval '{offset_us // 1_000_000}.{offset_us % 1_000_000:06d}' second"
    wall = f"date_trunc('{unit}', from_utc_timestamp({AT}.time, '{zone}') - {shift})"
    length, name = (MONTHS[unit], "month") if unit in MONTHS else (DAYS[unit], "day")
    earlier, start, end, later = (
        f"unix_micros(to_utc_timestamp({wall} + interval '{length * steps}' {name} + {shift}, '{zone}'))"
        for steps in (-1, 0, 1, 2)
    )
    return Span(
        f"case when {HAPPENED} < {start} then {earlier} when {HAPPENED} < {end} then {start} else {end} end",
        f"case when {HAPPENED} < {start} then {start} when {HAPPENED} < {end} then {end} else {later} end",
    )
