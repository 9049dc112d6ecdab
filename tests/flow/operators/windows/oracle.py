"""Windows in plain Python, row by row: what the vectorised ones are compared with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.windows.kinds.calendar import Calendar
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.kept import Kept
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.sliding import Sliding
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.window import Window
from tests.flow.operators.reference import Row, result

FULL, NEVER = -(2**62), 2**62


class Place(NamedTuple):
    """A window of a key: what names it in the result, and the watermark at which it is complete."""

    key: int
    names: tuple[int, ...]
    end: int


Named = Iterable[tuple[tuple[tuple[int, ...], int], list[Row]]]
Contents = dict[Place, list[Row]]


def windows_of(window: Window, rows: Sequence[Row], watermark: int | None = None) -> Contents:
    """All windows that these rows make, with the rows in them."""
    contents: Contents = {}
    for key in sorted({row.key for row in rows}):
        mine = sorted((row for row in rows if row.key == key), key=lambda row: (row.time, row.offset))
        contents |= {Place(key, *place): inside for place, inside in of_key(window, mine, watermark)}
    return contents


def of_key(window: Window, rows: list[Row], watermark: int | None) -> Named:
    match window:
        case Tumbling(size, offset):
            return hops(rows, size, size, offset)
        case Hopping(size, slide, offset):
            return hops(rows, size, slide, offset)
        case Kept(gap):
            return list(runs_of(rows, gap, watermark))[-1:]
        case Session(gap):
            return sessions(rows, gap)
        case Sliding(size, on_change):
            return moments(rows, size, on_change)
        case Count(count):
            return counted(rows, count, watermark)
        case Calendar():
            return in_calendar(rows, window)
    raise AssertionError(window)


def hops(rows: list[Row], size: int, slide: int, offset: int) -> Named:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        start = row.time - (row.time - offset) % slide
        while start + size > row.time:
            found.setdefault(((start, start + size), start + size), []).append(row)
            start -= slide
    return found.items()


def in_calendar(rows: list[Row], window: Calendar) -> Named:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        start, end = next(span for span in pairwise(turns(window)) if span[0] <= row.time < span[1])
        found.setdefault(((start, end), end), []).append(row)
    return found.items()


FIRST_DAY, LAST_DAY = date(2025, 1, 1), date(2028, 1, 1)
BEGINS = {
    "day": lambda day: True,
    "week": lambda day: day.weekday() == 0,
    "month": lambda day: day.day == 1,
    "quarter": lambda day: day.day == 1 and day.month in (1, 4, 7, 10),
    "year": lambda day: day.day == day.month == 1,
}


@lru_cache
def turns(window: Calendar) -> list[int]:
    """When one window ends and the next begins, for some years: every day is looked at."""
    days = [FIRST_DAY + timedelta(days=number) for number in range((LAST_DAY - FIRST_DAY).days)]
    walls = [datetime.combine(day, time()) + timedelta(microseconds=window.offset_us) for day in days
             if BEGINS[window.unit](day)]  # fmt: skip
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [(wall.replace(tzinfo=ZoneInfo(window.zone)) - epoch) // timedelta(microseconds=1) for wall in walls]


def calendar_span(window: Calendar, at: int) -> tuple[int, int]:
    """The window that a moment is in, in any year: days are gone through to its start, and on to its end."""
    epoch, offset = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=window.offset_us)

    def begins(day: date) -> int:
        wall = datetime.combine(day, time()) + offset
        return (wall.replace(tzinfo=ZoneInfo(window.zone)) - epoch) // timedelta(microseconds=1)

    day = (epoch + timedelta(microseconds=at, days=3)).date()
    end = None
    while True:
        if BEGINS[window.unit](day):
            if (start := begins(day)) <= at:
                return start, end if end is not None else _after(window, day, begins)
            end = start
        day -= timedelta(days=1)


def _after(window: Calendar, day: date, begins: Callable[[date], int]) -> int:
    day += timedelta(days=1)
    while not BEGINS[window.unit](day):
        day += timedelta(days=1)
    return begins(day)


def sessions(rows: list[Row], gap: int) -> Named:
    found: list[list[Row]] = []
    for row in rows:
        if found and row.time - found[-1][-1].time <= gap:
            found[-1].append(row)
        else:
            found.append([row])
    return [(((one[0].time, one[-1].time + gap), one[-1].time + gap + 1), one) for one in found]


def runs_of(rows: list[Row], keep: int, watermark: int | None) -> Named:
    """Rows of a key that are never more than a time apart, as long as they are kept."""
    for _, run in sessions(rows, keep):
        if watermark is None or end_of_run(run[-1].time, keep) > watermark:
            yield ((), end_of_run(run[-1].time, keep)), run


def end_of_run(last: int, keep: int) -> int:
    """The next multiple of a sixteenth that is later than the last row was to be kept, and one more."""
    sixteenth = max(keep // 16, 1)
    over = last + keep + 1
    return over + -over % sixteenth + sixteenth


def ended_runs(rows: Sequence[Row], keep: int, watermark: int | None) -> int:
    """How many of them the watermark has ended."""
    keys: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.time):
        keys.setdefault(row.key, []).append(row)
    runs = [run for mine in keys.values() for _, run in sessions(mine, keep)]
    return sum(watermark is not None and end_of_run(run[-1].time, keep) <= watermark for run in runs)


def moments(rows: list[Row], size: int, on_change: bool) -> Named:
    times = {row.time for row in rows} | ({row.time + size for row in rows} if on_change else set())
    return [(((at,), at + 1), [row for row in rows if at - size < row.time <= at]) for at in sorted(times)]


def counted(rows: list[Row], count: int, watermark: int | None) -> Named:
    settled = [row for row in rows if watermark is not None and row.time < watermark]
    return [
        (((number // count,), FULL if number + count <= len(settled) else NEVER), settled[number : number + count])
        for number in range(0, len(settled), count)
    ]


def is_late(window: Window, row: Row, watermark: int | None, horizon: int) -> bool:
    if watermark is None:
        return False
    match window:
        case Tumbling() | Hopping() | Calendar():
            ends = [place.end for place in windows_of(window, [row])]
            return min(ends, default=row.time) + horizon <= watermark
        case Kept(keep):
            return bool(row.time < watermark - max(keep // 16, 1))
    return bool(row.time < watermark - horizon)


def results(specs: Sequence[Aggregate], rows: Sequence[Row]) -> Mapping[str, Any]:
    return {spec.name: result(spec, rows) for spec in specs}
