"""Hopping windows: of one size, one of which begins every step, so that they overlap. Panes are kept, and a window is
the fold of the panes in it.

Rows are counted once, in their pane, whatever the number of windows they are in. A batch emits the windows around the
panes that it touches; windows that end are folded from state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.declare.duration import duration_us, positive_us, spelled
from headwater.flow.operators.windows.aligned import SteppedWindow
from headwater.flow.operators.windows.assignment import Assigned, Spans, aligned, floored
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.grouping import taken
from headwater.flow.operators.windows.panes import Lines, Panes, lines_around, lines_of, merge_panes, not_among
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import Seen, WindowStep, changes_of, refuse_late, result_keys
from headwater.flow.operators.windows.window import Window, Windowed
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.hash_search import expanded

PANE = "pane_start"


@dataclass(frozen=True)
class Hopping(SteppedWindow):
    """Windows of one size that begin every `slide_us`. A pane is the range of time that windows have as a whole or not
    at all."""

    size_us: int
    slide_us: int
    offset_us: int = 0
    columns = (pa.field(PANE, pa.int64()),)

    @property
    def in_words(self) -> str:
        return f"hopping {spelled(self.size_us)} every {spelled(self.slide_us)}{self._beginning}"

    @property
    def step_us(self) -> int:
        return self.slide_us

    @property
    def pane_us(self) -> int:
        return gcd(self.size_us, self.slide_us)

    def first_starts(self, times_us: Integers) -> Integers:
        """The earliest window that a time lies in, or would lie in if windows did not leave gaps between them."""
        return self.last_starts(times_us - self.size_us) + self.slide_us

    def last_starts(self, times_us: Integers) -> Integers:
        """The latest window that begins at a time or before it."""
        return times_us - np.mod(times_us - self.offset_us, self.slide_us)

    def assign(self, times_us: Integers, position: Mapping[str, Integers]) -> Assigned:
        return {PANE: floored(times_us, self.pane_us, self.offset_us)}

    def earliest(self, times_us: Integers) -> Spans:
        starts = self.first_starts(times_us)
        return Spans(starts, starts + self.size_us)

    def late_before(self, forgotten_us: int) -> int:
        """The end of the last window that has ended by a time: later rows are in none that has."""
        return int(self.last_starts(np.array([forgotten_us - self.size_us]))[0]) + self.size_us

    @property
    def reach_us(self) -> int:
        return self.size_us

    @property
    def outlives_us(self) -> int:
        """The last pane of a slot is in windows that begin with it, at the latest."""
        return self.size_us - self.pane_us

    def kept_until_sql(self, time: str) -> str:
        """The end of the row's pane."""
        return f"{time} - pmod({time} - {self.offset_us}L, {self.pane_us}L) + {self.pane_us}L"

    def step(self, work: Windowed, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        def slot_ranges(panes: Integers) -> tuple[Integers, Integers]:
            return aligned(panes, max(work.slot_us, self.size_us), self.pane_us, self.offset_us)

        panes = merge_panes(work.specs, state, self._in_windows(incoming, clock), slot_ranges)
        touched = _touched(self, state, panes, clock)
        parts = [_seen(work, self, touched)]
        if clock.emits_end and clock.moved:
            parts.append(_seen(work, self, _closing(self, state, touched, clock)))
        return WindowStep(changes_of(parts, work.specs, clock), panes.runs)

    def _in_windows(self, incoming: pa.RecordBatch, clock: WindowClock) -> pa.RecordBatch:
        """Without the panes between windows, which there are where one ends before the next begins."""
        panes = incoming.column(PANE).to_numpy()
        first = self.first_starts(panes)
        inside = first <= panes
        refuse_late(inside & (first + self.size_us <= clock.forgotten_us), clock)
        return incoming if inside.all() else incoming.filter(pa.array(inside))


def hopping(size: str, every: str, *, offset: str = "0s") -> Window:
    """Windows of one size, of which another begins with every step, so that a row lies in several."""
    size_us = positive_us(size, "the size of a hopping window")
    every_us = positive_us(every, "the step of hopping windows")
    if every_us > size_us:
        raise InvalidDeclaration(
            f"hopping windows of {size} every {every} ({calling_place()}) leave out the rows between them",
            f'Take a step of at most the size, or tumbling("{every}").',
        )
    return Hopping(size_us, every_us, duration_us(offset) % every_us)


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


def _touched(window: Hopping, state: WindowState, panes: Panes, clock: WindowClock) -> Windows:
    """Windows of the panes that came, as far as they are emitted."""
    if not clock.emits_open:
        panes = panes.filter(clock.is_final(window.first_starts(panes.times) + window.size_us))

    def reach(first: Integers, last: Integers) -> tuple[Integers, Integers]:
        return window.first_starts(first), window.last_starts(last) + window.size_us

    lines = lines_around(state, panes, reach)
    found = Windows(lines, *_windows(window, lines.groups[lines.touched], lines.times[lines.touched]))
    return found.filter(clock.is_emitted(found.starts + window.size_us))


def _windows(window: Hopping, groups: Integers, panes: Integers) -> tuple[Integers, Integers]:
    """Each window that some panes of a key are in, once; panes are sorted by key and time."""
    first, last = window.first_starts(panes), window.last_starts(panes)
    again = np.zeros(len(panes), np.bool_)
    again[1:] = groups[1:] == groups[:-1]
    first = np.maximum(first, np.where(again, np.roll(last, 1) + window.slide_us, first))
    counts = np.maximum((last - first) // window.slide_us + 1, 0)
    numbers = expanded(np.zeros(len(counts), np.int64), counts)
    return np.repeat(groups, counts), np.repeat(first, counts) + numbers * window.slide_us


def _seen(work: Windowed, window: Hopping, windows: Windows) -> Seen:
    lines, groups, starts = windows
    ends = starts + window.size_us
    before, after = lines.folded(work.specs, groups, starts, ends)
    first, end = lines.range(groups, starts, ends)
    had = np.append(0, np.cumsum(lines.existed))
    existed, exists = had[end] > had[first], end > first
    return Seen(result_keys(taken(lines.keys, groups), starts, ends), ends, existed, before, exists, after)


def _closing(window: Hopping, state: WindowState, touched: Windows, clock: WindowClock) -> Windows:
    """Windows that end now and that the batch has not touched."""
    low, high = clock.passed_before_us - window.size_us, clock.passed_us

    def near(panes: Integers) -> Mask:
        return np.asarray((panes > low) & (panes < high), np.bool_)

    lines = lines_of(state, state.scan(low, high, near))
    found = Windows(lines, *_windows(window, lines.groups, lines.times))
    found = found.filter(clock.closes(found.starts + window.size_us))
    too = touched.filter(clock.closes(touched.starts + window.size_us))
    return found.filter(not_among(state.schema, found.rows, too.rows))
