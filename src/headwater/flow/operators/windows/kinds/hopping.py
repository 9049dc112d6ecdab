"""Windows that overlap: panes are kept, and a window is the fold of the panes in it.

Rows are counted once, in their pane, whatever the number of windows they are in. What a batch changes is told for the
windows around the panes it touches; what ends is folded from what is kept.
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
from headwater.flow.operators.windows.kinds.fixed import result_keys
from headwater.flow.operators.windows.panes import Lines, Panes, lines_around, lines_of, merge_panes, not_among
from headwater.flow.operators.windows.places import Places, Spans, floored, of_groups
from headwater.flow.operators.windows.shapes import Hopping, aligned
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import NAMES, Seen, WindowStep, changes_of, refuse_late
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.hash_search import expanded

PANE = "pane_start"


@dataclass(frozen=True)
class Hops:
    """A kind of window, the aggregates in it, and how much time a slot of state shall cover at least."""

    window: Hopping
    specs: tuple[Aggregate, ...]
    slot_us: int
    columns = (pa.field(PANE, pa.int64()),)
    names = NAMES
    more_values = ()

    @property
    def reach_us(self) -> int:
        return self.window.size_us

    def state(self, by: pa.Schema) -> StateSchema:
        return StateSchema(pa.schema([*by, *self.columns]), state_schema(self.specs), (PANE,))

    def drop_below(self, clock: WindowClock) -> int | None:
        """The last pane of a slot is in windows that begin with it, at the latest."""
        if clock.watermark_us is None:
            return None
        return clock.forgotten_us - self.window.size_us + self.window.pane_us

    def place(self, times_us: Integers, position: Mapping[str, Integers]) -> Places:
        return {PANE: floored(times_us, self.window.pane_us, self.window.offset_us)}

    def group(self, places: Places) -> Places:
        return places

    def combined(self, places: Places, order: Integers, begins: Integers) -> Places:
        return of_groups(places, order, begins)

    def earliest(self, times_us: Integers) -> Spans:
        """The first of the windows of each row."""
        starts = self.window.first_starts(times_us)
        return Spans(starts, starts + self.window.size_us)

    def late_before(self, forgotten_us: int) -> int:
        """The end of the last window that has ended by a time: later rows are in none that has."""
        return int(self.window.last_starts(np.array([forgotten_us - self.window.size_us]))[0]) + self.window.size_us

    def step(self, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        """`incoming` has `_hash`, the key with `pane_start`, and partial columns; a pane may have several rows."""
        panes = merge_panes(self.specs, state, self._in_windows(incoming, clock), partial(slot_ranges, self))
        touched = _touched(self, state, panes, clock)
        parts = [_seen(self, touched)]
        if clock.tells_end and clock.moved:
            parts.append(_seen(self, _closing(self, state, touched, clock)))
        return WindowStep(changes_of(parts, self.specs, clock), panes.runs, self.drop_below(clock))

    def _in_windows(self, incoming: pa.RecordBatch, clock: WindowClock) -> pa.RecordBatch:
        """Without the panes between windows, which there are where one ends before the next begins."""
        panes = incoming.column(PANE).to_numpy()
        first = self.window.first_starts(panes)
        inside = first <= panes
        refuse_late(inside & (first + self.window.size_us <= clock.forgotten_us), clock)
        return incoming if inside.all() else incoming.filter(pa.array(inside))


def slot_ranges(work: Hops, panes: Integers) -> tuple[Integers, Integers]:
    return aligned(panes, work.slot_us, work.window.pane_us, work.window.offset_us)


class Windows(NamedTuple):
    """Windows by the number of their key among some lines, and their start."""

    lines: Lines
    groups: Integers
    starts: Integers

    def filter(self, wanted: Mask) -> "Windows":
        return Windows(self.lines, self.groups[wanted], self.starts[wanted])

    @property
    def rows(self) -> pa.RecordBatch:
        return self.lines.named(PANE, self.groups, self.starts)


def _touched(work: Hops, state: WindowState, panes: Panes, clock: WindowClock) -> Windows:
    """Windows of the panes that came, as far as they are told."""
    window = work.window
    if not clock.shows_open:
        panes = panes.filter(clock.is_final(window.first_starts(panes.times) + window.size_us))

    def reach(first: Integers, last: Integers) -> tuple[Integers, Integers]:
        return window.first_starts(first), window.last_starts(last) + window.size_us

    lines = lines_around(state, panes, reach)
    found = Windows(lines, *_windows(window, lines.groups[lines.touched], lines.times[lines.touched]))
    return found.filter(clock.is_shown(found.starts + window.size_us))


def _windows(window: Hopping, groups: Integers, panes: Integers) -> tuple[Integers, Integers]:
    """Each window that some panes of a key are in, once; panes are sorted by key and time."""
    first, last = window.first_starts(panes), window.last_starts(panes)
    again = np.zeros(len(panes), np.bool_)
    again[1:] = groups[1:] == groups[:-1]
    told = np.where(again, np.roll(last, 1) + window.slide_us, first)
    first = np.maximum(first, told)
    counts = np.maximum((last - first) // window.slide_us + 1, 0)
    numbers = expanded(np.zeros(len(counts), np.int64), counts)
    return np.repeat(groups, counts), np.repeat(first, counts) + numbers * window.slide_us


def _seen(work: Hops, windows: Windows) -> Seen:
    lines, groups, starts = windows
    ends = starts + work.window.size_us
    before, after = lines.folded(work.specs, groups, starts, ends)
    first, end = lines.range(groups, starts, ends)
    had = np.append(0, np.cumsum(lines.existed))
    existed, exists = had[end] > had[first], end > first
    return Seen(result_keys(taken(lines.keys, groups), starts, ends), ends, existed, before, exists, after)


def _closing(work: Hops, state: WindowState, touched: Windows, clock: WindowClock) -> Windows:
    """Windows that end now and that the batch has not touched."""
    window = work.window
    low, high = clock.passed_before_us - window.size_us, clock.passed_us

    def near(panes: Integers) -> Mask:
        return np.asarray((panes > low) & (panes < high), np.bool_)

    lines = lines_of(state, state.scan(low, high, near))
    found = Windows(lines, *_windows(window, lines.groups, lines.times))
    found = found.filter(clock.closes(found.starts + window.size_us))
    too = touched.filter(clock.closes(touched.starts + window.size_us))
    return found.filter(not_among(state.schema, found.rows, too.rows))
