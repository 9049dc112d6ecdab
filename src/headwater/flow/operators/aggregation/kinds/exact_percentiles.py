"""hw.percentile(..., exact=True): values by their rank, of all values, which are kept."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.kinds.kind import Columns, Kind, Options, Partial, column_sql, input_of
from headwater.flow.operators.aggregation.lists import (
    closed_lists,
    in_order,
    lists_of_groups,
    opened_lists,
    together,
    values_of_groups,
)
from headwater.flow.operators.aggregation.segments import Segments

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

LIST = pa.list_(pa.float64())


@dataclass(frozen=True)
class Exact(Options):
    ranks: tuple[float, ...]
    several: bool = False
    """Is the result a list?"""
    discrete: bool = False
    """One of the values, as percentile_disc has it; otherwise between the two that are next to the rank."""


class ExactPercentiles(Kind):
    """State is all values of a group, in order. Results are those of Spark's percentile and percentile_disc."""

    form = "number"

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__{spec.kind}", LIST),)

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        assert isinstance(spec.options, Exact)
        return LIST if spec.options.several else pa.float64()

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        return [closed_lists(in_order(values_of_groups(input_of(spec, rows), segments)), len(segments), LIST)]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        return [closed_lists(in_order(lists_of_groups(given[0], segments)), len(segments), LIST)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return [closed_lists(together(old[0], new[0]), len(new[0]), LIST)]

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        assert isinstance(spec.options, Exact)
        rows, values = opened_lists(kept[0])
        counts = np.bincount(rows, minlength=len(kept[0]))
        some = np.flatnonzero(counts)
        begins = (np.cumsum(counts) - counts)[some]
        of = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
        found = np.empty((len(some), len(spec.options.ranks)))
        for number, rank in enumerate(spec.options.ranks):
            found[:, number] = _ranked(of, begins, counts[some], rank, discrete=spec.options.discrete)
        places = np.cumsum(counts > 0) - 1
        if spec.options.several:
            offsets = np.arange(len(some) + 1, dtype=np.int32) * len(spec.options.ranks)
            made = pa.ListArray.from_arrays(pa.array(offsets), pa.array(found.ravel()), type=LIST)
        else:
            made = pa.array(found[:, 0])
        return made.take(pa.array(places, mask=counts == 0))

    def reference_sql(self, spec: "Aggregate") -> str:
        assert isinstance(spec.options, Exact)
        x, options = column_sql(spec), spec.options
        ranks = [f"cast({rank!r} as double)" for rank in options.ranks]
        said = f"array({', '.join(ranks)})" if options.several else ranks[0]
        if options.discrete:
            return f"percentile_disc({said}) within group (order by {x})"
        return f"percentile({x}, {said})"


def _ranked(values: np.ndarray, begins: np.ndarray, counts: np.ndarray, rank: float, *, discrete: bool) -> np.ndarray:
    """The value of a rank in each group that has any; added up as Spark does, so that the last digit is the same."""
    if discrete:
        places = np.maximum(np.ceil(rank * counts).astype(np.int64) - 1, 0)
        return np.asarray(values[begins + places])
    position = (counts - 1) * rank
    lower, higher = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    low, high = values[begins + lower], values[begins + higher]
    with np.errstate(invalid="ignore"):
        between = (higher - position) * low + (position - lower) * high
    return np.where((lower == higher) | (low == high), low, between)


EXACT_PERCENTILES: dict[str, Kind] = {"exact_percentile": ExactPercentiles()}
