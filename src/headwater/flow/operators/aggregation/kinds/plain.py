"""Aggregates that need one column: bits, products, and those over distinct values."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import NumberOverflow
from headwater.flow.operators.aggregation.averages import average, average_sum_type, average_type, sum_type
from headwater.flow.operators.aggregation.kinds.kind import (
    ANY,
    NUMBER,
    ORDERED,
    WHOLE,
    Columns,
    Function,
    Kind,
    Partial,
    column_sql,
    input_of,
)
from headwater.flow.operators.aggregation.lists import (
    closed_lists,
    distinct,
    in_order,
    lists_of_groups,
    opened_lists,
    together,
    values_of_groups,
)
from headwater.flow.operators.aggregation.segments import Segments, joined_bits, multiplied

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headwater.flow.operators.aggregation.aggregates import Aggregate

BITS = {"bit_and": pc.bit_wise_and, "bit_or": pc.bit_wise_or, "bit_xor": pc.bit_wise_xor}


class Bits(Kind):
    needs = WHOLE

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [joined_bits(given[0], segments, spec.kind)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return [pc.coalesce(BITS[spec.kind](new[0], old[0]), new[0], old[0])]


class Product(Kind):
    needs = NUMBER

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return pa.float64()

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        """Factors are taken in ascending order: products that come to more than a double holds depend on it."""
        column = input_of(spec, rows).cast(pa.float64(), safe=False)
        values = closed_lists(in_order(values_of_groups(column, segments)), len(segments), pa.list_(pa.float64()))
        lengths = np.diff(values.offsets.to_numpy())
        some = np.flatnonzero(lengths)
        if not len(some):
            return [pa.nulls(len(segments), pa.float64())]
        products = multiplied(values.values, Segments(values.offsets.to_numpy()[some], len(values.values)))
        places = np.cumsum(lengths > 0) - 1
        return [products.take(pa.array(places, mask=lengths == 0))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [multiplied(given[0], segments)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return [pc.coalesce(pc.multiply(new[0], old[0]), new[0], old[0])]

    def reference(self, spec: "Aggregate") -> "Column":
        from pyspark.sql import functions as f

        return f.product(f.col(column_sql(spec)))


class CollectSet(Kind):
    """All distinct values, sorted; state grows with their number."""

    needs = ORDERED

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__{spec.kind}", pa.list_(spec.input_type)),)

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return pa.list_(spec.input_type)

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        return [different_values(input_of(spec, rows), segments, pa.list_(spec.input_type))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [different_elements(given[0], segments)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        elements = distinct(together(old[0], new[0]))
        return [closed_lists(elements, len(new[0]), pa.list_(spec.input_type))]

    def reference_sql(self, spec: "Aggregate") -> str:
        return f"array_sort(collect_set({column_sql(spec)}))"


class Distinct(CollectSet):
    """Counts, sums and averages over distinct values; exact."""

    over_tables = "distinct"
    normal_zeros = True

    def check(self, spec: "Aggregate") -> None:
        super().check(spec)
        if spec.kind != "count_distinct":
            PRODUCT.check(spec)

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        if spec.kind == "count_distinct":
            return pa.int64()
        return sum_type(spec.input_type) if spec.kind == "sum_distinct" else average_type(spec.input_type)

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        column = input_of(spec, rows)
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # −0.0 is the same as 0.0
        return [different_values(column, segments, pa.list_(spec.input_type))]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        rows, values = opened_lists(kept[0])
        length = len(kept[0])
        found = np.bincount(rows, minlength=length)
        if spec.kind == "count_distinct":
            return pa.array(found, pa.int64())
        return _sums(spec, pa.array(rows), values, length)

    def reference_sql(self, spec: "Aggregate") -> str:
        return f"{spec.kind.removesuffix('_distinct')}(distinct {column_sql(spec)})"


def different_values(column: pa.Array, segments: Segments, kind: pa.DataType) -> pa.Array:
    """Lists of the different values of each group that are not null, in ascending order."""
    return closed_lists(distinct(in_order(values_of_groups(column, segments))), len(segments), kind)


def different_elements(lists: pa.Array, segments: Segments) -> pa.Array:
    """Lists of the different elements of all lists of each group, in ascending order."""
    return closed_lists(distinct(in_order(lists_of_groups(lists, segments))), len(segments), lists.type)


def _sums(spec: "Aggregate", rows: pa.Array, values: pa.Array, length: int) -> pa.Array:
    """Sums, or averages, of the values of each row; exact where the type is."""
    averaged = spec.kind == "avg_distinct"
    kind = average_sum_type(spec.input_type) if averaged else sum_type(spec.input_type)
    table = pa.table({"row": rows, "value": values.cast(_wide(kind))}).group_by("row")
    added = table.aggregate([("value", "sum"), ("value", "count")]).combine_chunks()
    places = pc.index_in(pa.array(np.arange(length)), added["row"])
    try:
        totals, found = (_only(added[name]).take(places) for name in ("value_sum", "value_count"))
        totals = totals.cast(kind)
    except pa.ArrowInvalid:
        raise NumberOverflow(f'"{spec.name}"', f"its type {kind}") from None
    return average(totals, found, average_type(spec.input_type)) if averaged else totals


def _only(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _wide(kind: pa.DataType) -> pa.DataType:
    """Whole numbers are added where they cannot wrap."""
    if pa.types.is_integer(kind):
        return pa.decimal128(38, 0)
    return pa.decimal256(min(kind.precision + 20, 76), kind.scale) if pa.types.is_decimal(kind) else kind


PRODUCT = Product()
SETS: dict[str, Kind] = {"collect_set": CollectSet()}
PLAIN: dict[str, Kind] = {
    **dict.fromkeys(BITS, Bits()),
    "product": PRODUCT,
    **dict.fromkeys(("count_distinct", "sum_distinct", "avg_distinct"), Distinct()),
}
FUNCTIONS = {
    "collect_set": Function("collect_set", ANY, "collect_set"),
    **{name: Function(name, None, name) for name in ("bit_and", "bit_or")},
    **{name: Function(name) for name in ("bit_xor", "product")},
}
