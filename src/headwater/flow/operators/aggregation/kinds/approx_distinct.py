"""hw.distinct: about how many different values, by HyperLogLog."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.kinds.kind import Columns, Kind, Options, Tolerance, column_sql, input_of
from headwater.flow.operators.aggregation.kinds.sketched import BYTES, Sketched, both, each
from headwater.flow.operators.aggregation.lists import Elements, closed_lists, distinct, in_order, values_of_groups
from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.operators.sketches import hll
from headwater.flow.operators.sketches.coupons import coupons_of

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate


@dataclass(frozen=True)
class Hll(Options):
    lg_k: int = 12
    sketch: bool = False
    """Is the result the sketch itself, instead of what it estimates?"""


class Distinct(Sketched):
    form = "comparable_or_binary"

    def given(self, spec: "Aggregate") -> pa.DataType:
        return BYTES

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        """Sketches already: how many values are different does not bound what is kept of them."""
        assert isinstance(spec.options, Hll)
        groups, values = values_of_groups(input_of(spec, rows), segments)
        coupons = pa.array(coupons_of(values).astype(np.int64))
        found = closed_lists(distinct(in_order(Elements(groups, coupons))), len(segments), pa.list_(pa.int64()))
        return [hll.of_coupons(found, spec.options.lg_k)]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        assert isinstance(spec.options, Hll)
        found: list[bytes | None] = []
        for begin, end in zip(segments.bounds[:-1].tolist(), segments.bounds[1:].tolist(), strict=True):
            there = [one for one in given[0].slice(begin, end - begin).to_pylist() if one is not None]
            found.append(hll.united_all(there, spec.options.lg_k) if there else None)
        return [pa.array(found, BYTES)]

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        return [each(given[0], hll.of_spark, BYTES)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        assert isinstance(spec.options, Hll)
        lg_k = spec.options.lg_k
        return [both(new[0], old[0], lambda one, other: hll.united(one, other, lg_k))]

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return BYTES if isinstance(spec.options, Hll) and spec.options.sketch else pa.int64()

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        if isinstance(spec.options, Hll) and spec.options.sketch:
            return kept[0]
        return each(kept[0], hll.estimate, pa.int64(), nothing=0)

    def reference_sql(self, spec: "Aggregate") -> str:
        assert isinstance(spec.options, Hll)
        x = column_sql(spec)
        sketch = f"hll_sketch_agg({x}, {spec.options.lg_k})"
        estimate = f"hll_sketch_estimate(hll_union({sketch}, {sketch}))"
        return f"if(count({x}) > 0, {sketch}, null)" if spec.options.sketch else estimate

    def tolerance(self, spec: "Aggregate") -> Tolerance | None:
        """An estimate does not depend on the order of rows; the bytes of a sketch do."""
        return Tolerance("registers", "true") if isinstance(spec.options, Hll) and spec.options.sketch else None


APPROX_DISTINCT: dict[str, Kind] = {"distinct": Distinct()}
REPLACED = {"approx_count_distinct": "hw.distinct(...)", "hll_sketch_agg": "hw.distinct(..., sketch=True)"}
