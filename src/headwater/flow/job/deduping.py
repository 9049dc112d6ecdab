"""A task that lets the first row of each key through, and tells rows that came too late to be judged."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.job.merging import COMMIT, Told, by_shard
from headwater.flow.operators.dedupe import dedupe_step, state_of
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.shard import ShardState

LATE = "_late"
"""In a row that is late: the row as JSON. In others null."""
AT = "_at"
EXPIRE_EVERY = 50
"""Batches between two looks for keys that may be forgotten; each look reads the whole shard."""


@dataclass(frozen=True)
class Deduplicator:
    name: str
    key: pa.Schema
    rows: pa.Schema
    """Columns of the rows, `_at` among them."""
    within_us: int

    @property
    def state(self) -> StateSchema:
        return state_of(self.key)

    @property
    def output(self) -> pa.Schema:
        return self.rows.append(pa.field(LATE, pa.string())).append(pa.field(COMMIT, pa.string()))


@dataclass(frozen=True)
class DedupeTask:
    operator: Deduplicator
    handle: str
    batch: int
    expired_us: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for shard, state, rows in by_shard(batches, self.handle):
            yield self._shard(state, shard, rows)

    def _shard(self, state: ShardState, shard: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        late = np.asarray(pc.is_valid(rows.column(LATE)))
        timely = rows.filter(pa.array(~late))
        at = timely.column(AT)
        position = [at.field(name).to_numpy() for name in ("source", "partition", "offset")]
        times_us = at.field("time").cast(pa.int64()).to_numpy()
        expired = self.expired_us if (self.batch + shard) % EXPIRE_EVERY == 0 else None
        passed = dedupe_step(state, timely, times_us, position, self.operator.within_us, expired_us=expired)
        kept = int(passed.rows.sum())
        told = Told(
            self.operator.name, shard, kept, passed.run, duplicates=len(passed.rows) - kept, late=int(late.sum())
        )
        return self._output([timely.filter(pa.array(passed.rows)), rows.filter(pa.array(late))], told)

    def _output(self, parts: list[pa.RecordBatch], told: Told) -> pa.RecordBatch:
        names = [*self.operator.rows.names, LATE]
        rows = pa.concat_batches([part.select(names) for part in parts])
        schema = self.operator.output
        columns = [
            pa.concat_arrays([column.cast(schema.field(name).type), pa.nulls(1, schema.field(name).type)])
            for name, column in zip(names, rows.columns, strict=True)
        ]
        commit = pa.concat_arrays([pa.nulls(rows.num_rows, pa.string()), pa.array([told.to_json()])])
        return pa.RecordBatch.from_arrays([*columns, commit], schema=schema)
