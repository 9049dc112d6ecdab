"""The kinds of aggregates in plain Python: what Spark makes of a batch, and what comes of all rows at once."""

import math
import statistics
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_, xor
from typing import Any

BITS = {"bit_and": and_, "bit_or": or_, "bit_xor": xor}
Pair = tuple[Any, Any]


def partial(kind: str, pairs: Sequence[Pair]) -> list[Any]:
    """The partial columns of some rows, each with x and y."""
    values = [x for x, _ in pairs if x is not None]
    if kind in BITS:
        return [reduce(BITS[kind], values) if values else None]
    if kind == "product":
        return [math.prod(values) if values else None]
    if kind.endswith("_distinct"):
        return [sorted(set(values))]
    if kind in ("skewness", "kurtosis") or kind.startswith(("var_", "stddev_")):
        order = {"skewness": 3, "kurtosis": 4}.get(kind, 2)
        mean = statistics.fmean(values) if values else None
        sums = [sum((x - mean) ** power for x in values) for power in range(2, order + 1)]
        return [len(values), mean, *(sums if values else [None] * len(sums))]
    both = [(x, y) for x, y in pairs if x is not None and y is not None]
    if kind.startswith("regr_"):
        both = [(y, x) for x, y in both]
    if not both:
        return [0, None, None, None, None, None]
    x_mean, y_mean = (statistics.fmean(side) for side in zip(*both, strict=True))
    products = [(lambda x, y: x * y), (lambda x, y: x * x), (lambda x, y: y * y)]
    return [len(both), x_mean, y_mean, *(sum(one(x - x_mean, y - y_mean) for x, y in both) for one in products)]


def result(kind: str, pairs: Sequence[Pair]) -> Any:
    """By the definitions, over all rows; None where Spark says null."""
    kept = partial(kind, pairs)
    if kind in BITS or kind == "product":
        return kept[0]
    if kind.endswith("_distinct"):
        values = kept[0]
        if kind == "count_distinct":
            return len(values)
        return None if not values else sum(values) if kind == "sum_distinct" else sum(values) / len(values)
    n = kept[0]
    if kind == "regr_count":
        return n
    least = 2 if kind.endswith("_samp") or kind in ("corr", "regr_slope", "regr_intercept", "regr_r2") else 1
    return None if n < least else _of_moments(kind, kept) if len(kept) < 6 else _of_pairs(kind, kept)


def _of_moments(kind: str, kept: list[Any]) -> Any:
    n, _, m2, *more = kept
    divisor = n - 1 if kind.endswith("_samp") else n
    if kind.startswith("var_"):
        return m2 / divisor
    if kind.startswith("stddev_"):
        return math.sqrt(m2 / divisor)
    if m2 == 0:
        return None
    return math.sqrt(n) * more[0] / m2**1.5 if kind == "skewness" else n * more[1] / m2**2 - 3


def _of_pairs(kind: str, kept: list[Any]) -> Any:
    n, x, y, xy, xx, yy = kept
    match kind:
        case "covar_pop":
            return xy / n
        case "covar_samp":
            return xy / (n - 1)
        case "corr":
            return xy / math.sqrt(xx * yy) if xx * yy else None
        case "regr_avgx" | "regr_avgy":
            return x if kind == "regr_avgx" else y
        case "regr_sxx" | "regr_syy" | "regr_sxy":
            return {"regr_sxx": xx, "regr_syy": yy, "regr_sxy": xy}[kind]
    if xx == 0:
        return None
    if kind == "regr_r2":
        return xy**2 / (xx * yy) if yy else 1.0
    return xy / xx if kind == "regr_slope" else y - xy / xx * x
