"""Comparisons in plain Python, window by window, over a table as it stands: what the vectorised ones are judged by."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from headwater.flow.operators.comparisons.kinds import Ago, Anomaly, Change, Comparison, Rate, Ratio, Rolling

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Table = Mapping[tuple[int, int], int | None]
"""Key and start of a window → what it holds. Windows that are not in it are not there."""
Back = Callable[[int, Ago], int]


def steps_back(step: int) -> Back:
    return lambda start, ago: start - ago.windows * step - ago.time_us


def wall_back(step: int) -> Back:
    """By the clock on the wall where a zone is named."""

    def back(start: int, ago: Ago) -> int:
        if not ago.zone:
            return steps_back(step)(start, ago)
        local = (EPOCH + timedelta(microseconds=start)).astimezone(ZoneInfo(ago.zone)).replace(tzinfo=None)
        then = (local - timedelta(microseconds=ago.time_us)).replace(tzinfo=ZoneInfo(ago.zone), fold=0)
        return (then.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)

    return back


def days_back(zone: str) -> Back:
    """Days of a calendar: so many dates before."""

    def back(start: int, ago: Ago) -> int:
        local = (EPOCH + timedelta(microseconds=start)).astimezone(ZoneInfo(zone))
        day = (local - timedelta(days=ago.windows)).date()
        then = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
        return (then.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)

    return back


def compared(table: Table, comparisons: Mapping[str, Comparison], back: Back, length: Callable[[int], int]) -> Any:
    """Every window that is there, with all comparisons."""
    return {
        (key, start): {"n": value}
        | {
            name: _one(one, value, [table.get((key, back(start, ago))) for ago in one.agos], length(start))
            for name, one in comparisons.items()
        }
        for (key, start), value in table.items()
    }


def _one(comparison: Comparison, own: int | None, before: list[int | None], length: int) -> Any:
    known = [one for one in before if one is not None]
    match comparison:
        case Rate(per_us=per):
            return None if own is None else own * per / length
        case Rolling():
            values = [one for one in (own, *before) if one is not None]
            return sum(values) / len(values) if values else None
        case Change():
            return None if own is None or not known else own - known[0]
        case Ratio():
            return None if own is None or not known or known[0] == 0 else own / known[0]
        case Anomaly(deviations=deviations, least=least):
            if own is None or len(known) < least:
                return None
            mean = sum(known) / len(known)
            squares = 0.0
            for one in known:
                squares += (one - mean) * (one - mean)
            return abs(own - mean) > deviations * math.sqrt(squares / (len(known) - 1))
