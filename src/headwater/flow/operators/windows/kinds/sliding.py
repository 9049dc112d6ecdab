"""Sliding windows: for each moment at which there is a row, all rows within a time up to it.

A pane is kept for each key and moment. A row at a moment changes the result of every moment that is emitted from there
on until it leaves the window. On change, results are also emitted for the moments at which a row leaves, so that they
hold from one to the next; a window that has become empty is emitted as such.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.declare.duration import positive_us, spelled
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.windows.assignment import Assigned, aligned
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.grouping import taken
from headwater.flow.operators.windows.panes import Lines, Panes, beside, lines_around, lines_of, merge_panes, not_among
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import MOMENT, START, Seen, WindowStep, changes_of, moments, refuse_late
from headwater.flow.operators.windows.window import COMPLETE, WHEN, Window, Windowed
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.run_union import followers_of
from headwater.flow.state.runs.sorting import sorted_order

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME, AT = "time", "at"


@dataclass(frozen=True)
class Sliding(Window):
    """For each moment at which there is a row of the key: all within (at − size, at].

    `on_change`: also for each moment at which one leaves, a size after it came.
    """

    size_us: int
    on_change: bool = False
    columns = (pa.field(TIME, pa.int64()),)

    @property
    def in_words(self) -> str:
        return f"sliding {spelled(self.size_us)}{', at every change' if self.on_change else ''}"

    @property
    def names(self) -> tuple[pa.Field, ...]:
        return (pa.field(START if self.on_change else AT, MOMENT),)

    @property
    def longest_us(self) -> int:
        return self.size_us

    @property
    def reach_us(self) -> int:
        return self.size_us + 1

    @property
    def outlives_us(self) -> int:
        """A row is in the windows of moments before it leaves; on change, that one is emitted as well."""
        return self.size_us - (0 if self.on_change else 1)

    def assign(self, times_us: Integers, position: Mapping[str, Integers]) -> Assigned:
        return {TIME: times_us}

    def step(self, work: Windowed, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        def slot_ranges(times: Integers) -> tuple[Integers, Integers]:
            return aligned(times, max(work.slot_us, self.size_us))

        refuse_late(incoming.column(TIME).to_numpy() < clock.forgotten_us, clock)
        panes = merge_panes(work.specs, state, incoming, slot_ranges)
        touched = _touched(self, state, panes, clock)
        parts = [_seen(work, self, touched)]
        if clock.emits_end and clock.moved:
            parts.append(_seen(work, self, _closing(self, state, touched, clock)))
        return WindowStep(changes_of(parts, work.specs, clock), panes.runs)

    def kept_until_sql(self, time: str) -> str:
        return f"{time} + 1L"

    def affected(self, windows: "DataFrame", late: "DataFrame", same_key: "list[Column]") -> "DataFrame":
        from pyspark.sql import functions as f

        size = f.expr(f"interval {self.size_us} microseconds")
        within = f.col(*self.key).between(f.col(WHEN), f.col(WHEN) + size)
        return windows.join(late, [*same_key, within], "left_semi")

    def reference(
        self, rows: "DataFrame", by: tuple[str, ...], results: "list[Column]", reached_us: int | None
    ) -> "DataFrame":
        """At every moment at which there is a row, or one leaves: all rows of the size before it."""
        from pyspark.sql import functions as f

        size = f.expr(f"interval {self.size_us} microseconds")
        (moment,) = self.key
        moments = rows.select(*map(quoted, by), f.col(WHEN).alias(moment))
        if self.on_change:
            moments = moments.union(rows.select(*map(quoted, by), (f.col(WHEN) + size).alias(moment)))
        other = rows.withColumnsRenamed({name: f"_own{number}" for number, name in enumerate(by)})
        on = (f.col(WHEN) <= f.col(moment)) & (f.col(WHEN) > f.col(moment) - size)
        for number, name in enumerate(by):
            on = on & f.col(quoted(name)).eqNullSafe(f.col(f"_own{number}"))
        joined = moments.distinct().join(other, on, "left" if self.on_change else "inner")
        windows = joined.groupBy(*map(quoted, by), moment).agg(*results)
        return windows.withColumn(COMPLETE, f.unix_micros(moment) < f.lit(reached_us).cast("long"))


def sliding(size: str, *, on_change: bool = False) -> Window:
    """At the time of each row, all rows within the size up to it; with `on_change` also when rows leave again."""
    return Sliding(positive_us(size, "the size of a sliding window"), on_change)


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


def _touched(window: Sliding, state: WindowState, panes: Panes, clock: WindowClock) -> Moments:
    """Moments whose result may be another after the batch, as far as they are emitted."""
    size = window.size_us
    if not clock.emits_open:
        panes = panes.filter(clock.is_final(panes.times + 1))

    def reach(first: Integers, last: Integers) -> tuple[Integers, Integers]:
        return first - size, last + size + 1

    found = _moments(window, lines_around(state, panes, reach))
    lines, groups, at = found
    # A moment at which a row leaves is emitted again if the row is new, though the row is in it no longer.
    first, end = lines.range(groups, at - size + (0 if window.on_change else 1), at + 1)
    came = np.append(0, np.cumsum(lines.touched))
    return found.filter((came[end] > came[first]) & clock.is_emitted(at + 1))


def _seen(work: Windowed, window: Sliding, found: Moments) -> Seen:
    lines, groups, at = found
    before, after = lines.folded(work.specs, groups, at - window.size_us + 1, at + 1)
    existed, exists = np.ones(len(at), np.bool_), np.ones(len(at), np.bool_)
    if lines.before is not lines.after:
        existed = _had(lines, groups, at)
        if window.on_change:
            existed |= _had(lines, groups, at - window.size_us)
    named = pa.RecordBatch.from_arrays([moments(at)], list(window.key))
    return Seen(beside(taken(lines.keys, groups), named), at + 1, existed, before, exists, after)


def _had(lines: Lines, groups: Integers, times: Integers) -> Mask:
    """Whether there was a pane of a time before the batch."""
    first, end = lines.range(groups, times, times + 1)
    had = np.append(0, np.cumsum(lines.existed))
    return np.asarray(had[end] > had[first], np.bool_)


def _closing(window: Sliding, state: WindowState, touched: Moments, clock: WindowClock) -> Moments:
    """Moments that the watermark passes now, and whose result the batch has not touched."""
    low, high = clock.passed_before_us - window.size_us, clock.passed_us

    def near(times: Integers) -> Mask:
        return np.asarray((times >= low) & (times < high), np.bool_)

    found = _moments(window, lines_of(state, state.scan(low, high, near)))
    found = found.filter(clock.closes(found.at + 1))
    too = touched.filter(clock.closes(touched.at + 1))
    return found.filter(not_among(state.schema, found.rows, too.rows))
