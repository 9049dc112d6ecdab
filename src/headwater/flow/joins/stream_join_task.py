"""What a task does with its part of a batch of a join that has events on one side or both.

Every shard is looked at in every batch that the watermark has moved in, also one without rows: that an event has no
partner is told by time alone.

Events that meet a table as it is, and do not wait, only look. If a batch brings nothing for the table, they do so where
they are: any task can read any shard.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from headwater.errors import FlowError
from headwater.flow.exchange.blocks import received, rows_in_order
from headwater.flow.joins.join_blocks import with_hashes
from headwater.flow.joins.table_join_task import BESIDE, SIDE, Given, marked, side_rows
from headwater.flow.operate.reports import COMMIT, NO_SHARD, ShardReport, by_shard, reported, with_report
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.as_of import EXTRA, AsOfJoin
from headwater.flow.operators.joins.events import (
    GIVEN,
    LEFT_AT,
    MISSING,
    OFFSET,
    PARTITION,
    SOURCE,
    TIME,
    Events,
    Shard,
    StreamStep,
    result_schema,
)
from headwater.flow.operators.joins.interval import IntervalJoin
from headwater.flow.operators.joins.latest import LatestJoin
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.joins.placing import by_partition
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.rows.row_steps import PATH
from headwater.flow.state.manifest import EVERYTHING, StateSchema
from headwater.flow.state.shard import StateHandle, empty_rows

PLACE = (TIME, SOURCE, PARTITION, OFFSET)
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
    direct: bool = False
    """Rows come from the tasks that read them, those that are late among them (direct_reading.py)."""

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return self.work.parts

    @property
    def fingerprint(self) -> str:
        """State that was dropped at another time is not its own."""
        pairing, work = self.work.pairing, self.work
        kept = [getattr(work, name, None) for name in ("low_us", "high_us", "wait_us", "kept_us")]
        placed = " by partition" if self.by_partition else ""
        said = f"{type(work).__name__} {pairing.on} {pairing.how} {kept} {self.clock.horizon_us}{placed}"
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def by_partition(self) -> bool:
        """Its rows lie in shards as Kafka's producers put them in partitions (operators/joins/placing.py)."""
        pairing = self.work.pairing
        return by_partition([pairing.left.field(name).type for name, _ in pairing.on])

    @property
    def sides(self) -> tuple[Events, Events]:
        """Of joins of events with events, or with versions."""
        work = self.work
        if isinstance(work, IntervalJoin):
            return work.left, work.right
        assert isinstance(work, AsOfJoin)
        return work.events, work.versions

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
    def straight(self) -> pa.Schema:
        """What of it the driver wants where results are rows for it alone."""
        columns, told = self.work.pairing.columns, self.told
        # Where a row lies is asked of those that lack a partner, which only a join as of a time tells here.
        places = [LEFT_AT + name for name in PLACE] if isinstance(self.work, AsOfJoin) else []
        return pa.schema([*columns, *(told.field(name) for name in (*places, MISSING, COMMIT))])

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


class Accepted(NamedTuple):
    """Rows that a join takes in, and how many it does not: late ones, and such as can meet none."""

    given: Given
    late: int = 0
    filtered: int = 0


def accepted_rows(operator: StreamJoinOperator, given: Given) -> Accepted:
    """Of rows as they were read; what Spark does with others before the shuffle (join_inputs.py).

    A version that comes too late is told to be, and yet counts for what follows.
    """
    work, clock = operator.work, operator.clock
    taken: list[pa.RecordBatch | None] = []
    late = filtered = 0
    for side, (rows, events) in enumerate(zip(given, operator.sides, strict=True)):
        if rows is not None and clock.watermark_us is not None:
            timely = rows.column(TIME).to_numpy() >= _late_below_us(work, side, clock)
            late += int(np.count_nonzero(~timely))
            rows = rows if timely.all() or (isinstance(work, AsOfJoin) and side) else rows.filter(pa.array(timely))
        keeps = (work.pairing.keeps_left, work.pairing.keeps_right)[side]
        if rows is not None and isinstance(work, IntervalJoin) and not keeps:
            able = without_nulls(rows.select(list(events.on)))
            filtered += int(np.count_nonzero(~able))
            rows = rows if able.all() else rows.filter(pa.array(able))
        taken.append(rows if rows is not None and rows.num_rows else None)
    return Accepted((taken[0], taken[1]), late, filtered)


def _late_below_us(work: Work, side: int, clock: WindowClock) -> int:
    if not isinstance(work, AsOfJoin):
        return clock.forgotten_us
    return work.late_below_us(clock) if side else clock.passed_us - work.kept_us


@dataclass(frozen=True)
class StreamJoinTask:
    operator: StreamJoinOperator
    handles: Mapping[str, str]
    dealt: pa.Schema | None = None
    """Of rows that Spark has made, where they come in pieces (join_blocks.py)."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handles = {part: StateHandle.from_json(text) for part, text in self.handles.items()}
        shards = next(iter(handles.values())).shards
        if self.operator.looks:
            for shard, rows in by_shard(map(with_hashes, batches), shards):
                yield self._looked(Shard(handles, shard), rows)
            return
        reports: list[str] = []
        given = self._given(batches, shards, reports)
        if reports:
            yield self.handed_on(reports)
        for shard in sorted({*given, *self.own(shards)}):
            yield from self._shard(Shard(handles, shard), given.get(shard, (None, None)))

    def _given(self, batches: Iterator[pa.RecordBatch], shards: int, reports: list[str]) -> dict[int, Given]:
        """Rows by shard; what the tasks that read them report is added to `reports`."""
        operator = self.operator
        if operator.direct:
            (found,) = received(batches, [[events.incoming for events in operator.sides]])
            reports += found.reports
            return {shard: (left, right) for shard, (left, right) in found.inputs.items()}
        return {
            shard: (side_rows(rows, 0, GIVEN), side_rows(rows, 1, operator.beside))
            for shard, rows in by_shard(batches if self.dealt is None else rows_in_order(batches, self.dealt), shards)
        }

    def _shard(self, shard: Shard, given: Given) -> Iterator[pa.RecordBatch]:
        operator = self.operator
        taken = accepted_rows(operator, given) if operator.direct else Accepted(given)
        step, (first, *others) = self.worked(shard, taken.given)
        first = replace(
            first, late=first.late + taken.late, filtered=first.filtered + taken.filtered,
            astray=self._astray(shard, given),
        )  # fmt: skip
        yield from reported(marked(step.after, 1), first, operator.told)
        for other in others:  # of one part alone nothing is ever taken back
            yield from reported(marked(step.before, 0), other, operator.told)

    def at_home(self, shard: int, given: Given) -> Iterator[pa.RecordBatch]:
        """The same of rows that the task has read itself, all of its own shard."""
        handles = {part: StateHandle.from_json(text) for part, text in self.handles.items()}
        yield from self._shard(Shard(handles, shard), given)

    def handed_on(self, reports: list[str]) -> pa.RecordBatch:
        """What other tasks have reported, as this one tells it."""
        schema = self.operator.told
        columns = [
            pa.array(reports) if field.name == COMMIT else pa.nulls(len(reports), field.type) for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def gives_up(self, shard: int, astray: int) -> pa.RecordBatch:
        """What is told where rows are not at home: nothing else."""
        none = empty_rows(pa.schema([field for field in self.operator.told if field.name != COMMIT]), 0)
        return with_report(none, ShardReport(self.operator.name, shard, 0, (), astray=astray), self.operator.told)

    def _astray(self, shard: Shard, given: Given) -> int | None:
        """How many rows lie in partitions of other shards; of those that can meet none it does not matter."""
        operator, shards = self.operator, next(iter(shard.handles.values())).shards
        if not operator.direct or not operator.by_partition:
            return None
        astray = 0
        for rows, events in zip(given, operator.sides, strict=True):
            if rows is not None:
                elsewhere = rows.column(PARTITION).to_numpy() % shards != shard.number
                astray += int(np.count_nonzero(elsewhere & without_nulls(rows.select(list(events.on)))))
        return astray

    def worked(self, shard: Shard, given: Given) -> tuple[StreamStep, list[ShardReport]]:
        """What a shard makes of its rows, and what is to be told of each part of the state."""
        work = self.operator.work
        step = work.step(shard, given, self.operator.clock)
        first, *others = (
            ShardReport(self.operator.name, shard.number, 0, tuple(step.runs.get(part, [])), part=part)
            for part in work.parts
        )
        counted = self._counted(given, step.after)
        return step, [replace(counted, shard=shard.number, runs=first.runs, part=first.part), *others]

    def _looked(self, shard: Shard, rows: pa.RecordBatch) -> pa.RecordBatch:
        operator, given = self.operator, side_rows(rows, 0, GIVEN)
        step = operator.work.step(shard, (given, None), operator.clock)
        told = replace(self._counted((given, None), step.after), shard=NO_SHARD)
        return with_report(marked(step.after, 1), told, operator.told)

    def _counted(self, given: Given, after: pa.RecordBatch) -> ShardReport:
        """Facts that were taken in, less those without a partner that had to have one: these may have been taken in
        by an earlier batch."""
        work, rows = self.operator.work, [0 if one is None else one.num_rows for one in given]
        missing = int(np.count_nonzero(after.column(MISSING)))
        if isinstance(work, LatestJoin):
            return ShardReport(self.operator.name, 0, rows[0] - missing, (), late=missing, missing=missing)
        if isinstance(work, AsOfJoin) and given[1] is not None:
            # A version that comes too late counts for what follows, and is told to be late.
            bound_us = work.late_below_us(self.operator.clock)
            rows[1] = int(np.count_nonzero(given[1].column(TIME).to_numpy() >= bound_us))
        return ShardReport(self.operator.name, 0, sum(rows) - missing, (), filtered=missing, missing=missing)

    def own(self, shards: int) -> set[int]:
        """The shard of a task to which no rows may have come."""
        context = TaskContext.get()
        place = context.partitionId() if context and self.operator.clock.moved else shards
        return {place} if place < shards else set()
