"""Merge what a batch was reduced to with state, and finish state into results (pure, all keys at once)."""

from collections.abc import Sequence

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import (
    Aggregate,
    given_schema,
    partials,
    result_schema,
    state_schema,
)
from headwater.flow.state.runs.equality import Mask, rows_equal
from headwater.flow.state.shard import conformed


def merge(spec: Aggregate, incoming: pa.RecordBatch, old: pa.RecordBatch) -> list[pa.Array]:
    """The new state columns of one aggregate; rows of `old` stand beside those of `incoming`, and are null where there
    is no state yet.
    """
    names = [part.name for part in partials(spec)]
    new_columns, old_columns = ([rows.column(name) for name in names] for rows in (incoming, old))
    return spec.rules.merge(spec, new_columns, old_columns)


def absorbed(specs: Sequence[Aggregate], incoming: pa.RecordBatch) -> pa.RecordBatch:
    """What a batch was reduced to, in the form in which it is kept."""
    given = conformed(incoming, given_schema(tuple(specs)))
    columns = [
        column
        for spec in specs
        for column in spec.rules.absorb(spec, [given.column(part.name) for part in partials(spec)])
    ]
    return pa.RecordBatch.from_arrays(columns, schema=state_schema(tuple(specs)))


def finish(spec: Aggregate, state: pa.RecordBatch) -> pa.Array:
    """The result that a key's state stands for."""
    return spec.rules.finish(spec, [state.column(part.name) for part in partials(spec)])


def merge_all(specs: Sequence[Aggregate], incoming: pa.RecordBatch, old: pa.RecordBatch) -> pa.RecordBatch:
    """The new state of all aggregates of an operator."""
    columns = [column for spec in specs for column in merge(spec, incoming, old)]
    return pa.RecordBatch.from_arrays(columns, schema=state_schema(tuple(specs)))


def finish_all(specs: Sequence[Aggregate], state: pa.RecordBatch) -> pa.RecordBatch:
    columns = [finish(spec, state) for spec in specs]
    return pa.RecordBatch.from_arrays(columns, schema=result_schema(tuple(specs)))


def changed(before: pa.RecordBatch, after: pa.RecordBatch) -> Mask:
    """Rows that are not the same in both, null and NaN being the same as themselves."""
    return ~rows_equal(before.columns, after.columns, before.num_rows)
