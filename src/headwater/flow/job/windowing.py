"""What a task does with its part of a batch of windows: take in the rows, tell what has changed or come to its end.

Every shard is looked at in every batch that the watermark has moved in, also one without rows: windows come to their
end by time alone. A shard is a partition of Spark's shuffle, so a task without rows knows its own by its own number.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from headwater.errors import FlowError
from headwater.flow.job.merging import ROWS, Told, by_shard, reported
from headwater.flow.job.packing import dealt_rows
from headwater.flow.job.sharding import ShardOperator, Worked
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.grouping import about_groups
from headwater.flow.operators.windows.shapes import Calendar, Session, Tumbling, Window
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.windowed import Windowed
from headwater.flow.state.equality import Integers
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import StateHandle

FIXED = (Tumbling, Calendar)
"""Windows that do not depend on other rows of the key: each may lie in a shard of its own."""


@dataclass(frozen=True)
class WindowOperator(ShardOperator[Windowed]):
    """Aggregates for each key and window."""

    clock: WindowClock
    processing: bool = False
    """Its clock is that of the job, and not that of the rows."""
    singly: bool = False
    """Its rows come one by one, in pieces (packing.py), and not reduced to one for each part of a window."""

    @property
    def meaning(self) -> str:
        """State of other windows, or that was dropped at another time, is not its own."""
        specs = [spec.meaning for spec in self.work.specs]
        emitted = (self.clock.emit, self.clock.horizon_us, self.clock.early)
        return f"{self.work.by.names} {self.work.window} {specs} {emitted}{' processing' if self.processing else ''}"

    def step(self, handle: StateHandle, shard: int, rows: pa.RecordBatch | None) -> Worked:
        """Without rows too: time alone ends windows."""
        step = self.work.step(WindowState(handle, shard), rows, self.clock)
        return Worked(step.changes, tuple(step.runs))

    def counted(self, rows: pa.RecordBatch | None) -> int:
        if rows is None or self.singly:
            return 0 if rows is None else int(rows.num_rows)
        return int(rows.column(ROWS).to_numpy().sum())

    def groups(self, rows: pa.RecordBatch | None) -> int:
        """To how many rows they were, or about how many they could have been reduced."""
        if rows is None or not self.singly:
            return 0 if rows is None else int(rows.num_rows)
        places = rows.column(self.work.kind.columns[0].name).to_numpy()
        return about_groups(rows.column(HASH).to_numpy(), reduced_places(self.work.window, places))

    @property
    def given(self) -> pa.Schema:
        """What tasks are given of single rows."""
        return pa.schema([pa.field(HASH, pa.int64()), *self.work.incoming])

    def at(self, before_us: int | None, watermark_us: int | None) -> "WindowOperator":
        return replace(self, clock=replace(self.clock, before_us=before_us, watermark_us=watermark_us))

    def pending(self, handle: StateHandle) -> bool:
        """Would time alone tell or drop anything?"""
        return self.work.pending(handle, self.clock)

    def check_visited(self, told: Collection[int], shards: int) -> None:
        """Windows of a shard that no task has looked at would never come to their end."""
        wanted = set(range(shards)) if self.spread else {0}
        if self.clock.moved and (missing := sorted(wanted - set(told))):
            raise FlowError(
                f"no task has looked at shard {missing[0]} of {self.name}",
                "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
            )

    @property
    def spread(self) -> bool:
        """Over all shards; without a key all windows that depend on each other lie in the first."""
        return bool(self.work.by.names) or isinstance(self.work.window, FIXED)


@dataclass(frozen=True)
class WindowTask:
    operator: WindowOperator
    handle: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handle = StateHandle.from_json(self.handle)
        rows = dealt_rows(batches, self.operator.given) if self.operator.singly else batches
        given = dict(by_shard(rows, handle.shards))
        for shard in sorted({*given, *self._own(handle)}):
            rows = given.pop(shard, None)
            worked = self.operator.step(handle, shard, rows)
            counted, groups = self.operator.counted(rows), self.operator.groups(rows)
            told = Told(self.operator.name, shard, counted, worked.runs, groups=groups)
            yield from reported(worked.changes, told, self.operator.output)

    def _own(self, handle: StateHandle) -> set[int]:
        """The shard of a task to which no rows may have come."""
        context = TaskContext.get()
        place = context.partitionId() if context and self.operator.clock.moved else handle.shards
        return {place} if place < handle.shards else set()


def reduced_places(window: Window, places: Integers) -> Integers:
    """What of the place of single rows those have in common that Spark would reduce to one (window_rows.py)."""
    return places // window.gap_us if isinstance(window, Session) else places
