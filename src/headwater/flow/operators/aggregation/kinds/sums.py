"""Counts, sums and averages. A sum of nothing is null, a count of nothing 0."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import NumberOverflow
from headwater.flow.operators.aggregation.averages import average, average_sum_type, average_type, sum_type
from headwater.flow.operators.aggregation.kinds.kind import (
    ANY,
    FLAG,
    NUMBER,
    Columns,
    Function,
    Kind,
    Partial,
    input_of,
)
from headwater.flow.operators.aggregation.segments import Segments, added, counted

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate


class Count(Kind):
    over_tables = "counts"

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return pa.int64()

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        if spec.column is None:
            return [pa.array(segments.lengths)]
        return [pa.array(counted(input_of(spec, rows), segments))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [added(given[0].fill_null(0), segments, pa.int64(), spec.name)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return [add(new[0].fill_null(0), old[0].fill_null(0), spec)]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        return kept[0].fill_null(0)


class Sum(Kind):
    over_tables = "sums"
    needs = NUMBER

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return sum_type(spec.input_type)

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [added(given[0], segments, sum_type(spec.input_type), spec.name)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return [add(new[0], old[0], spec)]


class Average(Sum):
    """Kept are the sum and the count."""

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        total = Partial(f"{spec.name}__sum", average_sum_type(spec.input_type))
        return (total, Partial(f"{spec.name}__count", pa.int64()))

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return average_type(spec.input_type)

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        column = input_of(spec, rows)
        total = added(column, segments, average_sum_type(column.type), spec.name)
        return [total, pa.array(counted(column, segments))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        total = added(given[0], segments, given[0].type, spec.name)
        return [total, *COUNT.combine(spec, given[1:], segments)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return [add(new[0], old[0], spec), *COUNT.merge(spec, new[1:], old[1:])]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        return average(kept[0], kept[1], self.result_type(spec))


def add(new: pa.Array, old: pa.Array, spec: "Aggregate") -> pa.Array:
    """The sum of both, the one that is there if only one is; NumberOverflow instead of a wrong number."""
    kind = new.type
    try:
        if pa.types.is_decimal(kind):
            wide = pa.decimal256(kind.precision, kind.scale)
            total = pc.add(new.cast(wide), old.cast(wide)).cast(kind)
        else:
            total = pc.add_checked(new, old)
    except pa.ArrowInvalid:
        raise NumberOverflow(f'"{spec.name}"', f"its type {kind}") from None
    return pc.coalesce(total, new, old)


COUNT = Count()
SUMS: dict[str, Kind] = {"count": COUNT, "sum": Sum(), "avg": Average()}
FUNCTIONS = {
    "count": Function("count", ANY, "count_distinct"),
    "count_if": Function("count", FLAG, "count_distinct"),
    "sum": Function("sum", NUMBER, "sum_distinct"),
    "avg": Function("avg", NUMBER, "avg_distinct"),
    "mean": Function("avg", NUMBER, "avg_distinct"),
}
