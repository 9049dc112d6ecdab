"""Values by their order: the least and the greatest; the first, the last and all of them by event time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.extremes import chosen, extreme, extreme_places, taken_or_null
from headwater.flow.operators.aggregation.kinds.kind import (
    ANY,
    FLAG,
    ORDERED,
    Columns,
    Function,
    Kind,
    Options,
    Partial,
    column_sql,
    input_of,
)
from headwater.flow.operators.aggregation.lists import (
    Elements,
    closed_lists,
    in_order,
    lists_of_groups,
    shortened,
    together,
)
from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.operators.ordering import has_order, less, rows_less
from headwater.flow.state.runs.equality import Mask, valid

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headwater.flow.operators.aggregation.aggregates import Aggregate

POSITION = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
ORDER = ("time", *POSITION)


@dataclass(frozen=True)
class Limit(Options):
    """Of a collection: so many elements at most, the first by time and position."""

    limit: int


class Extreme(Kind):
    """min and max."""

    over_tables = "extremes"
    needs = ORDERED

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [extreme(given[0], segments, smallest=spec.kind == "min")]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        better = less(new[0], old[0]) if spec.kind == "min" else less(old[0], new[0])
        return [chosen((better & valid(new[0])) | ~valid(old[0]), new[0], old[0])]


class Outermost(Kind):
    """first and last, by event time and position. Rows without a time have no position in it, and are passed over."""

    over_tables = "outermost"
    timed = True

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__{spec.kind}", ordered_type(spec)),)

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        there = valid(rows.column(spec.time))
        among = there & valid(rows.column(spec.column)) if spec.ignore_nulls else there
        return self._outermost(spec, placed(spec, rows), among, segments)

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return self._outermost(spec, given[0], valid(given[0]), segments)

    def _outermost(self, spec: "Aggregate", values: pa.StructArray, among: Mask, segments: Segments) -> Columns:
        keys = [values.field(name) for name in order_of(spec)]
        return [taken_or_null(values, extreme_places(keys, segments, smallest=spec.kind == "first", among=among))]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        sides = (new[0], old[0]) if spec.kind == "first" else (old[0], new[0])
        one, other = ([column.field(name) for name in order_of(spec)] for column in sides)
        better = rows_less(one, other, len(new[0]))
        return [chosen((better & valid(new[0])) | ~valid(old[0]), new[0], old[0])]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        return pc.struct_field(kept[0], "value")

    def reference(self, spec: "Aggregate") -> "Column":
        return super().reference(spec)["value"]

    def reference_sql(self, spec: "Aggregate") -> str:
        most = "min" if spec.kind == "first" else "max"
        kept, value = f"{quoted(spec.time or '')} is not null", ordered_sql(spec)
        if spec.ignore_nulls:
            kept = f"{kept} and {column_sql(spec)} is not null"
        if pa.types.is_map(spec.input_type):  # Spark does not order maps, so that the value itself cannot take part
            value = f"{most}_by({value}, {value.rpartition(', ')[0].rpartition(', ')[0]}))"
            return f"{value} filter (where {kept})"
        return f"{most}({value}) filter (where {kept})"


class Collect(Kind):
    """All values in the order of time, or the first so many. A collection of nothing is empty."""

    timed = True

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__collect", pa.list_(ordered_type(spec))),)

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return pa.list_(spec.input_type)

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        return self._closed(spec, placed_values(spec, rows, segments), len(segments))

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return self._closed(spec, placed_lists(spec, given[0], segments), len(segments))

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return self._closed(spec, together(old[0], new[0], by=order_of(spec)), len(new[0]))

    def _closed(self, spec: "Aggregate", elements: Elements, length: int) -> Columns:
        if isinstance(spec.options, Limit):
            elements = shortened(elements, spec.options.limit)
        return [closed_lists(elements, length, pa.list_(ordered_type(spec)))]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        offsets = kept[0].offsets
        start = offsets[0].as_py()
        values = pc.struct_field(kept[0].values, "value").slice(start, offsets[-1].as_py() - start)
        return pa.ListArray.from_arrays(pc.subtract(offsets, start), values, type=self.result_type(spec))

    def reference_sql(self, spec: "Aggregate") -> str:
        whole = f"transform({ordered_list_sql(spec)}, one -> one.value)"
        return f"slice({whole}, 1, {spec.options.limit})" if isinstance(spec.options, Limit) else whole


# -- values with their position in time; rows of the same time have the order of the log -----------------------------


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


BY_ORDER: dict[str, Kind] = {
    **dict.fromkeys(("min", "max"), Extreme()),
    **dict.fromkeys(("first", "last"), Outermost()),
    "collect": Collect(),
}
FUNCTIONS = {
    "min": Function("min", ANY, "min"),
    "max": Function("max", ANY, "max"),
    **dict.fromkeys(("bool_and", "every"), Function("min", FLAG, "min")),
    **dict.fromkeys(("bool_or", "some"), Function("max", FLAG, "max")),
    "any": Function("max", None, "max"),
    "first": Function("first", ANY),
    **dict.fromkeys(("first_value", "any_value"), Function("first")),
    "last": Function("last", ANY),
    "last_value": Function("last"),
    "min_by": Function("first", ANY, arguments=2),
    "max_by": Function("last", ANY, arguments=2),
    "collect_list": Function("collect", ANY),
    "array_agg": Function("collect"),
}
