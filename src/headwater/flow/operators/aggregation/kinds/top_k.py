"""hw.top_k: the most frequent values, by Misra and Gries."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.flow.operators.aggregation.kinds.kind import Columns, Kind, Options, Tolerance, column_sql
from headwater.flow.operators.aggregation.kinds.sketched import BYTES, Sketched, both, counted, each
from headwater.flow.operators.sketches import frequent

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

NO_NULLS = bytes(8)
"""Spark counts nulls too, in eight bytes after its sketch of frequent values."""


@dataclass(frozen=True)
class Frequent(Options):
    most: int
    """How many are in the result."""
    lg: int
    tracked: int
    sketch: bool = False


class TopK(Sketched):
    """Spark's own sketch depends on the order in which rows reach it, which is another when a batch comes again."""

    form = "comparable_or_double"

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        assert isinstance(spec.options, Frequent)
        lg = spec.options.lg
        return [counted(given[0], lambda one, count: frequent.to_bytes(frequent.of_counts(one, count, lg)))]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        kind = spec.input_type

        def unite(one: bytes, other: bytes) -> bytes:
            return frequent.to_bytes(frequent.merged(*(frequent.from_bytes(each, kind) for each in (one, other))))

        return [both(new[0], old[0], unite)]

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        assert isinstance(spec.options, Frequent)
        kind = spec.input_type
        if not spec.options.sketch:
            return pa.list_(pa.struct({"item": kind, "count": pa.int64()}))
        # What Spark's approx_top_k_estimate wants to be given.
        fields = {"sketch": BYTES, "maxItemsTracked": pa.int32(), "itemDataType": kind, "itemDataTypeDDL": pa.string()}
        return pa.struct(fields)

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        assert isinstance(spec.options, Frequent)
        options, kind, type_ = spec.options, spec.input_type, self.result_type(spec)
        if options.sketch:
            named = {pa.int64(): "bigint", pa.float64(): "double"}.get(kind, "string")
            beside = {"maxItemsTracked": options.tracked, "itemDataTypeDDL": f"item {named} not null"}
            return each(kept[0], lambda data: {"sketch": data + NO_NULLS, **beside}, type_)

        def found(data: bytes) -> list[dict[str, Any]]:
            values, counts = frequent.top(frequent.from_bytes(data, kind), options.most)
            pairs = zip(values.to_pylist(), counts.tolist(), strict=True)
            return [{"item": item, "count": count} for item, count in pairs]

        return each(kept[0], found, type_, nothing=[])

    def reference_sql(self, spec: "Aggregate") -> str:
        assert isinstance(spec.options, Frequent)
        x, options = column_sql(spec), spec.options
        there = f"filter (where {x} is not null)"
        if options.sketch:
            return f"if(count({x}) > 0, approx_top_k_accumulate({x}, {options.tracked}) {there}, null)"
        return f"approx_top_k({x}, {options.most}, 1000000) {there}"

    def tolerance(self, spec: "Aggregate") -> Tolerance:
        """Exact counts of the most frequent values. As many different values as fit are counted exactly."""
        assert isinstance(spec.options, Frequent)
        x, options = column_sql(spec), spec.options
        most = min(2 * options.most + 10, 1_000_000)
        exact = f"(approx_top_k({x}, {most}, 1000000) filter (where {x} is not null))"
        error = (
            f"if(size(collect_set({x})) <= {options.tracked}, 0, cast(2.7 * count({x}) / {1 << options.lg} as bigint))"
        )
        accepted = f"named_struct('exact', {exact}, 'error', {error}, 'most', {options.most})"
        return Tolerance(f"frequent_sketch {options.most}" if options.sketch else "frequent", accepted)


TOP_K: dict[str, Kind] = {"top_k": TopK()}
REPLACED = {
    **dict.fromkeys(("mode", "approx_top_k"), "hw.top_k(...)"),
    "approx_top_k_accumulate": "hw.top_k(..., sketch=True)",
}
