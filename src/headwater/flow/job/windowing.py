"""What a task does with its part of a batch of windows: take in the rows, tell what has changed or come to its end.

Every shard is looked at in every batch that the watermark has moved in, also one without rows: windows come to their
end by time alone. A shard is a partition of Spark's shuffle, so a task without rows knows its own by its own number.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from headwater.errors import FlowError
from headwater.flow.job.merging import ROWS, Told, by_shard, with_report
from headwater.flow.job.sharding import ShardOperator, Worked
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.shapes import Calendar, Tumbling
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.windowed import Windowed
from headwater.flow.state.shard import StateHandle

FIXED = (Tumbling, Calendar)
"""Windows that do not depend on other rows of the key: each may lie in a shard of its own."""


@dataclass(frozen=True)
class WindowOperator(ShardOperator[Windowed]):
    """Aggregates for each key and window."""

    clock: WindowClock
    processing: bool = False
    """Its clock is that of the job, and not that of the rows."""

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
        return 0 if rows is None else int(rows.column(ROWS).to_numpy().sum())

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
        given = dict(by_shard(batches, handle.shards))
        for shard in sorted({*given, *self._own(handle)}):
            rows = given.get(shard)
            worked = self.operator.step(handle, shard, rows)
            told = Told(self.operator.name, shard, self.operator.counted(rows), worked.runs)
            yield with_report(worked.changes, told, self.operator.output)

    def _own(self, handle: StateHandle) -> set[int]:
        """The shard of a task to which no rows may have come."""
        context = TaskContext.get()
        place = context.partitionId() if context and self.operator.clock.moved else handle.shards
        return {place} if place < handle.shards else set()
