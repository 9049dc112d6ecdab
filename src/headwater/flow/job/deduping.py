"""A task that lets the first row of each key through, and tells rows that came too late to be judged."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.job.merging import COMMIT, Told, by_shard, with_report
from headwater.flow.operators.dedupe import dedupe_step, state_of
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.shard import ShardState, StateHandle

LATE = "_late"
"""In a row that is late: the row as JSON. In others null."""
AT = "_at"
APART = "_apart"
"""Puts rows in an order that a join has made and that lie at one place."""
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
        handle = StateHandle.from_json(self.handle)
        for shard, rows in by_shard(batches, handle.shards):
            yield self._shard(ShardState(handle, shard), shard, rows)

    def _shard(self, state: ShardState, shard: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        late = np.asarray(pc.is_valid(rows.column(LATE)))
        timely = rows.filter(pa.array(~late))
        at = timely.column(AT)
        position = [at.field(name).to_numpy() for name in ("source", "partition", "offset")]
        if APART in timely.schema.names:
            position.append(timely.column(APART).to_numpy())
        times_us = at.field("time").cast(pa.int64()).to_numpy()
        expired = self.expired_us if (self.batch + shard) % EXPIRE_EVERY == 0 else None
        passed = dedupe_step(state, timely, times_us, position, self.operator.within_us, expired_us=expired)
        kept, runs = int(passed.rows.sum()), (passed.run,) if passed.run else ()
        told = Told(self.operator.name, shard, kept, runs, duplicates=len(passed.rows) - kept, late=int(late.sum()))
        parts = [timely.filter(pa.array(passed.rows)), rows.filter(pa.array(late))]
        names = [*self.operator.rows.names, LATE]
        return with_report(pa.concat_batches([part.select(names) for part in parts]), told, self.operator.output)
