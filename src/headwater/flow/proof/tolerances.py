"""Results of aggregates as a plain query finds them, and how near those of a view have to be.

Most results have to be the same. Of those that cannot be, the query has beside its own result, in a hidden column,
what is accepted; the result's column carries the name of the rule, as long as no step computes another of it.

    rule         the query says                     accepted is
    near         how much rounding may make         a number no further off
    between      exact values a little below and    what lies between: within 3 times the error of rank that holds
                 above the rank                     in 99 of 100 cases, so that chance alone never fails
    frequent     exact counts of the most           counts within the error that is promised, and all values that
                 frequent, and all rows             are more frequent than the last one listed by more than it
    registers    a sketch of its own                a sketch that estimates the same

A distinct count, a Bloom filter and a count-min sketch do not depend on order, and have to be the same.
"""

from collections.abc import Callable, Mapping
from functools import partial
from zlib import crc32

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.kind import Tolerance
from headwater.flow.operators.aggregation.kinds.percentiles import SKETCH_RANKS

RULE, BOUNDS = "headwater.rule", "headwater.bounds"
RELATIVE_ERROR = 1e-9
"""Sums of floating-point numbers depend on the order of additions."""


def reference_columns(spec: Aggregate, result: Column | None = None, accepted: Tolerance | None = None) -> list[Column]:
    """The result under its name and, where another is accepted as well, beside it what that may be."""
    own, tolerance = spec.rules.reference(spec) if result is None else result, accepted or spec.rules.tolerance(spec)
    if tolerance is None:
        return [own.alias(spec.name)]
    beside = f"_bounds_{crc32(spec.name.encode()):08x}"
    named = own.alias(spec.name, metadata={RULE: tolerance.rule, BOUNDS: beside})
    return [named, f.expr(tolerance.accepted).alias(beside)]


def bounds_among(schema: StructType) -> list[str]:
    """The hidden columns that the others' rules want."""
    return [field.metadata[BOUNDS] for field in schema if BOUNDS in field.metadata]


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

    def listed(one: Column) -> Column:
        true = f.element_at(counts, one["item"])
        high = f.coalesce(true, unlisted) + error
        return (one["count"] <= high) & (one["count"] >= f.coalesce(true, f.lit(0)))

    last = f.when(f.size(view) < accepted["most"], f.lit(0)).otherwise(f.element_at(view, -1)["count"])
    items = f.transform(view, lambda one: one["item"])

    def missed(one: Column) -> Column:
        return (one["count"] > last + error) & ~f.array_contains(items, one["item"])

    fits = f.forall(view, listed) & ~f.exists(exact, missed) & (f.size(view) <= accepted["most"])
    return f.coalesce(fits, f.lit(False))


def frequent_sketch(log: Column, view: Column, accepted: Column, *, most: int) -> Column:
    listed = f.when(view.isNotNull(), f.call_function("approx_top_k_estimate", view, f.lit(most)))
    return (log.isNull() & view.isNull()) | f.coalesce(frequent(log, listed, accepted), f.lit(False))


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
