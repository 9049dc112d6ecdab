"""What a task does with its part of a batch: merge it with the shards' state, tell the changes and what it wrote.

Runs in Spark's Python workers, once per task; all values at once, none by itself.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregates import Aggregate, result_schema, state_schema
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.keyed import Step, aggregate_step, latest_step
from headwater.flow.operators.latest import Latest
from headwater.flow.state.manifest import HASH, RunInfo, StateSchema
from headwater.flow.state.shard import ShardState, StateHandle, shard_of

COMMIT, ROWS = "_commit", "_rows"


@dataclass(frozen=True)
class Operator:
    """Aggregates, or the latest row, for each key."""

    name: str
    key: pa.Schema
    work: tuple[Aggregate, ...] | Latest

    @property
    def values(self) -> pa.Schema:
        return self.work.values if isinstance(self.work, Latest) else result_schema(self.work)

    @property
    def state(self) -> StateSchema:
        kept = self.work.state if isinstance(self.work, Latest) else state_schema(self.work)
        return StateSchema(self.key, kept)

    @property
    def output(self) -> pa.Schema:
        return change_schema(self.key, self.values).append(pa.field(COMMIT, pa.string()))

    def step(self, state: ShardState, rows: pa.RecordBatch) -> Step:
        if isinstance(self.work, Latest):
            return latest_step(state, self.work, rows)
        return aggregate_step(state, self.work, rows)


@dataclass(frozen=True)
class Told:
    """What a task tells the driver of one shard."""

    operator: str
    shard: int
    rows: int
    """Facts that went into the state, or were let through."""
    run: RunInfo | None
    duplicates: int = 0
    late: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Told":
        row = json.loads(text)
        return cls(**{**row, "run": RunInfo.of(row["run"]) if row["run"] else None})


def by_shard(batches: Iterator[pa.RecordBatch], handle: str) -> Iterator[tuple[int, ShardState, pa.RecordBatch]]:
    """What a task was given, shard by shard; mostly there is one."""
    received = [batch for batch in batches if batch.num_rows]
    if not received:
        return
    rows = pa.Table.from_batches(received).combine_chunks().to_batches()[0]
    opened = StateHandle.from_json(handle)
    shards = shard_of(rows.column(HASH).to_numpy(), opened.shards)
    for shard in map(int, np.unique(shards)):
        yield shard, ShardState(opened, shard), rows.filter(pa.array(shards == shard))


@dataclass(frozen=True)
class MergeTask:
    operator: Operator
    handle: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for shard, state, rows in by_shard(batches, self.handle):
            step = self.operator.step(state, rows)
            counted = int(rows.column(ROWS).to_numpy().sum())
            yield self._output(step.changes, Told(self.operator.name, shard, counted, step.run))

    def _output(self, changes: pa.RecordBatch, told: Told) -> pa.RecordBatch:
        """The changes, and behind them one row that only says what the driver has to commit."""
        schema = self.operator.output
        columns = [pa.concat_arrays([column, pa.nulls(1, column.type)]) for column in changes.columns]
        commit = pa.concat_arrays([pa.nulls(changes.num_rows, pa.string()), pa.array([told.to_json()])])
        return pa.RecordBatch.from_arrays([*columns, commit], schema=schema)
