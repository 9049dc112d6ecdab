"""Values with their place in time: rows of the same time have the order of the log."""

from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.kinds.kind import input_of
from headwater.flow.operators.aggregation.lists import Elements, in_order, lists_of_groups
from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.operators.ordering import has_order
from headwater.flow.state.runs.equality import valid

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

POSITION = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
ORDER = ("time", *POSITION)


def ordered_type(spec: "Aggregate") -> pa.DataType:
    time = pa.timestamp("us", "UTC") if spec.time_type is None else spec.time_type
    return pa.struct({"time": time, **POSITION, "value": spec.input_type})


def order_of(spec: "Aggregate") -> tuple[str, ...]:
    """Several rows may lie at one place of the log, behind a join or where a row was made into several. Then it is the
    value that decides, as it does in Spark's partials; one of a type without an order takes no part."""
    return (*ORDER, "value") if has_order(spec.input_type) else ORDER


def placed(spec: "Aggregate", rows: pa.RecordBatch) -> pa.StructArray:
    """The values of a batch with their places in time."""
    kind = ordered_type(spec)
    columns = [*(rows.column(name) for name in (spec.time, "_topic", "_partition", "_offset")), input_of(spec, rows)]
    fitting = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(columns, kind, strict=True)
    ]
    return pa.StructArray.from_arrays(fitting, fields=list(kind))


def placed_values(spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Elements:
    """The values of each group that are not null, with their places, in the order of time."""
    values, there = placed(spec, rows), valid(rows.column(spec.column))
    if there.all():
        return in_order(Elements(segments.numbers, values), order_of(spec))
    return in_order(Elements(segments.numbers[there], values.filter(pa.array(there))), order_of(spec))


def placed_lists(spec: "Aggregate", column: pa.Array, segments: Segments) -> Elements:
    """The elements of all such lists of each group, in the order of time."""
    return in_order(lists_of_groups(column, segments), order_of(spec))


def ordered_sql(spec: "Aggregate") -> str:
    """A value with its place in time."""
    place = f"'time', {quoted(spec.time or '')}, 'topic', `_topic`, 'partition', `_partition`, 'offset', `_offset`"
    return f"named_struct({place}, 'value', {quoted(spec.column or '')})"


def ordered_list_sql(spec: "Aggregate") -> str:
    """All values of a group that are not null, in the order of time."""
    given = f"case when {quoted(spec.column or '')} is not null then {ordered_sql(spec)} end"
    return f"array_sort(collect_list({given}))"
