"""Covariance, correlation and regression of two columns, over the rows in which both have a value.

Kept are n, both means, and the central sums of products Σ(x − x̄)(y − ȳ), Σ(x − x̄)², Σ(y − ȳ)².
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.kinds.kind import NUMBERS, Columns, Function, Kind, Partial, Tolerance
from headwater.flow.operators.aggregation.kinds.moments import (
    DOUBLE,
    NEAR,
    ROUNDING,
    Numbers,
    centred,
    counts,
    doubles,
    numbers,
    shape_error,
    united_means,
)
from headwater.flow.operators.aggregation.segments import Segments, totals
from headwater.flow.state.runs.equality import valid

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

KEPT = ("n", "x", "y", "xy", "xx", "yy")


class Pairs(Kind):
    """The regressions of SQL name the dependent column first: there the first is y."""

    needs = NUMBERS
    of_two = True

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        return tuple(Partial(f"{spec.name}__{name}", pa.int64() if name == "n" else DOUBLE) for name in KEPT)

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

    def reference_sql(self, spec: "Aggregate") -> str:
        return f"{spec.kind}({quoted(spec.column or '')}, {quoted(spec.other or '')})"

    def tolerance(self, spec: "Aggregate") -> Tolerance | None:
        if spec.kind in ("regr_count", "regr_avgx", "regr_avgy"):
            return None
        x, y = _x_and_y(spec)
        both = f"filter (where {x} is not null and {y} is not null)"
        sx, sy = f"(stddev_pop({x}) {both})", f"(stddev_pop({y}) {both})"
        nx, ny = (f"({ROUNDING} * (max(abs({side})) {both}))" for side in (x, y))
        product, n = f"2 * ({sx} * {ny} + {sy} * {nx} + {nx} * {ny})", f"(count(1) {both})"
        turn = f"({shape_error(sx, nx)} + {shape_error(sy, ny)})"
        slope = f"100 * ({ny} + {sy} * {nx} / {sx})"
        errors = {
            "covar_pop": product,
            "covar_samp": f"2 * {product}",
            "corr": turn,
            "regr_sxx": f"{n} * 2 * (2 * {sx} + {nx}) * {nx}",
            "regr_syy": f"{n} * 2 * (2 * {sy} + {ny}) * {ny}",
            "regr_sxy": f"{n} * {product}",
            "regr_slope": f"if({sx} > 1000 * {nx}, {slope} / {sx}, double('Infinity'))",
            "regr_intercept": f"if({sx} > 1000 * {nx}, {slope} * (max(abs({x})) {both}) / {sx} + {ny}, "
            "double('Infinity'))",
            "regr_r2": f"2 * {turn}",
        }
        return Tolerance(NEAR, errors[spec.kind])


def _x_and_y(spec: "Aggregate") -> tuple[str, str]:
    first, second = (f"cast({quoted(name or '')} as double)" for name in (spec.column, spec.other))
    return (second, first) if spec.kind.startswith("regr_") else (first, second)


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
FUNCTIONS = {name: Function(name) for name in PAIRS}
