"""hw.percentile: values by their rank, by KLL sketches."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.kinds.kind import Columns, Kind, Options, Tolerance, column_sql
from headwater.flow.operators.aggregation.kinds.sketched import BYTES, Sketched, both, each
from headwater.flow.operators.aggregation.lists import Elements, in_order, opened_lists
from headwater.flow.operators.sketches import kll
from headwater.flow.state.runs.equality import list_lengths, valid

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

RANK_ERRORS = 3
"""So many times the error of rank that holds in 99 of 100 cases, so that chance alone never fails a proof."""
SKETCH_RANKS = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Kll(Options):
    ranks: tuple[float, ...]
    several: bool = False
    """Is the result a list?"""
    k: int = 200
    sketch: bool = False


class Percentiles(Sketched):
    """Spark would make sketches, too, but others when a batch comes again; so it hands over the values, in order."""

    form = "number"

    def given(self, spec: "Aggregate") -> pa.DataType:
        return pa.list_(pa.float64())

    def settled(self, elements: Elements) -> Elements:
        return in_order(elements)

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        assert isinstance(spec.options, Kll)
        k, values = spec.options.k, opened_lists(given[0]).values.to_numpy(zero_copy_only=False)
        lengths = np.where(valid(given[0]), list_lengths(given[0]), 0)
        parts = np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []
        made = [kll.of_values(part, k) if len(part) else None for part in parts]
        return [pa.array([None if one is None else kll.to_bytes(one) for one in made], BYTES)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        def unite(one: bytes, other: bytes) -> bytes:
            return kll.to_bytes(kll.merged(kll.from_bytes(one), kll.from_bytes(other)))

        return [both(new[0], old[0], unite)]

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        assert isinstance(spec.options, Kll)
        if spec.options.sketch:
            return BYTES
        return pa.list_(pa.float64()) if spec.options.several else pa.float64()

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        assert isinstance(spec.options, Kll)
        if spec.options.sketch:
            return kept[0]
        ranks, several = np.array(spec.options.ranks), spec.options.several

        def found(data: bytes) -> Any:
            values = kll.quantiles(kll.from_bytes(data), ranks).tolist()
            return values if several else values[0]

        return each(kept[0], found, self.result_type(spec))

    def reference_sql(self, spec: "Aggregate") -> str:
        assert isinstance(spec.options, Kll)
        x, options = column_sql(spec), spec.options
        if options.sketch:
            return f"if(count({x}) > 0, kll_sketch_agg_double({x}, {options.k}), null)"
        found = [f"_v[greatest(0, cast(ceil({rank} * size(_v)) as int) - 1)]" for rank in options.ranks]
        result = f"array({', '.join(found)})" if options.several else found[0]
        return f"transform(array(array_sort(collect_list({x}))), _v -> if(size(_v) > 0, {result}, null))[0]"

    def tolerance(self, spec: "Aggregate") -> Tolerance:
        """Exact values a little below and above each rank."""
        assert isinstance(spec.options, Kll)
        error = RANK_ERRORS * kll.rank_error(spec.options.k)
        edges = [
            f"named_struct('low', element_at(_v, cast(greatest(1, floor(({rank} - {error}) * size(_v))) as int)), "
            f"'high', element_at(_v, cast(least(size(_v), ceil(({rank} + {error}) * size(_v)) + 1) as int)))"
            for rank in (spec.options.ranks or SKETCH_RANKS)
        ]
        values = f"array_sort(collect_list({column_sql(spec)}))"
        accepted = f"transform(array({values}), _v -> if(size(_v) > 0, array({', '.join(edges)}), null))[0]"
        rule = "between" if spec.options.several else "alone_between"
        return Tolerance("ranks_of_sketch" if spec.options.sketch else rule, accepted)


PERCENTILES: dict[str, Kind] = {"percentile": Percentiles()}
REPLACED = {
    **dict.fromkeys(
        ("median", "percentile", "percentile_cont", "percentile_disc"),
        "hw.percentile(...), exact=True where rows change or windows end",
    ),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), "hw.percentile(...)"),
    **dict.fromkeys(("kll_sketch_agg_double", "kll_sketch_agg_bigint"), "hw.percentile(..., sketch=True)"),
}
