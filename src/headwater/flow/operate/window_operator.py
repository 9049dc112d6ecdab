"""Aggregates over windows, as an operator of a job.

Every shard is visited in every batch in which the watermark moved, also one without rows: windows end by time alone.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operate.reports import ROWS
from headwater.flow.operate.shard_operator import ShardOperator, Worked
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.window import Windowed
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import StateHandle


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
        return Worked(step.changes, tuple(step.runs), step.expired)

    @property
    def given(self) -> pa.Schema:
        """What shards receive: a row for each key and part of a window, and of how many rows it was made."""
        return pa.schema([pa.field(HASH, pa.int64()), *self.work.incoming, pa.field(ROWS, pa.int64())])

    def at(self, before_us: int | None, watermark_us: int | None) -> "WindowOperator":
        return replace(self, clock=replace(self.clock, before_us=before_us, watermark_us=watermark_us))

    def pending(self, handle: StateHandle) -> bool:
        """Would time alone emit or drop anything?"""
        return self.work.pending(handle, self.clock)

    def check_visited(self, reported: Collection[int], shards: int) -> None:
        """Windows of a shard that no task has visited would never come to their end."""
        wanted = set(range(shards)) if self.spread else {0}
        if self.clock.moved and (missing := sorted(wanted - set(reported))):
            raise FlowError(
                f"no task has looked at shard {missing[0]} of {self.name}",
                "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
            )

    @property
    def spread(self) -> bool:
        """Over all shards; without a key all windows that depend on each other lie in the first."""
        return bool(self.work.by.names) or self.work.window.disjoint
