"""The kinds of aggregates by name, and the functions of Spark that they are written with.

A new kind is a class in a module here, which is listed below; kind.py says what it has to be. Nulls are skipped by all
but count(*), first and last, as in Spark SQL.
"""

from collections.abc import Mapping

from headwater.flow.operators.aggregation.kinds import (
    approx_distinct,
    exact_percentiles,
    hashed,
    moments,
    ordered,
    pairs,
    percentiles,
    plain,
    sums,
    top_k,
    users,
)
from headwater.flow.operators.aggregation.kinds.kind import Function, Kind

KINDS: dict[str, Kind] = {
    **sums.SUMS,
    **ordered.BY_ORDER,
    **plain.SETS,
    **plain.PLAIN,
    **moments.MOMENTS,
    **pairs.PAIRS,
    **approx_distinct.APPROX_DISTINCT,
    **percentiles.PERCENTILES,
    **exact_percentiles.EXACT_PERCENTILES,
    **top_k.TOP_K,
    **hashed.HASHED,
    **users.USERS,
}
FUNCTIONS: dict[str, Function] = {
    **sums.FUNCTIONS,
    **ordered.FUNCTIONS,
    **plain.FUNCTIONS,
    **moments.FUNCTIONS,
    **pairs.FUNCTIONS,
}
REPLACED: Mapping[str, str] = {
    **approx_distinct.REPLACED,
    **percentiles.REPLACED,
    **top_k.REPLACED,
    **hashed.REPLACED,
}
"""Functions of Spark whose state does not merge, or not alike in every run, and what users take instead."""
