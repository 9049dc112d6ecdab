"""One batch of a keyed operator on one shard: look up, merge, write, and say what changed.

What a task does with the rows that Spark has reduced to one for each key. It reads the shard's version b − 1 and writes
a run beside it, so that it may be run any number of times.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.merging import absorbed, finish_all, merge_all
from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.latest import Latest, merge_latest
from headwater.flow.state.manifest import HASH, RunInfo
from headwater.flow.state.shard import ShardState, conformed


class Step(NamedTuple):
    """The changes of a shard, and the run that the driver has to commit, if anything is to be kept."""

    changes: pa.RecordBatch
    run: RunInfo | None


def aggregate_step(state: ShardState, specs: Sequence[Aggregate], incoming: pa.RecordBatch) -> Step:
    """`incoming` has `_hash`, the key and the partial columns, one row for each key."""
    keys = conformed(incoming, state.schema.key)
    hashes = incoming.column(HASH).to_numpy()
    found = state.lookup(hashes, keys)
    kept = merge_all(specs, absorbed(specs, incoming), found.values)
    run = state.write(_rows(hashes, keys, kept), existed=found.mask)
    before, after = finish_all(specs, found.values), finish_all(specs, kept)
    exists = np.ones(len(hashes), np.bool_)
    return Step(merge_changes(keys, found.mask, before, exists, after), run)


def latest_step(state: ShardState, spec: Latest, incoming: pa.RecordBatch) -> Step:
    """`incoming` has `_hash`, the key and the columns of the state, one row for each key."""
    keys = conformed(incoming, state.schema.key)
    hashes = incoming.column(HASH).to_numpy()
    found = state.lookup(hashes, keys)
    merged = merge_latest(spec, conformed(incoming, spec.state), found.mask, found.values)
    newer = pa.array(merged.newer)
    rows = _rows(hashes, keys, merged.state).filter(newer)
    run = state.write(rows, existed=found.mask[merged.newer])
    before, after = (part.select(spec.values.names) for part in (found.values, merged.state))
    return Step(merge_changes(keys, merged.existed, before, merged.exists, after), run)


def _rows(hashes: object, keys: pa.RecordBatch, values: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.array(hashes, pa.int64()), *keys.columns, *values.columns]
    fields = [pa.field(HASH, pa.int64()), *keys.schema, *values.schema]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
