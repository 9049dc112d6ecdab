"""Windows that lie where they lie whatever rows there are: tumbling, hopping and calendar windows.

They have their start and not their end, and are named by both. Such windows can be compared with earlier ones, and can
go by processing time.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import Place
from headwater.flow.declare.duration import spelled
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.comparisons.kinds import Ago
from headwater.flow.operators.windows.assignment import Assigned, Spans, aligned
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.panes import Panes, beside, merge_panes, not_among
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import END, START, Seen, WindowStep, changes_of, refuse_late, result_keys
from headwater.flow.operators.windows.window import COMPLETE, WHEN, Window, Windowed
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers, Mask

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class AlignedWindow(Window):
    """A kind of window whose end is known from its start."""

    @abstractmethod
    def earliest(self, times_us: Integers) -> Spans:
        """The first window of each row."""

    @abstractmethod
    def ends(self, starts_us: Integers) -> Integers: ...

    @abstractmethod
    def next_end_us(self, now_us: int) -> int: ...

    @abstractmethod
    def slot_ranges(self, starts_us: Integers, slot_us: int) -> tuple[Integers, Integers]:
        """The part of time, of at least `slot_us`, that is kept together with each window, if it is the first there."""

    # -- comparisons: windows beside earlier ones ----------------------------------------------------------------------

    @property
    @abstractmethod
    def apart_us(self) -> int:
        """At most this lies between the starts of two neighbours."""

    @abstractmethod
    def moved(self, starts_us: Integers, count: int) -> Integers:
        """The starts of the windows that are so many windows after those, or before them if negative."""

    @abstractmethod
    def landing(self, ago: Ago, place: Place) -> Ago:
        """The same look back, so that it ends where a window begins; InvalidDeclaration if none does."""

    @abstractmethod
    def reference_earlier(self, start: "Column", ago: Ago) -> "Column":
        """The start of the window that one looks back at, by Spark's own arithmetic on time."""

    # -- late replay, proof --------------------------------------------------------------------------------------------

    def affected(self, windows: "DataFrame", late: "DataFrame", same_key: "list[Column]") -> "DataFrame":
        from pyspark.sql import functions as f

        own = [name for name in late.columns if name.startswith("_late")]
        starts = self.reference(late, tuple(own), [f.count("*").alias("_rows")], None).drop(END, COMPLETE, "_rows")
        starts = starts.withColumnRenamed(START, "_start")
        return windows.join(starts, [*same_key, f.col(START) == f.col("_start")], "left_semi")


class SteppedWindow(AlignedWindow):
    """A kind of window of one size, another of which begins with every step of time."""

    size_us: int
    offset_us: int

    @property
    @abstractmethod
    def step_us(self) -> int:
        """From the start of a window to that of the next."""

    @property
    def _beginning(self) -> str:
        """For `in_words`."""
        return f" from {spelled(self.offset_us)}" if self.offset_us else ""

    @property
    def longest_us(self) -> int:
        return self.size_us

    @property
    def apart_us(self) -> int:
        return self.step_us

    def ends(self, starts_us: Integers) -> Integers:
        return starts_us + self.size_us

    def next_end_us(self, now_us: int) -> int:
        return now_us - (now_us - self.offset_us - self.size_us) % self.step_us + self.step_us

    def slot_ranges(self, starts_us: Integers, slot_us: int) -> tuple[Integers, Integers]:
        return aligned(starts_us, slot_us, self.step_us, self.offset_us)

    def moved(self, starts_us: Integers, count: int) -> Integers:
        return starts_us + count * self.step_us

    def landing(self, ago: Ago, place: Place) -> Ago:
        windows_in(ago.time_us, self.step_us, spelled(self.step_us), place)
        return ago

    def reference_earlier(self, start: "Column", ago: Ago) -> "Column":
        from pyspark.sql import functions as f

        back = f.expr(f"interval {ago.windows * self.step_us + ago.time_us} microseconds")
        if ago.zone:
            return f.to_utc_timestamp(f.from_utc_timestamp(start, ago.zone) - back, ago.zone)
        return start - back

    def reference(
        self, rows: "DataFrame", by: tuple[str, ...], results: "list[Column]", reached_us: int | None
    ) -> "DataFrame":
        from pyspark.sql import functions as f

        size, step, offset = (f"{us} microseconds" for us in (self.size_us, self.step_us, self.offset_us))
        key = [f.col(name) for name in map(quoted, by)]
        grouped = rows.groupBy(*key, f.window(WHEN, size, step, offset).alias("_window")).agg(*results)
        found = [f.col(quoted(name)) for name in grouped.columns if name not in (*by, "_window")]
        span = f.col("_window")
        windows = grouped.select(*key, span["start"].alias(START), span["end"].alias(END), *found)
        return windows.withColumn(COMPLETE, ended(reached_us))


class DisjointWindow(AlignedWindow):
    """A kind of window of which each row is in one. State is kept for each key and window: `window_start`, and the
    columns of the aggregates."""

    columns = (pa.field(START, pa.int64()),)
    disjoint = True

    def assign(self, times_us: Integers, position: Mapping[str, Integers]) -> Assigned:
        return {START: self.earliest(times_us).starts}

    def late_before(self, forgotten_us: int) -> int:
        """Windows are side by side: those that ended are all before the one that this time is in."""
        return int(self.earliest(np.array([forgotten_us])).starts[0])

    def step(self, work: Windowed, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        refuse_late(self.ends(incoming.column(START).to_numpy()) <= clock.forgotten_us, clock)
        panes = merge_panes(work.specs, state, incoming, lambda starts: self.slot_ranges(starts, work.slot_us))
        exists = np.ones(len(panes.hashes), np.bool_)
        parts = [self._seen(panes.keys, panes.existed, panes.before, exists, panes.after)]
        if clock.emits_end and clock.moved:
            parts.append(self._closing(work, state, panes, clock))
        return WindowStep(changes_of(parts, work.specs, clock), panes.runs)

    def _seen(
        self, keys: pa.RecordBatch, kept: Mask, before: pa.RecordBatch, keeps: Mask, after: pa.RecordBatch
    ) -> Seen:
        starts = keys.column(START).to_numpy()
        ends = self.ends(starts)
        return Seen(result_keys(keys.drop_columns([START]), starts, ends), ends, kept, before, keeps, after)

    def _closing(self, work: Windowed, state: WindowState, touched: Panes, clock: WindowClock) -> Seen:
        """Windows whose end the watermark has reached, but for those that the batch has touched."""

        def ends_now(starts: Integers) -> Mask:
            return clock.closes(self.ends(starts))

        rows = state.scan(clock.passed_before_us, clock.passed_us, ends_now)
        too = ends_now(touched.times)
        if too.any() and rows.num_rows:
            hashes = pa.RecordBatch.from_arrays([pa.array(touched.hashes)], [HASH])
            others = beside(hashes, touched.keys).filter(pa.array(too))
            rows = rows.filter(pa.array(not_among(state.schema, rows, others)))
        kept = rows.select(work.partials)
        always = np.ones(rows.num_rows, np.bool_)
        return self._seen(rows.select(state.schema.key.names), always, kept, always, kept)


def windows_in(time_us: int, step_us: int, what: str, place: Place) -> int:
    """How many windows a look back in time is; InvalidDeclaration if it is no whole number of them."""
    if time_us % step_us:
        raise InvalidDeclaration(
            f"compare() at {place} looks back {spelled(time_us)}, where no window begins: one does every {what}",
            "Look back a multiple of that.",
        )
    return time_us // step_us


def ended(reached_us: int | None) -> "Column":
    """Of windows with an end: has the watermark reached it?"""
    from pyspark.sql import functions as f

    return f.unix_micros(END) <= f.lit(reached_us).cast("long")
