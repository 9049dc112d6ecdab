"""Results that a plain query finds otherwise than they are kept, and how near the two have to be.

Most results have to be the same. Of those that cannot be, the judge says beside its own result, in a hidden column,
what it accepts; the result's column carries the name of the rule, as long as no step computes another of it.

    rule         the judge says                     accepted is
    near         how much rounding may make         a number no further off
    between      exact values a little below and    what lies between: within 3 times the error of rank that holds
                 above the rank                     in 99 of 100 cases, so that chance alone never fails
    frequent     exact counts of the most           counts within the error that is promised, and all values that
                 frequent, and all rows             are more frequent than the last one told by more than it
    registers    a sketch of its own                a sketch that estimates the same

A distinct count, a Bloom filter and a count-min sketch do not depend on order, and have to be the same.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.kinds.moments import MOMENTS
from headwater.flow.operators.kinds.options import Frequent, Hll, Kll
from headwater.flow.operators.kinds.pairs import PAIRS
from headwater.flow.operators.sketches.kll import rank_error
from headwater.flow.rows.row_steps import quoted

RULE, BOUNDS = "headwater.rule", "headwater.bounds"
RELATIVE_ERROR = 1e-9
"""Sums of floating-point numbers depend on the order of additions."""
ROUNDING = 1e-13
"""Of the largest value: how far a mean may be off, some hundred times the error of one addition."""
RANK_ERRORS = 3
SKETCH_RANKS = (0.05, 0.5, 0.95)


class Bounds(NamedTuple):
    rule: str
    accepted: Column


def bounds_of(spec: Aggregate) -> Bounds | None:
    """What is accepted beside the very same; None: nothing is."""
    x = quoted(spec.column or "")
    if spec.kind in MOMENTS:
        return Bounds("near", f.expr(_moment_error(spec.kind, x)))
    if spec.kind in PAIRS and spec.kind not in ("regr_count", "regr_avgx", "regr_avgy"):
        return Bounds("near", f.expr(_pair_error(spec.kind, x, quoted(spec.other or ""))))
    if isinstance(spec.options, Hll) and spec.options.sketch:
        return Bounds("registers", f.lit(True))
    if isinstance(spec.options, Kll):
        return _ranks(spec.options, x)
    if isinstance(spec.options, Frequent):
        return _counts(spec.options, x)
    return None


def bounds_among(schema: StructType) -> list[str]:
    """The hidden columns that the others' rules want."""
    return [field.metadata[BOUNDS] for field in schema if BOUNDS in field.metadata]


# -- rounding ----------------------------------------------------------------------------------------------------------


def _moment_error(kind: str, x: str) -> str:
    spread, noise = f"stddev_pop({x})", f"({ROUNDING} * max(abs(cast({x} as double))))"
    if kind in ("skewness", "kurtosis"):
        return _shape_error(spread, noise)
    error = noise if kind.startswith("stddev") else f"(2 * {spread} + {noise}) * {noise}"
    return f"2 * ({error})"


def _shape_error(spread: str, noise: str) -> str:
    """Of what is divided by the spread: values that differ by rounding alone have no shape."""
    return f"if({spread} > 1000 * {noise}, 100 * {noise} / {spread}, double('Infinity'))"


def _pair_error(kind: str, one: str, other: str) -> str:
    first, second = f"cast({one} as double)", f"cast({other} as double)"
    x, y = (second, first) if kind.startswith("regr_") else (first, second)
    both = f"filter (where {x} is not null and {y} is not null)"
    sx, sy = f"(stddev_pop({x}) {both})", f"(stddev_pop({y}) {both})"
    nx, ny = (f"({ROUNDING} * (max(abs({side})) {both}))" for side in (x, y))
    product, n = f"2 * ({sx} * {ny} + {sy} * {nx} + {nx} * {ny})", f"(count(1) {both})"
    turn = f"({_shape_error(sx, nx)} + {_shape_error(sy, ny)})"
    errors = {
        "covar_pop": product,
        "covar_samp": f"2 * {product}",
        "corr": turn,
        "regr_sxx": f"{n} * 2 * (2 * {sx} + {nx}) * {nx}",
        "regr_syy": f"{n} * 2 * (2 * {sy} + {ny}) * {ny}",
        "regr_sxy": f"{n} * {product}",
        "regr_slope": f"if({sx} > 1000 * {nx}, 100 * ({ny} + {sy} * {nx} / {sx}) / {sx}, double('Infinity'))",
        "regr_intercept": f"if({sx} > 1000 * {nx}, 100 * ({ny} + {sy} * {nx} / {sx}) * (max(abs({x})) {both}) / {sx}"
        f" + {ny}, double('Infinity'))",
        "regr_r2": f"2 * {turn}",
    }
    return errors[kind]


# -- sketches ----------------------------------------------------------------------------------------------------------


def _ranks(options: Kll, x: str) -> Bounds:
    error = RANK_ERRORS * rank_error(options.k)
    edges = [
        f"named_struct('low', element_at(_v, cast(greatest(1, floor(({rank} - {error}) * size(_v))) as int)), "
        f"'high', element_at(_v, cast(least(size(_v), ceil(({rank} + {error}) * size(_v)) + 1) as int)))"
        for rank in (options.ranks or SKETCH_RANKS)
    ]
    values = f"array_sort(collect_list({x}))"
    accepted = f"transform(array({values}), _v -> if(size(_v) > 0, array({', '.join(edges)}), null))[0]"
    rule = "ranks_of_sketch" if options.sketch else "between" if options.several else "alone_between"
    return Bounds(rule, f.expr(accepted))


def _counts(options: Frequent, x: str) -> Bounds:
    most = min(2 * options.most + 10, 1_000_000)
    exact = f"(approx_top_k({x}, {most}, 1000000) filter (where {x} is not null))"
    size = f"size(collect_set({x}))"
    # As many different values as fit are counted exactly.
    error = f"if({size} <= {options.tracked}, 0, cast(2.7 * count({x}) / {1 << options.lg} as bigint))"
    accepted = f"named_struct('exact', {exact}, 'error', {error}, 'most', {options.most})"
    return Bounds(f"frequent_sketch {options.most}" if options.sketch else "frequent", f.expr(accepted))


# -- rules -------------------------------------------------------------------------------------------------------------


def near(log: Column, view: Column, accepted: Column) -> Column:
    infinite = accepted == float("inf")
    close = f.abs(log - view) <= accepted + RELATIVE_ERROR * f.greatest(f.abs(log), f.abs(view))
    return log.eqNullSafe(view) | f.coalesce(close, f.lit(False)) | f.coalesce(infinite, f.lit(False))


def between(log: Column, view: Column, accepted: Column) -> Column:
    """The view has one value for each rank, or one alone."""
    pairs = f.zip_with(accepted, view, lambda edge, value: (value >= edge["low"]) & (value <= edge["high"]))
    within = f.forall(pairs, lambda one: f.coalesce(one, f.lit(False)))
    nothing = log.isNull() & view.isNull()
    return nothing | (view.isNotNull() & f.coalesce(within, f.lit(False)))


def alone_between(log: Column, view: Column, accepted: Column) -> Column:
    return between(f.when(log.isNotNull(), f.array(log)), f.when(view.isNotNull(), f.array(view)), accepted)


def ranks_of_sketch(log: Column, view: Column, accepted: Column) -> Column:
    values = f.array(*(f.kll_sketch_get_quantile_double(view, f.lit(rank)) for rank in SKETCH_RANKS))
    mine = f.when(view.isNotNull(), values)
    as_many = f.kll_sketch_get_n_double(log).eqNullSafe(f.kll_sketch_get_n_double(view))
    return between(f.when(log.isNotNull(), values), mine, accepted) & as_many


def frequent(log: Column, view: Column, accepted: Column) -> Column:
    exact, error = accepted["exact"], accepted["error"]
    counts = f.map_from_entries(exact)
    least = f.coalesce(f.element_at(exact, -1)["count"], f.lit(0))
    unlisted = f.when(f.size(exact) < 2 * accepted["most"], f.lit(0)).otherwise(least)

    def told(one: Column) -> Column:
        true = f.element_at(counts, one["item"])
        high = f.coalesce(true, unlisted) + error
        return (one["count"] <= high) & (one["count"] >= f.coalesce(true, f.lit(0)))

    last = f.when(f.size(view) < accepted["most"], f.lit(0)).otherwise(f.element_at(view, -1)["count"])
    items = f.transform(view, lambda one: one["item"])

    def missed(one: Column) -> Column:
        return (one["count"] > last + error) & ~f.array_contains(items, one["item"])

    fits = f.forall(view, told) & ~f.exists(exact, missed) & (f.size(view) <= accepted["most"])
    return f.coalesce(fits, f.lit(False))


def frequent_sketch(log: Column, view: Column, accepted: Column, *, most: int) -> Column:
    told = f.when(view.isNotNull(), f.call_function("approx_top_k_estimate", view, f.lit(most)))
    return (log.isNull() & view.isNull()) | f.coalesce(frequent(log, told, accepted), f.lit(False))


def same_registers(log: Column, view: Column, accepted: Column) -> Column:
    estimates = [f.hll_sketch_estimate(f.hll_union(one, one)) for one in (log, view)]
    return estimates[0].eqNullSafe(estimates[1])


Rule = Callable[[Column, Column, Column], Column]
"""Of what the log says, what the view holds, and what is accepted: is it the same?"""
RULES: Mapping[str, Rule] = {
    "near": near,
    "between": between,
    "alone_between": alone_between,
    "ranks_of_sketch": ranks_of_sketch,
    "frequent": frequent,
    "registers": same_registers,
}


def rule_of(name: str) -> Rule:
    """By its name; Spark wants to know beforehand how many frequent values it is to read from a sketch."""
    known, _, most = name.partition(" ")
    return partial(frequent_sketch, most=int(most)) if most else RULES[known]
