"""Covariance, correlation and regression of two columns, over the rows in which both have a value.

Kept are n, both means, and the central sums of products Σ(x − x̄)(y − ȳ), Σ(x − x̄)², Σ(y − ȳ)².
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.segments import Segments, totals
from headwater.flow.operators.kinds.kind import Columns, Kind, Partial, is_number, quoted, refuse_unless
from headwater.flow.operators.kinds.moments import (
    DOUBLE,
    Numbers,
    centred,
    counts,
    doubles,
    numbers,
    united_means,
)
from headwater.flow.state.runs.equality import valid

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

KEPT = ("n", "x", "y", "xy", "xx", "yy")


class Pairs(Kind):
    """The regressions of SQL name the dependent column first: there the first is y."""

    def check(self, spec: "Aggregate") -> None:
        refuse_unless(is_number(spec.input_type), spec, "Use two columns of numbers.")

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        first, second = f"cast({quoted(spec.column or '')} as double)", f"cast({quoted(spec.other or '')} as double)"
        x, y = (second, first) if spec.kind.startswith("regr_") else (first, second)
        both = f"filter (where {x} is not null and {y} is not null)"
        n = f"count(1) {both}"
        sql = [
            n, f"avg({x}) {both}", f"avg({y}) {both}", f"covar_pop({x}, {y}) * {n}", f"(var_pop({x}) {both}) * {n}",
            f"(var_pop({y}) {both}) * {n}",
        ]  # fmt: skip
        types = [pa.int64(), *[DOUBLE] * 5]
        return tuple(
            Partial(f"{spec.name}__{name}", kind, one) for name, kind, one in zip(KEPT, types, sql, strict=True)
        )

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return pa.int64() if spec.kind == "regr_count" else DOUBLE

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        names = (spec.other, spec.column) if spec.kind.startswith("regr_") else (spec.column, spec.other)
        columns = [rows.column(name) for name in names]
        there = valid(columns[0]) & valid(columns[1])
        n = totals(there.astype(np.float64), segments)
        sides = [np.where(there, numbers(column), 0.0) for column in columns]
        with np.errstate(all="ignore"):
            (x, from_x), (y, from_y) = (centred(side, there, n, segments) for side in sides)
            sums = [totals(one * other, segments) for one, other in _products(from_x, from_y)]
        return [counts(n), *(doubles(one, n > 0) for one in (x, y, *sums))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        n, x, y, *sums = map(numbers, given)
        with np.errstate(all="ignore"):
            (total, x_mean, from_x), (_, y_mean, from_y) = (united_means(n, mean, segments) for mean in (x, y))
            products = zip(sums, _products(from_x, from_y), strict=True)
            moved = [totals(own + n * one * other, segments) for own, (one, other) in products]
        return [counts(total), *(doubles(one, total > 0) for one in (x_mean, y_mean, *moved))]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        with np.errstate(all="ignore"):
            n, *rest = _merged(*(list(map(numbers, side)) for side in (old, new)))
        return [counts(n), *(doubles(one, n > 0) for one in rest)]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        with np.errstate(all="ignore"):
            return _FINISH[spec.kind](*map(numbers, kept))


def _products(x: Numbers, y: Numbers) -> list[tuple[Numbers, Numbers]]:
    """The factors of each of the sums that are kept."""
    return [(x, y), (x, x), (y, y)]


def _merged(one: list[Numbers], other: list[Numbers]) -> list[Numbers]:
    na, nb = one[0], other[0]
    n, whole, both = na + nb, np.maximum(na + nb, 1), (na > 0) & (nb > 0)
    dx, dy = (np.where(both, other[place] - one[place], 0.0) for place in (1, 2))
    means = [np.where(na == 0, other[place], one[place] + d * nb / whole) for place, d in ((1, dx), (2, dy))]
    products = [dx * dy, dx * dx, dy * dy]
    sums = [one[3 + i] + other[3 + i] + product * na * nb / whole for i, product in enumerate(products)]
    return [n, *means, *sums]


def _slope(xy: Numbers, xx: Numbers) -> Numbers:
    return np.asarray(xy / xx)


_FINISH: dict[str, Any] = {
    "covar_pop": lambda n, x, y, xy, xx, yy: doubles(xy / np.maximum(n, 1), n > 0),
    "covar_samp": lambda n, x, y, xy, xx, yy: doubles(xy / np.maximum(n - 1, 1), n > 1),
    "corr": lambda n, x, y, xy, xx, yy: doubles(xy / np.sqrt(xx * yy), (n > 1) & (xx * yy != 0)),
    "regr_count": lambda n, x, y, xy, xx, yy: counts(n),
    "regr_avgx": lambda n, x, y, xy, xx, yy: doubles(x, n > 0),
    "regr_avgy": lambda n, x, y, xy, xx, yy: doubles(y, n > 0),
    "regr_sxx": lambda n, x, y, xy, xx, yy: doubles(xx, n > 0),
    "regr_syy": lambda n, x, y, xy, xx, yy: doubles(yy, n > 0),
    "regr_sxy": lambda n, x, y, xy, xx, yy: doubles(xy, n > 0),
    "regr_slope": lambda n, x, y, xy, xx, yy: doubles(_slope(xy, xx), (n > 1) & (xx != 0)),
    "regr_intercept": lambda n, x, y, xy, xx, yy: doubles(y - _slope(xy, xx) * x, (n > 1) & (xx != 0)),
    "regr_r2": lambda n, x, y, xy, xx, yy: doubles(
        np.where(yy == 0, 1.0, xy**2 / (xx * yy)), (n > 1) & (xx != 0)
    ),
}  # fmt: skip

PAIRS: dict[str, Kind] = dict.fromkeys(_FINISH, Pairs())
