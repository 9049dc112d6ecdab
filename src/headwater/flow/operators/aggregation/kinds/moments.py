"""Variance, standard deviation, skewness and kurtosis: from the number of values, their mean, and central moments.

Kept are n, the mean, and m2 = Σ(x − mean)², m3, m4 as far as they are asked for. Two such are merged after Chan, Golub
and LeVeque (m2) and Pébay (m3, m4), without the cancellation that sums of squares suffer.
"""

from itertools import accumulate, islice
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.flow.operators.aggregation.kinds.kind import (
    AS_DOUBLE,
    NUMBER,
    Columns,
    Function,
    Kind,
    Partial,
    Tolerance,
    column_sql,
    input_of,
)
from headwater.flow.operators.aggregation.segments import Segments, counted, totals

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

Numbers = npt.NDArray[np.float64]
DOUBLE = pa.float64()
NEAR = "near"
ROUNDING = 1e-13
"""Of the largest value: how far a mean may be off, some hundred times the error of one addition."""


def numbers(column: pa.Array) -> Numbers:
    """Null as 0, which is what a moment of nothing adds."""
    return np.asarray(column.cast(DOUBLE, safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), np.float64)


def doubles(values: Any, there: npt.NDArray[np.bool_]) -> pa.Array:
    """Null where there is nothing."""
    return pa.array(np.asarray(values, np.float64), DOUBLE, mask=~there)


def counts(values: Numbers) -> pa.Array:
    return pa.array(values.astype(np.int64), pa.int64())


class Moments(Kind):
    """`order` is that of the highest moment needed."""

    needs = NUMBER

    def __init__(self, order: int) -> None:
        self._order = order
        self.over_tables = "variances" if order == 2 else "recomputed"

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        names = ("mean", "m2", "m3", "m4")[: self._order]
        return (Partial(f"{spec.name}__n", pa.int64()), *(Partial(f"{spec.name}__{name}", DOUBLE) for name in names))

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return DOUBLE

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        column = input_of(spec, rows)
        there = column.is_valid().to_numpy(zero_copy_only=False)
        n = counted(column, segments).astype(np.float64)
        with np.errstate(all="ignore"):
            mean, apart = centred(numbers(column), there, n, segments)
            powers = accumulate([apart] * self._order, np.multiply)
            moments = [totals(power, segments) for power in islice(powers, 1, None)]
        return [counts(n), *(doubles(one, n > 0) for one in (mean, *moments))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        n, means, *moments = map(numbers, given)
        with np.errstate(all="ignore"):
            total, mean, apart = united_means(n, means, segments)
            found = [totals(_moved(n, apart, moments, order), segments) for order in range(2, self._order + 1)]
        return [counts(total), *(doubles(one, total > 0) for one in (mean, *found))]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        with np.errstate(all="ignore"):
            n, *moments = merged(*(list(map(numbers, side)) for side in (old, new)))
        return [counts(n), *(doubles(one, n > 0) for one in moments)]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        n, _, *moments = map(numbers, kept)
        with np.errstate(all="ignore"):
            return _FINISH[spec.kind](n, *moments)

    def tolerance(self, spec: "Aggregate") -> Tolerance:
        x = column_sql(spec)
        spread, noise = f"stddev_pop({x})", f"({ROUNDING} * max(abs(cast({x} as double))))"
        if spec.kind in ("skewness", "kurtosis"):
            return Tolerance(NEAR, shape_error(spread, noise))
        error = noise if spec.kind.startswith("stddev") else f"(2 * {spread} + {noise}) * {noise}"
        return Tolerance(NEAR, f"2 * ({error})")


def shape_error(spread: str, noise: str) -> str:
    """Of what is divided by the spread: values that differ by rounding alone have no shape."""
    return f"if({spread} > 1000 * {noise}, 100 * {noise} / {spread}, double('Infinity'))"


def centred(values: Numbers, there: Any, n: Numbers, segments: Segments) -> tuple[Numbers, Numbers]:
    """The mean of each group, and how far each value is from that of its group: 0 where there is no value."""
    mean = totals(values, segments) / np.maximum(n, 1)
    return mean, np.where(there, values - np.repeat(mean, segments.lengths), 0.0)


def united_means(n: Numbers, means: Numbers, segments: Segments) -> tuple[Numbers, Numbers, Numbers]:
    """Of rows with counts and means, for each group: the count and the mean; and how far each row is from that mean."""
    total = totals(n, segments)
    # Means are added by what they differ from one of them, which loses nothing where they are large and alike.
    some = n > 0
    places = np.minimum.reduceat(np.where(some, np.arange(len(n)), len(n) - 1), segments.begins)
    near = np.where(np.isfinite(means[places]), means[places], 0.0)
    differences = np.where(some, n * (means - np.repeat(near, segments.lengths)), 0.0)
    mean = near + totals(differences, segments) / np.maximum(total, 1)
    return total, mean, np.where(some, means - np.repeat(mean, segments.lengths), 0.0)


def _moved(n: Numbers, apart: Numbers, moments: list[Numbers], order: int) -> Numbers:
    """A moment about the mean of a group, of rows that have theirs about their own mean, so far apart from it."""
    found = n * apart**order
    for power, moment in enumerate(moments[: order - 1], start=2):
        found = found + comb(order, power) * apart ** (order - power) * moment
    return found


def merged(one: list[Numbers], other: list[Numbers]) -> list[Numbers]:
    """Counts, means and moments of both together."""
    (na, mean_a), (nb, mean_b) = one[:2], other[:2]
    n = na + nb
    whole = np.maximum(n, 1)
    # The mean of nothing is no value that another could differ from.
    delta = np.where((na > 0) & (nb > 0), mean_b - mean_a, 0.0)
    mean = np.where(na == 0, mean_b, mean_a + delta * nb / whole)
    result = [n, mean]
    if len(one) > 2:
        result.append(one[2] + other[2] + delta**2 * na * nb / whole)
    if len(one) > 3:
        third = one[3] + other[3] + delta**3 * na * nb * (na - nb) / whole**2
        result.append(third + 3 * delta * (na * other[2] - nb * one[2]) / whole)
    if len(one) > 4:
        fourth = one[4] + other[4] + delta**4 * na * nb * (na**2 - na * nb + nb**2) / whole**3
        fourth += 6 * delta**2 * (na**2 * other[2] + nb**2 * one[2]) / whole**2
        result.append(fourth + 4 * delta * (na * other[3] - nb * one[3]) / whole)
    return result


def _variance(n: Numbers, m2: Numbers, *, less: int) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    return m2 / np.maximum(n - less, 1), n > less


_FINISH: dict[str, Any] = {
    "var_pop": lambda n, m2: doubles(*_variance(n, m2, less=0)),
    "var_samp": lambda n, m2: doubles(*_variance(n, m2, less=1)),
    "stddev_pop": lambda n, m2: doubles(np.sqrt(m2 / np.maximum(n, 1)), n > 0),
    "stddev_samp": lambda n, m2: doubles(np.sqrt(m2 / np.maximum(n - 1, 1)), n > 1),
    "skewness": lambda n, m2, m3: doubles(np.sqrt(n) * m3 / np.sqrt(m2**3), (n > 0) & (m2 != 0)),
    "kurtosis": lambda n, m2, m3, m4: doubles(n * m4 / m2**2 - 3, (n > 0) & (m2 != 0)),
}

MOMENTS: dict[str, Kind] = {
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), Moments(2)),
    "skewness": Moments(3),
    "kurtosis": Moments(4),
}
FUNCTIONS = {
    **{name: Function(name, AS_DOUBLE) for name in ("var_pop", "var_samp", "stddev_pop", "stddev_samp")},
    "variance": Function("var_samp", AS_DOUBLE),
    "stddev": Function("stddev_samp", AS_DOUBLE),
    "std": Function("stddev_samp"),
    "skewness": Function("skewness"),
    "kurtosis": Function("kurtosis"),
}
