"""What a task does with its part of a batch of a join that has events on one side or both.

Every shard is looked at in every batch that the watermark has moved in, also one without rows: that an event has no
partner is told by time alone.

Events that meet a table as it is, and do not wait, only look. If a batch brings nothing for the table, they do so where
they are: any task can read any shard.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from headwater.errors import FlowError
from headwater.flow.job.joining import BESIDE, SIDE, Given, marked, side_rows
from headwater.flow.job.merging import COMMIT, NO_SHARD, Told, by_shard, with_report
from headwater.flow.job.stateless import PATH
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.as_of import EXTRA, AsOfJoin
from headwater.flow.operators.joins.events import GIVEN, MISSING, TIME, Shard, StreamStep, result_schema
from headwater.flow.operators.joins.interval import IntervalJoin
from headwater.flow.operators.joins.latest import LatestJoin
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.state.manifest import EVERYTHING, StateSchema
from headwater.flow.state.shard import StateHandle

Work = IntervalJoin | LatestJoin | AsOfJoin
POSITION = pa.struct(
    [("time", pa.timestamp("us", "UTC")), ("source", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64())]
)


@dataclass(frozen=True)
class StreamJoinOperator:
    """`key` names the columns that tell results apart; without any they are rows of a stream."""

    name: str
    work: Work
    clock: WindowClock
    key: tuple[str, ...] = ()
    looks: bool = False
    """Nothing is written in this batch: tasks may have rows of any shard."""

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return self.work.parts

    @property
    def fingerprint(self) -> str:
        """State that was dropped at another time is not its own."""
        pairing, work = self.work.pairing, self.work
        kept = [getattr(work, name, None) for name in ("low_us", "high_us", "wait_us", "kept_us")]
        said = f"{type(work).__name__} {pairing.on} {pairing.how} {kept} {self.clock.horizon_us}"
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def beside(self) -> tuple[str, ...]:
        """What rows of the right have with them."""
        if isinstance(self.work, LatestJoin):
            return BESIDE
        return (*GIVEN, *EXTRA) if isinstance(self.work, AsOfJoin) else GIVEN

    @property
    def told(self) -> pa.Schema:
        """What tasks tell: results that are no longer and results that are, apart by `_side`."""
        columns = result_schema(self.work.pairing)
        return columns.append(pa.field(SIDE, pa.int32())).append(pa.field(COMMIT, pa.string()))

    @property
    def output(self) -> pa.Schema:
        columns, commit = self.work.pairing.columns, pa.field(COMMIT, pa.string())
        if not self.key:
            hidden = pa.field("_at", POSITION), pa.field(PATH, pa.int64()), pa.field(MISSING, pa.bool_())
            return pa.schema([*columns, *hidden, commit])
        return change_schema(pa.schema([pa.field(name, pa.string()) for name in self.key]), columns).append(commit)

    def at(self, before_us: int | None, watermark_us: int | None) -> "StreamJoinOperator":
        return replace(self, clock=replace(self.clock, before_us=before_us, watermark_us=watermark_us))

    def pending(self, handles: Mapping[str, StateHandle]) -> bool:
        """Would time alone tell anything?"""
        return self.clock.moved and any(
            self.work.waits(part, slot, self.clock)
            for part, handle in handles.items()
            for shard in range(handle.shards)
            for slot in handle.slots(shard)
            if slot != EVERYTHING
        )

    def check_visited(self, told: Collection[int], shards: int) -> None:
        """Events of a shard that no task has looked at would never be told to be alone."""
        if self.clock.moved and (missing := sorted(set(range(shards)) - set(told))):
            raise FlowError(
                f"no task has looked at shard {missing[0]} of {self.name}",
                "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
            )


@dataclass(frozen=True)
class StreamJoinTask:
    operator: StreamJoinOperator
    handles: Mapping[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handles = {part: StateHandle.from_json(text) for part, text in self.handles.items()}
        shards = next(iter(handles.values())).shards
        given = dict(by_shard(batches, shards))
        if self.operator.looks:
            for shard, rows in given.items():
                yield self._looked(Shard(handles, shard), rows)
            return
        for shard in sorted({*given, *self.own(shards)}):
            yield from self._shard(Shard(handles, shard), given.get(shard))

    def _shard(self, shard: Shard, rows: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        operator = self.operator
        step, (first, *others) = self.worked(shard, (side_rows(rows, 0, GIVEN), side_rows(rows, 1, operator.beside)))
        yield with_report(marked(step.after, 1), first, operator.told)
        for other in others:  # of one part alone nothing is ever taken back
            yield with_report(marked(step.before, 0), other, operator.told)

    def worked(self, shard: Shard, given: Given) -> tuple[StreamStep, list[Told]]:
        """What a shard makes of its rows, and what is to be told of each part of the state."""
        work = self.operator.work
        step = work.step(shard, given, self.operator.clock)
        first, *others = (
            Told(self.operator.name, shard.number, 0, tuple(step.runs.get(part, [])), part=part) for part in work.parts
        )
        counted = self._counted(given, step.after)
        return step, [replace(counted, shard=shard.number, runs=first.runs, part=first.part), *others]

    def _looked(self, shard: Shard, rows: pa.RecordBatch) -> pa.RecordBatch:
        operator, given = self.operator, side_rows(rows, 0, GIVEN)
        step = operator.work.step(shard, (given, None), operator.clock)
        told = replace(self._counted((given, None), step.after), shard=NO_SHARD)
        return with_report(marked(step.after, 1), told, operator.told)

    def _counted(self, given: Given, after: pa.RecordBatch) -> Told:
        """Facts that were taken in, less those without a partner that had to have one: these may have been taken in
        by an earlier batch."""
        work, rows = self.operator.work, [0 if one is None else one.num_rows for one in given]
        missing = int(np.count_nonzero(after.column(MISSING)))
        if isinstance(work, LatestJoin):
            return Told(self.operator.name, 0, rows[0] - missing, (), late=missing, missing=missing)
        if isinstance(work, AsOfJoin) and given[1] is not None:
            # A version that comes too late counts for what follows, and is told to be late.
            rows[1] = int(np.count_nonzero(given[1].column(TIME).to_numpy() >= self.operator.clock.forgotten_us))
        return Told(self.operator.name, 0, sum(rows) - missing, (), filtered=missing, missing=missing)

    def own(self, shards: int) -> set[int]:
        """The shard of a task to which no rows may have come."""
        context = TaskContext.get()
        place = context.partitionId() if context and self.operator.clock.moved else shards
        return {place} if place < shards else set()
