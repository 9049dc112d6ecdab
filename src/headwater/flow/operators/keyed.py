"""One batch of a keyed operator on one shard: look up, merge, write, and say what changed.

What a task does with the rows that Spark has reduced to one for each key. It reads the shard's version b − 1 and writes
a run beside it, so that it may be run any number of times.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, partials
from headwater.flow.operators.aggregation.merging import absorbed, finish_all, merge_all
from headwater.flow.operators.aggregation.reduction import reduce_rows
from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.latest import Latest, merge_latest
from headwater.flow.state.manifest import HASH, RunInfo
from headwater.flow.state.shard import ShardState, conformed

TIME, MOMENT = "_event_time", pa.timestamp("us", "UTC")
POSITION = {"_topic": pa.string(), "_partition": pa.int32(), "_offset": pa.int64()}
"""Where a row lies in time and in the log, for aggregates that go by that."""
ALL = "_all"
"""Stands for the key in the state of what has none: one row of everything."""


def inner_key(key: pa.Schema) -> pa.Schema:
    """What state is kept by.

    >>> inner_key(pa.schema([])).names
    ['_all']
    """
    return key if len(key) else pa.schema([(ALL, pa.bool_())])


def inner_keys(rows: pa.RecordBatch, key: pa.Schema) -> pa.RecordBatch:
    """The columns of such a key."""
    if key.names != [ALL]:
        return rows.select(key.names)
    return pa.RecordBatch.from_arrays([pa.array(np.ones(rows.num_rows, np.bool_))], schema=key)


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
    shown = keys.select([name for name in keys.schema.names if name != ALL])
    return Step(merge_changes(shown, found.mask, before, exists, after), run)


def first_step(state: ShardState, specs: Sequence[Aggregate]) -> Step:
    """The one row of aggregates without a key, before any row has come: what they are of a row of nulls, which all but
    count(*) pass over."""
    columns = {name: pa.nulls(1, kind) for spec in specs for name, kind in inputs_of(spec)}
    columns |= {name: pa.nulls(1, kind) for name, kind in {**POSITION, TIME: MOMENT}.items()}
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    given = reduce_rows(specs, rows, np.ones(1, np.bool_))
    made = {name: given.column(name) for name in given.schema.names}
    made |= {partials(spec)[0].name: pa.array([0]) for spec in specs if spec.column is None}
    made |= {HASH: pa.array([0]), ALL: pa.array([True])}
    return aggregate_step(state, specs, pa.RecordBatch.from_arrays(list(made.values()), names=list(made)))


def inputs_of(spec: Aggregate) -> Iterator[tuple[str, pa.DataType]]:
    """The columns that an aggregate is computed from, but for those that say where a row lies."""
    if spec.column is not None:
        yield spec.column, spec.input_type
    if spec.time is not None and spec.time != TIME:
        yield spec.time, spec.time_type
    if spec.other is not None:
        yield spec.other, pa.float64()


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
