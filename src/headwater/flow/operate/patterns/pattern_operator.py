"""Patterns as operators of a job: what they keep and emit, and the work on one shard.

Every shard is visited in every batch in which the watermark has moved, also one without rows: matches come to their end
by time alone.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import FlowError
from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operate.shard_task import Emitted
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.emission import PATH, paired_changes, record_names, row_schema, stream_rows
from headwater.flow.operators.joins.events import LEFT_AT, MISSING, RIGHT_AT, Shard
from headwater.flow.operators.joins.pairing import Pairing
from headwater.flow.operators.patterns.recognition import KEYS, ROWS, Recognition, Step
from headwater.flow.operators.patterns.spec import MATCH_ID, ROW_ID, WHY
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.rows.row_batch import AT, AT_TYPE
from headwater.flow.state.manifest import EVERYTHING, StateSchema
from headwater.flow.state.shard import StateHandle


@dataclass(frozen=True)
class PatternOperator:
    """`key` names the columns that distinguish results; without any they are rows of a stream."""

    name: str
    work: Recognition
    clock: WindowClock
    meaning: str
    """What state is of: another pattern has none of it."""
    key: tuple[str, ...] = ()

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return self.work.parts

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.meaning.encode()).hexdigest()[:16]

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that name records."""
        return (MATCH_ID, ROW_ID) if self.work.output.all_rows else (MATCH_ID,)

    @property
    def columns(self) -> pa.Schema:
        """Of results, as the user sees them."""
        return pa.schema([*(pa.field(name, pa.string()) for name in self.named), *self.work.columns])

    @property
    def pairing(self) -> Pairing:
        """Results have the form of what joins of events emit: the row itself, and the first of the match."""
        return Pairing(self.columns.append(pa.field(WHY, pa.int64())), pa.schema([]), ())

    @property
    def results(self) -> pa.Schema:
        """What tasks emit."""
        if not self.key:
            return row_schema(self.pairing)
        values = pa.schema([field for field in self.columns if field.name not in self.key])
        return change_schema(pa.schema([self.columns.field(name) for name in self.key]), values)

    @property
    def output(self) -> pa.Schema:
        """What Spark's frame of it has."""
        if self.key:
            return self.results
        hidden = pa.field(AT, AT_TYPE), pa.field(PATH, pa.int64()), pa.field(MISSING, pa.bool_())
        return pa.schema([*self.pairing.columns, *hidden])

    def at(self, before_us: int | None, watermark_us: int | None) -> "PatternOperator":
        return replace(self, clock=replace(self.clock, before_us=before_us, watermark_us=watermark_us))

    @property
    def late_below_us(self) -> int | None:
        """Before which time rows are late."""
        return None if self.clock.watermark_us is None else self.clock.forgotten_us

    def pending(self, handles: Mapping[str, StateHandle]) -> bool:
        """Would time alone decide anything?"""
        handle = handles[ROWS]
        slots = (slot for shard in range(handle.shards) for slot in handle.slots(shard) if slot != EVERYTHING)
        return self.clock.moved and any(self.work.waits(slot, self.clock) for slot in slots)

    def check_visited(self, reported: Collection[int], shards: int) -> None:
        """Matches of a shard that no task has visited would never come to their end."""
        if self.clock.moved and (missing := sorted(set(range(shards)) - set(reported))):
            raise FlowError(
                f"no task has looked at shard {missing[0]} of {self.name}",
                "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
            )


@dataclass(frozen=True)
class PatternWork:
    """`topics` are those of the job's sources by number; `several`: a record may have made several rows."""

    operator: PatternOperator
    handles: Mapping[str, str]
    schema: pa.Schema
    topics: tuple[str, ...]
    several: bool

    @property
    def inputs(self) -> tuple[pa.Schema, ...]:
        return (self.schema,)

    @property
    def results(self) -> pa.Schema:
        return self.operator.results

    @property
    def visits_all(self) -> bool:
        return self.operator.clock.moved

    def run(self, shard: int, inputs: Inputs) -> Iterator[Emitted]:
        operator, (rows,) = self.operator, inputs
        handles = {part: StateHandle.from_json(text) for part, text in self.handles.items()}
        step = operator.work.step(Shard(handles, shard), rows, operator.clock)
        failed = int(np.count_nonzero(step.after.column(MISSING)))
        count = (0 if rows is None else rows.num_rows) - failed
        noted = 0 if operator.key else failed
        runs = tuple(step.runs.get(ROWS, ()))
        report = ShardReport(operator.name, shard, count, runs, filtered=failed, missing=noted, part=ROWS)
        yield Emitted(self._emitted(step), report)
        if KEYS in operator.parts:
            yield Emitted(None, ShardReport(operator.name, shard, 0, tuple(step.runs.get(KEYS, ())), part=KEYS))

    def _emitted(self, step: Step) -> pa.RecordBatch:
        operator = self.operator
        if not operator.key:
            return stream_rows(self._named(step.after), operator.pairing)
        found = (rows.filter(pc.invert(rows.column(MISSING))) for rows in (step.before, step.after))
        before, after = (self._named(rows).select(operator.columns.names) for rows in found)
        return paired_changes(before, after, operator.key)

    def _named(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """With the columns that name records; a row that is in no match has no match that is named."""
        operator = self.operator
        names = {
            name: record_names(rows, side, self.topics, several=self.several)
            for name, side in zip(operator.named, (RIGHT_AT, LEFT_AT), strict=False)
        }
        matched = rows.column(f"{RIGHT_AT}_offset").is_valid()
        names[MATCH_ID] = pc.if_else(matched, names[MATCH_ID], pa.scalar(None, pa.string()))
        columns = names | {name: rows.column(name) for name in rows.schema.names}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
