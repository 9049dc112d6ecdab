"""Sliding windows: for each moment at which there is a row, what happened within a time up to it.

A pane is kept for each key and moment. What comes in at a moment changes the result of every moment that is told from
there on until it leaves the window. On change, results are also told for the moments at which something leaves, so that
they hold from one to the next, and what has become of nothing says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, state_schema
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.grouping import taken
from headwater.flow.operators.windows.panes import Lines, Panes, beside, lines_around, lines_of, merge_panes, not_among
from headwater.flow.operators.windows.places import Places, of_groups
from headwater.flow.operators.windows.shapes import Sliding, aligned
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import (
    MOMENT,
    START,
    Seen,
    WindowStep,
    changes_of,
    moments,
    refuse_late,
)
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.run_union import followers_of
from headwater.flow.state.runs.sorting import sorted_order

TIME, AT = "time", "at"


@dataclass(frozen=True)
class Slides:
    """A kind of window, the aggregates in it, and how much time a slot of state shall cover at least."""

    window: Sliding
    specs: tuple[Aggregate, ...]
    slot_us: int
    columns = (pa.field(TIME, pa.int64()),)
    more_values = ()

    @property
    def names(self) -> tuple[pa.Field, ...]:
        return (pa.field(START if self.window.on_change else AT, MOMENT),)

    @property
    def reach_us(self) -> int:
        return self.window.size_us + 1

    def state(self, by: pa.Schema) -> StateSchema:
        return StateSchema(pa.schema([*by, *self.columns]), state_schema(self.specs), (TIME,))

    def drop_below(self, clock: WindowClock) -> int | None:
        """A row is in the windows of moments before it leaves; on change, that one is told as well."""
        if clock.watermark_us is None:
            return None
        return clock.forgotten_us - self.window.size_us + (0 if self.window.on_change else 1)

    def place(self, times_us: Integers, position: Mapping[str, Integers]) -> Places:
        return {TIME: times_us}

    def group(self, places: Places) -> Places:
        return places

    def combined(self, places: Places, order: Integers, begins: Integers) -> Places:
        return of_groups(places, order, begins)

    def earliest(self, times_us: Integers) -> None:
        """Unknown: windows end at the times of other rows."""

    def late_before(self, forgotten_us: int) -> int:
        return forgotten_us

    def step(self, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        """`incoming` has `_hash`, the key with `time`, and partial columns; a moment may have several rows."""
        refuse_late(incoming.column(TIME).to_numpy() < clock.forgotten_us, clock)
        panes = merge_panes(self.specs, state, incoming, partial(slot_ranges, self))
        touched = _touched(self, state, panes, clock)
        parts = [_seen(self, touched)]
        if clock.tells_end and clock.moved:
            parts.append(_seen(self, _closing(self, state, touched, clock)))
        return WindowStep(changes_of(parts, self.specs, clock), panes.runs, self.drop_below(clock))


def slot_ranges(work: Slides, times: Integers) -> tuple[Integers, Integers]:
    return aligned(times, work.slot_us, 1, 0)


class Moments(NamedTuple):
    """Moments by the number of their key among some lines."""

    lines: Lines
    groups: Integers
    at: Integers

    def filter(self, wanted: Mask) -> "Moments":
        return Moments(self.lines, self.groups[wanted], self.at[wanted])

    @property
    def rows(self) -> pa.RecordBatch:
        return self.lines.named(TIME, self.groups, self.at)


def _moments(window: Sliding, lines: Lines) -> Moments:
    """All moments that the panes of some lines make, each once."""
    if not window.on_change:
        return Moments(lines, lines.groups, lines.times)
    groups = np.tile(lines.groups, 2)
    at = np.append(lines.times, lines.times + window.size_us)
    order = sorted_order([groups, at])
    order = order[~followers_of([groups[order], at[order]])]
    return Moments(lines, groups[order], at[order])


def _touched(work: Slides, state: WindowState, panes: Panes, clock: WindowClock) -> Moments:
    """Moments whose result may be another after the batch, as far as they are told."""
    size = work.window.size_us
    if not clock.shows_open:
        panes = panes.filter(clock.is_final(panes.times + 1))

    def reach(first: Integers, last: Integers) -> tuple[Integers, Integers]:
        return first - size, last + size + 1

    found = _moments(work.window, lines_around(state, panes, reach))
    lines, groups, at = found
    # A moment at which a row leaves is told anew if the row is new, though the row is in it no longer.
    first, end = lines.range(groups, at - size + (0 if work.window.on_change else 1), at + 1)
    came = np.append(0, np.cumsum(lines.touched))
    return found.filter((came[end] > came[first]) & clock.is_shown(at + 1))


def _seen(work: Slides, found: Moments) -> Seen:
    lines, groups, at = found
    before, after = lines.folded(work.specs, groups, at - work.window.size_us + 1, at + 1)
    existed, exists = np.ones(len(at), np.bool_), np.ones(len(at), np.bool_)
    if lines.before is not lines.after:
        existed = _had(lines, groups, at)
        if work.window.on_change:
            existed |= _had(lines, groups, at - work.window.size_us)
    named = pa.RecordBatch.from_arrays([moments(at)], [work.names[0].name])
    return Seen(beside(taken(lines.keys, groups), named), at + 1, existed, before, exists, after)


def _had(lines: Lines, groups: Integers, times: Integers) -> Mask:
    """Whether there was a pane of a time before the batch."""
    first, end = lines.range(groups, times, times + 1)
    had = np.append(0, np.cumsum(lines.existed))
    return np.asarray(had[end] > had[first], np.bool_)


def _closing(work: Slides, state: WindowState, touched: Moments, clock: WindowClock) -> Moments:
    """Moments that the watermark passes now, and whose result the batch has not touched."""
    low, high = clock.passed_before_us - work.window.size_us, clock.passed_us

    def near(times: Integers) -> Mask:
        return np.asarray((times >= low) & (times < high), np.bool_)

    found = _moments(work.window, lines_of(state, state.scan(low, high, near)))
    found = found.filter(clock.closes(found.at + 1))
    too = touched.filter(clock.closes(touched.at + 1))
    return found.filter(not_among(state.schema, found.rows, too.rows))
