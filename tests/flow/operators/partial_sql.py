"""The oracle of partial aggregation, in Spark SQL: what each partial column of a group should be."""

import pyarrow as pa

from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.aggregates import Aggregate, partials
from headwater.flow.operators.aggregation.kinds.approx_distinct import Hll
from headwater.flow.operators.aggregation.kinds.kind import column_sql
from headwater.flow.operators.aggregation.kinds.moments import MOMENTS
from headwater.flow.operators.aggregation.kinds.ordered import Limit, ordered_list_sql
from headwater.flow.operators.aggregation.kinds.pairs import PAIRS


def sql_of(spec: Aggregate) -> dict[str, str]:
    """By the name of the partial column."""
    return dict(zip((part.name for part in partials(spec)), _sql(spec), strict=True))


def _sql(spec: Aggregate) -> list[str]:
    x = column_sql(spec)
    if spec.kind in MOMENTS:
        return _moments(f"cast({x} as double)")[: len(partials(spec))]
    if spec.kind in PAIRS:
        return _pairs(spec)
    match spec.kind:
        case "avg":
            wide = f"cast({x} as decimal(28,0))" if pa.types.is_int64(spec.input_type) else x
            return [f"sum({wide})", f"count({x})"]
        case "product":  # Spark has a product for columns only, and none in SQL.
            x = f"cast({x} as double)"
            product = f"aggregate(array_sort(collect_list({x})), 1d, (one, other) -> one * other)"
            return [f"if(count({x}) > 0, {product}, null)"]
        case "count_distinct" | "sum_distinct" | "avg_distinct":
            return [f"array_sort(collect_set({x}))"]
        case "collect" | "user":
            values = ordered_list_sql(spec)
            return [f"slice({values}, 1, {spec.options.limit})" if isinstance(spec.options, Limit) else values]
        case "distinct":
            assert isinstance(spec.options, Hll)
            return [f"if(count({x}) > 0, hll_sketch_agg({x}, {spec.options.lg_k}), null)"]
        case "percentile" | "exact_percentile":
            return [f"array_sort(collect_list({x}))"]
        case "top_k" | "count_min":
            return [f"collect_list({x})"]
        case "bloom":
            return [f"collect_set({x})"]
    return [spec.rules.reference_sql(spec)]


def _moments(x: str) -> list[str]:
    m2 = f"var_pop({x}) * count({x})"
    # Spark says null where all values are the same: such moments are 0.
    return [
        f"count({x})", f"avg({x})", m2,
        f"coalesce(skewness({x}), 0) * pow({m2}, 1.5) / sqrt(nullif(count({x}), 0))",
        f"coalesce((kurtosis({x}) + 3) * ({m2}) * ({m2}), 0) / nullif(count({x}), 0)",
    ]  # fmt: skip


def _pairs(spec: Aggregate) -> list[str]:
    first, second = (f"cast({quoted(name or '')} as double)" for name in (spec.column, spec.other))
    x, y = (second, first) if spec.kind.startswith("regr_") else (first, second)
    both = f"filter (where {x} is not null and {y} is not null)"
    n = f"count(1) {both}"
    return [
        n, f"avg({x}) {both}", f"avg({y}) {both}", f"covar_pop({x}, {y}) * {n}", f"(var_pop({x}) {both}) * {n}",
        f"(var_pop({y}) {both}) * {n}",
    ]  # fmt: skip
