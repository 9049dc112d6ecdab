"""Window assignment in Arrow and numpy: in which window, pane or bucket each row lies, and which rows are late.

Each kind of window has its rules in its own file (`Kind` in windowed.py); here they are found by the declared window.

Event times are int64 microseconds without nulls: sources fall back on the record's timestamp, and windows after
`changes()`, whose rows have no event time, are refused when they are declared. Should a column have nulls all the same,
`times_of` tells which rows have a time. Spark SQL computes null for all that is asked of the others, so that they are
neither counted as late nor let through by `where(not late)`; `late_mask` with `known` says false of them, and the rows
to take on are `known & ~late`.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.flow.operators.windows.places import Places, Spans
from headwater.flow.operators.windows.shapes import Calendar, Hopping, Tumbling, Window
from headwater.flow.operators.windows.windowed import Kind, kind_of
from headwater.flow.state.runs.equality import Integers, Mask, valid

POSITION = ("source", "partition", "offset")


def times_of(column: pa.Array) -> tuple[Integers, Mask]:
    """Event times in microseconds, 0 where there is none, and a mask of the rows that have one.

    >>> times, known = times_of(pa.array([None, 7], pa.timestamp("us", "UTC")))
    >>> times.tolist(), known.tolist()
    ([0, 7], [False, True])
    """
    micros = column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column
    return micros.cast(pa.int64()).fill_null(0).to_numpy(), valid(column)


def place(window: Window, times_us: Integers, position: Mapping[str, Integers]) -> Places:
    """The columns that say where each single row lies, in the order of `columns` of the kind of window.

    `position` has source, partition and offset of the rows; only count windows read it.
    """
    return _kind(window).place(times_us, position)


def group_of(window: Window, placed: Places) -> Places:
    """What, beside the key, rows have in common that may be combined into one before they are merged with the state."""
    return _kind(window).group(placed)


def combined(window: Window, placed: Places, order: Integers, begins: Integers) -> Places:
    """The places of rows that were combined by key and `group_of`: of sessions, minimum and maximum of their times.

    `order` has the rows sorted by group, and `begins` the positions in it at which groups begin.
    """
    return _kind(window).combined(placed, order, begins)


def late_mask(
    window: Window, times_us: Integers, watermark_us: int | None, horizon_us: int, known: Mask | None = None
) -> Mask:
    """Which rows are late: one of their windows ended a horizon before the watermark, so they count in none of them.

    Nothing is late without a watermark, and no row is that has no event time (`known`).
    """
    if watermark_us is None:
        return np.zeros(len(times_us), np.bool_)
    late = np.asarray(times_us < late_before(window, watermark_us - horizon_us), np.bool_)
    return late if known is None else late & known


def late_before(window: Window, forgotten_us: int) -> int:
    """The event time before which rows are late, if state of windows that end at a time or before it was dropped."""
    return _kind(window).late_before(forgotten_us)


def earliest(window: Tumbling | Calendar | Hopping, times_us: Integers) -> Spans:
    """Start and end of the first window that each row is assigned to."""
    found = _kind(window).earliest(times_us)
    assert found is not None
    return found


def _kind(window: Window) -> Kind:
    """Where rows lie depends on neither aggregates nor retention."""
    return kind_of(window, (), 0)
