"""The registry of window kinds: what of them is on disks already, and that everything else follows from the class."""

import pyarrow as pa
import pytest

from headwater.flow.deploy.code_changes import worded
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.kinds.calendar import Calendar
from headwater.flow.operators.windows.kinds.count import Count
from headwater.flow.operators.windows.kinds.hopping import Hopping
from headwater.flow.operators.windows.kinds.kept import Kept
from headwater.flow.operators.windows.kinds.registry import KINDS
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.sliding import Sliding
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.window import Window, Windowed

MINUTE_US = 60_000_000
BY = pa.schema([("user", pa.string())])
SPECS = (Aggregate("count", "n"),)
PERSISTED: list[tuple[Window, str, str, list[str], tuple[str, ...]]] = [
    (
        Tumbling(5 * MINUTE_US, MINUTE_US), "Tumbling(size_us=300000000, offset_us=60000000)",
        "tumbling 5 minutes from 1 minute", ["user", "window_start", "n__count"], ("window_start",),
    ),
    (
        Hopping(5 * MINUTE_US, MINUTE_US), "Hopping(size_us=300000000, slide_us=60000000, offset_us=0)",
        "hopping 5 minutes every 1 minute", ["user", "pane_start", "n__count"], ("pane_start",),
    ),
    (
        Calendar("week", "Europe/Berlin", MINUTE_US), "Calendar(unit='week', zone='Europe/Berlin', offset_us=60000000)",
        "calendar week in Europe/Berlin from 1 minute", ["user", "window_start", "n__count"], ("window_start",),
    ),
    (
        Sliding(MINUTE_US, on_change=True), "Sliding(size_us=60000000, on_change=True)",
        "sliding 1 minute, at every change", ["user", "time", "n__count"], ("time",),
    ),
    (
        Session(MINUTE_US), "Session(gap_us=60000000)",
        "session with gaps of 1 minute", ["user", "first_time", "last_time", "n__count"], ("first_time",),
    ),
    (
        Kept(MINUTE_US), "Kept(gap_us=60000000)",
        "kept for 1 minute after the last row", ["user", "first_time", "last_time", "n__count"], ("first_time",),
    ),
    (
        Count(7), "Count(rows=7)", "every 7 rows",
        ["user", "time", "source", "partition", "offset", "settled", "first_time", "last_time", "n__count"],
        ("time", "source", "partition", "offset"),
    ),
]  # fmt: skip


def test_every_kind_is_pinned_here() -> None:
    assert {type(window) for window, *_ in PERSISTED} == set(KINDS)


@pytest.mark.parametrize("window, text, words, columns, order", PERSISTED, ids=lambda one: str(one)[:12])
def test_descriptions_and_state_on_disks_are_read_as_they_were_written(
    window: Window, text: str, words: str, columns: list[str], order: tuple[str, ...]
) -> None:
    """A job whose window says something else than what its folder holds would be built from the log again."""
    work = Windowed(window, BY, SPECS)
    operator = WindowOperator("totals", work, WindowClock(None, None))
    assert str(window) == text
    assert operator.meaning == f"['user'] {text} [('count', 'n')] ('updates', 0, False)"
    assert worded("windowed window", text) == words == window.in_words
    assert ([*work.state.key.names, *work.state.values.names], work.state.order) == (columns, order)
