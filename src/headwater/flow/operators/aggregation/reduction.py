"""Rows of a batch reduced to one row per group, for all aggregates at once (pure): what Spark's groupBy would give.

Rows of a group lie side by side (windows/grouping.py). A reduced row has the columns of `given_schema`, with the values
that Spark SQL computes for the group; sums of floating-point numbers up to rounding, which depends on
nothing but the rows and their order. Reduced rows of a group are combined into one, in whatever parts its rows came.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema, partials
from headwater.flow.operators.aggregation.kinds.kind import Columns
from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.state.runs.equality import Mask
from headwater.flow.state.shard import empty_rows


def reduce_rows(specs: Sequence[Aggregate], rows: pa.RecordBatch, firsts: Mask) -> pa.RecordBatch:
    """One row per group, with the columns of `given_schema(specs)`. `firsts` marks the rows at which a group begins.

    `rows` has the input columns of the aggregates: `column`, `other` and `time` of each, and where its kind is timed
    `_topic`, `_partition` and `_offset` too. NumberOverflow if a sum does not fit its type.
    """
    return _each(specs, firsts, lambda spec, segments: spec.rules.reduce(spec, rows, segments))


def combine(specs: Sequence[Aggregate], given: pa.RecordBatch, firsts: Mask) -> pa.RecordBatch:
    """One row per group of rows that have been reduced, as if all their rows had been reduced together."""
    if firsts.all():
        return given.select(given_schema(tuple(specs)).names)

    def combined(spec: Aggregate, segments: Segments) -> Columns:
        return spec.rules.combine(spec, [given.column(part.name) for part in partials(spec)], segments)

    return _each(specs, firsts, combined)


def _each(specs: Sequence[Aggregate], firsts: Mask, make: Callable[[Aggregate, Segments], Columns]) -> pa.RecordBatch:
    schema, segments = given_schema(tuple(specs)), Segments.of(firsts)
    if not len(segments):
        return empty_rows(schema, 0)
    columns = [column for spec in specs for column in make(spec, segments)]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(segments), [None]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
