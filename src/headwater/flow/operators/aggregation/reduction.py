"""Rows of a batch reduced to one row per group, for all aggregates at once (pure): what Spark's groupBy would give.

Rows of a group lie side by side (windows/grouping.py). A reduced row has the columns of `given_schema`, with the values
that Spark SQL computes for the group by `Partial.sql`; sums of floating-point numbers up to rounding, which depends on
nothing but the rows and their order. Reduced rows of a group are combined into one, in whatever parts its rows came.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema, partials
from headwater.flow.operators.aggregation.averages import average_sum_type, sum_type
from headwater.flow.operators.aggregation.extremes import extreme, extreme_places, taken_or_null
from headwater.flow.operators.aggregation.lists import Elements, closed_lists, shortened
from headwater.flow.operators.aggregation.segments import Segments, added, counted
from headwater.flow.operators.kinds.families import FAMILIES
from headwater.flow.operators.kinds.kind import Columns, input_of
from headwater.flow.operators.kinds.options import Limit
from headwater.flow.operators.kinds.placing import order_of, placed, placed_lists, placed_values
from headwater.flow.operators.kinds.plain import different_elements, different_values
from headwater.flow.state.runs.equality import Mask, valid
from headwater.flow.state.shard import empty_rows


def reduce_rows(specs: Sequence[Aggregate], rows: pa.RecordBatch, firsts: Mask) -> pa.RecordBatch:
    """One row per group, with the columns of `given_schema(specs)`. `firsts` marks the rows at which a group begins.

    `rows` has the input columns of the aggregates: `column`, `other` and `time` of each, and where its kind is TIMED
    `_topic`, `_partition` and `_offset` too. NumberOverflow if a sum does not fit its type.
    """
    return _each(specs, firsts, lambda spec, segments: reduced(spec, rows, segments))


def combine(specs: Sequence[Aggregate], given: pa.RecordBatch, firsts: Mask) -> pa.RecordBatch:
    """One row per group of rows that have been reduced, as if all their rows had been reduced together."""
    if firsts.all():
        return given.select(given_schema(tuple(specs)).names)
    return _each(
        specs, firsts,
        lambda spec, segments: combined(spec, [given.column(part.name) for part in partials(spec)], segments),
    )  # fmt: skip


def _each(specs: Sequence[Aggregate], firsts: Mask, make: Callable[[Aggregate, Segments], Columns]) -> pa.RecordBatch:
    schema, segments = given_schema(tuple(specs)), Segments.of(firsts)
    if not len(segments):
        return empty_rows(schema, 0)
    columns = [column for spec in specs for column in make(spec, segments)]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(segments), [None]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def reduced(spec: Aggregate, rows: pa.RecordBatch, segments: Segments) -> Columns:
    """The columns of one aggregate for each group of rows."""
    if spec.kind in FAMILIES:
        return FAMILIES[spec.kind].reduce(spec, rows, segments)
    if spec.column is None:
        return [pa.array(segments.lengths)]
    kind = partials(spec)[0].type
    match spec.kind:
        case "first" | "last":
            return [_outermost(spec, placed(spec, rows), _timed(spec, rows), segments)]
        case "collect":
            return [_collected(spec, placed_values(spec, rows, segments), segments)]
    column = input_of(spec, rows)
    match spec.kind:
        case "count":
            return [pa.array(counted(column, segments))]
        case "sum":
            return [added(column, segments, sum_type(column.type), spec.name)]
        case "avg":
            total = added(column, segments, average_sum_type(column.type), spec.name)
            return [total, pa.array(counted(column, segments))]
        case "min" | "max":
            return [extreme(column, segments, smallest=spec.kind == "min")]
    return [different_values(column, segments, kind)]


def combined(spec: Aggregate, given: Columns, segments: Segments) -> Columns:
    """The columns of one aggregate for each group of rows that have been reduced; null stands for no rows."""
    if spec.kind in FAMILIES:
        return FAMILIES[spec.kind].combine(spec, given, segments)
    column = given[0]
    match spec.kind:
        case "count":
            return [_counts(column, segments, spec)]
        case "sum":
            return [added(column, segments, column.type, spec.name)]
        case "avg":
            return [added(column, segments, column.type, spec.name), _counts(given[1], segments, spec)]
        case "min" | "max":
            return [extreme(column, segments, smallest=spec.kind == "min")]
        case "first" | "last":
            return [_outermost(spec, column, valid(column), segments)]
        case "collect":
            return [_collected(spec, placed_lists(spec, column, segments), segments)]
    return [different_elements(column, segments)]


def _counts(column: pa.Array, segments: Segments, spec: Aggregate) -> pa.Array:
    return added(column.fill_null(0), segments, pa.int64(), spec.name)


def _timed(spec: Aggregate, rows: pa.RecordBatch) -> Mask:
    """Which rows can be the first or last of a group: those without a time have no place, and are passed over."""
    there = valid(rows.column(spec.time))
    return there & valid(rows.column(spec.column)) if spec.ignore_nulls else there


def _outermost(spec: Aggregate, values: pa.StructArray, among: Mask, segments: Segments) -> pa.Array:
    """The first or last value of each group, with its place."""
    keys = [values.field(name) for name in order_of(spec)]
    places = extreme_places(keys, segments, smallest=spec.kind == "first", among=among)
    return taken_or_null(values, places)


def _collected(spec: Aggregate, elements: Elements, segments: Segments) -> pa.Array:
    if isinstance(spec.options, Limit):
        elements = shortened(elements, spec.options.limit)
    return closed_lists(elements, len(segments), partials(spec)[0].type)
