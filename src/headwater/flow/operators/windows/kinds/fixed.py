"""Windows whose end is known from their start, one for each row: tumbling and calendar windows.

State is kept for each key and window: `window_start`, and the columns of the aggregates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, state_schema
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.kinds.calendars import calendar_spans
from headwater.flow.operators.windows.panes import Panes, beside, merge_panes, not_among
from headwater.flow.operators.windows.places import Places, Spans, floored, of_groups
from headwater.flow.operators.windows.shapes import Calendar, Tumbling, aligned
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import (
    END,
    NAMES,
    START,
    Seen,
    WindowStep,
    changes_of,
    moments,
    refuse_late,
)
from headwater.flow.state.manifest import HASH, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask


@dataclass(frozen=True)
class Fixed:
    """A kind of window, the aggregates in it, and how much time a slot of state shall cover at least."""

    window: Tumbling | Calendar
    specs: tuple[Aggregate, ...]
    slot_us: int
    columns = (pa.field(START, pa.int64()),)
    names = NAMES
    more_values = ()
    reach_us = 0

    def state(self, by: pa.Schema) -> StateSchema:
        return StateSchema(pa.schema([*by, *self.columns]), state_schema(self.specs), (START,))

    def drop_below(self, clock: WindowClock) -> int | None:
        """A slot ends where its last window does."""
        return None if clock.watermark_us is None else clock.forgotten_us

    def place(self, times_us: Integers, position: Mapping[str, Integers]) -> Places:
        return {START: self.earliest(times_us).starts}

    def group(self, places: Places) -> Places:
        return places

    def combined(self, places: Places, order: Integers, begins: Integers) -> Places:
        return of_groups(places, order, begins)

    def earliest(self, times_us: Integers) -> Spans:
        """The one window of each row."""
        if isinstance(self.window, Calendar):
            return Spans(*calendar_spans(self.window, times_us))
        starts = floored(times_us, self.window.size_us, self.window.offset_us)
        return Spans(starts, starts + self.window.size_us)

    def late_before(self, forgotten_us: int) -> int:
        """Windows are side by side: those that ended are all before the one that this time is in."""
        return int(self.earliest(np.array([forgotten_us])).starts[0])

    def step(self, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        """`incoming` has `_hash`, the key with `window_start`, and partial columns; a window may have several rows."""
        refuse_late(self.window.ends(incoming.column(START).to_numpy()) <= clock.forgotten_us, clock)
        panes = merge_panes(self.specs, state, incoming, partial(slot_ranges, self))
        exists = np.ones(len(panes.hashes), np.bool_)
        parts = [seen(self, panes.keys, panes.existed, panes.before, exists, panes.after)]
        if clock.tells_end and clock.moved:
            parts.append(_closing(self, state, panes, clock))
        return WindowStep(changes_of(parts, self.specs, clock), panes.runs, self.drop_below(clock))


def slot_ranges(work: Fixed, starts: Integers) -> tuple[Integers, Integers]:
    """The part of time that is kept together with each window, if it is the first there."""
    if isinstance(work.window, Calendar):
        return starts, work.window.ends(starts)
    return aligned(starts, work.slot_us, work.window.size_us, work.window.offset_us)


def seen(
    work: Fixed, keys: pa.RecordBatch, kept: Mask, before: pa.RecordBatch, keeps: Mask, after: pa.RecordBatch
) -> Seen:
    starts = keys.column(START).to_numpy()
    ends = work.window.ends(starts)
    return Seen(result_keys(keys.drop_columns([START]), starts, ends), ends, kept, before, keeps, after)


def result_keys(by: pa.RecordBatch, starts: Integers, ends: Integers) -> pa.RecordBatch:
    """The user's columns, then start and end of the window as moments."""
    columns = [*by.columns, moments(starts), moments(ends)]
    return pa.RecordBatch.from_arrays(columns, [*by.schema.names, START, END])


def _closing(work: Fixed, state: WindowState, touched: Panes, clock: WindowClock) -> Seen:
    """Windows whose end the watermark has reached, but for those that the batch has touched."""

    def ends_now(starts: Integers) -> Mask:
        return clock.closes(work.window.ends(starts))

    rows = state.scan(clock.passed_before_us, clock.passed_us, ends_now)
    too = ends_now(touched.times)
    if too.any() and rows.num_rows:
        hashes = pa.RecordBatch.from_arrays([pa.array(touched.hashes)], [HASH])
        others = beside(hashes, touched.keys).filter(pa.array(too))
        rows = rows.filter(pa.array(not_among(state.schema, rows, others)))
    kept = rows.select(state_schema(work.specs).names)
    always = np.ones(rows.num_rows, np.bool_)
    return seen(work, rows.select(state.schema.key.names), always, kept, always, kept)
