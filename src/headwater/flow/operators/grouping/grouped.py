"""A table grouped, kept up to date: what a batch changes of its rows changes the groups that they are, or were, in.

    groups             a row for each group: how many rows it has, and the columns of every aggregate
    <number>.<part>    parts of state that an aggregate keeps beside them (held.py)

A group without rows is deleted. Without a key there is one group, which is there also when it has no row: then its
counts are 0 and all else is null, as in SQL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operators.aggregation.aggregates import Aggregate, result_schema
from headwater.flow.operators.aggregation.kinds.kind import Columns
from headwater.flow.operators.changes import change_schema, merge_changes
from headwater.flow.operators.grouping.changed_rows import WEIGHT, ChangedRows
from headwater.flow.operators.grouping.registry import held_of
from headwater.flow.operators.keyed import inner_key, inputs_of
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import Found, ShardState

GROUPS = "groups"
NUMBER = "_number"
"""How many rows a group has."""


class GroupedStep(NamedTuple):
    """The changes of a shard, and the run of each part of the state."""

    changes: pa.RecordBatch
    runs: Mapping[str, RunInfo | None]


@dataclass(frozen=True)
class Grouped:
    """`key` are the columns of the result's key; none: one row in all."""

    key: pa.Schema
    specs: tuple[Aggregate, ...]

    @property
    def inner_key(self) -> pa.Schema:
        """What groups are kept by."""
        return inner_key(self.key)

    @property
    def values(self) -> pa.Schema:
        return result_schema(self.specs)

    @property
    def output(self) -> pa.Schema:
        return change_schema(self.key, self.values)

    @property
    def given(self) -> pa.Schema:
        """What shards receive: rows that are no longer and rows that are, with what aggregates are computed from."""
        inputs = dict(pair for spec in self.specs for pair in inputs_of(spec))
        return pa.schema([(HASH, pa.int64()), *self.inner_key, *inputs.items(), (WEIGHT, pa.int64())])

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        kept = [pa.field(part.name, part.type) for spec in self.specs for part in held_of(spec).kept(spec)]
        groups = StateSchema(self.inner_key, pa.schema([pa.field(NUMBER, pa.int64()), *kept]))
        return {GROUPS: groups} | {
            f"{number}.{name}": schema
            for number, spec in enumerate(self.specs)
            for name, schema in held_of(spec).parts(spec, self.inner_key).items()
        }


def grouped_step(work: Grouped, states: Mapping[str, ShardState], rows: pa.RecordBatch) -> GroupedStep:
    """`rows` have the columns of `given`."""
    given = ChangedRows.of(rows, work.inner_key)
    found = states[GROUPS].lookup(given.hashes, given.keys)
    runs: dict[str, RunInfo | None] = {}
    kept: Columns = []
    for number, spec in enumerate(work.specs):
        prefix = f"{number}."
        parts = {name.removeprefix(prefix): state for name, state in states.items() if name.startswith(prefix)}
        changed = held_of(spec).changed(spec, given, _columns(spec, found.values), parts)
        kept += changed.columns
        runs |= {prefix + name: run for name, run in changed.runs.items()}
    count = np.asarray(found.values.column(NUMBER).fill_null(0).to_numpy(), np.int64) + given.counted()
    if (count < 0).any():
        raise FlowError("a batch takes more rows out of a group than it has", "This is a bug; please report it.")
    return _finished(work, states[GROUPS], found, _rows(work, given.hashes, given.keys, [pa.array(count), *kept]), runs)


def first_step(work: Grouped, states: Mapping[str, ShardState]) -> GroupedStep:
    """The one group of a table without a key, where it has had no row yet."""
    hashes, key = np.zeros(1, np.int64), pa.RecordBatch.from_arrays([pa.array([True])], schema=work.inner_key)
    kept = [column for spec in work.specs for column in held_of(spec).nothing(spec)]
    found = states[GROUPS].lookup(hashes, key)
    return _finished(work, states[GROUPS], found, _rows(work, hashes, key, [pa.array([0]), *kept]), {})


def _finished(
    work: Grouped, state: ShardState, found: Found, rows: pa.RecordBatch, runs: Mapping[str, RunInfo | None]
) -> GroupedStep:
    """Write what groups are now, and say what of their results has changed."""
    exists = np.ones(rows.num_rows, np.bool_)
    if len(work.key):
        exists = rows.column(NUMBER).to_numpy() > 0
    run = state.write(rows.append_column(DELETED, pa.array(~exists)), existed=found.mask)
    before, after = (_results(work, values) for values in (found.values, rows))
    changes = merge_changes(rows.select(work.key.names), found.mask, before, exists, after)
    return GroupedStep(changes, {GROUPS: run, **runs})


def _rows(work: Grouped, hashes: Integers, keys: pa.RecordBatch, kept: Columns) -> pa.RecordBatch:
    state = work.parts[GROUPS]
    columns = [pa.array(hashes), *keys.columns, *kept]
    return pa.RecordBatch.from_arrays(columns, names=[HASH, *state.key.names, *state.values.names])


def _results(work: Grouped, kept: pa.RecordBatch) -> pa.RecordBatch:
    columns = [held_of(spec).finish(spec, _columns(spec, kept)) for spec in work.specs]
    if not columns:  # only the key says anything
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), kept.num_rows, [None]))
    return pa.RecordBatch.from_arrays(columns, schema=work.values)


def _columns(spec: Aggregate, kept: pa.RecordBatch) -> Columns:
    return [kept.column(part.name) for part in held_of(spec).kept(spec)]
