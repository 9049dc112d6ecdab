"""An aggregate of every kind, and plain Python's idea of it: what Spark makes of some rows, and what comes of all.

Rows have whole numbers in x, some of them null. Those of aggregates over floating-point numbers are made of x and the
offset, so that none of them is exact and sums depend on their order.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasketches import hll_sketch, tgt_hll_type
from xxhash import xxh64_intdigest

import headwater as hw
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.kinds.approx_distinct import Hll
from headwater.flow.operators.aggregation.kinds.exact_percentiles import Exact
from headwater.flow.operators.aggregation.kinds.hashed import HASHES, Bloom, CountMin
from headwater.flow.operators.aggregation.kinds.moments import MOMENTS
from headwater.flow.operators.aggregation.kinds.ordered import Limit
from headwater.flow.operators.aggregation.kinds.pairs import PAIRS
from headwater.flow.operators.aggregation.kinds.percentiles import Kll
from headwater.flow.operators.aggregation.kinds.plain import PLAIN
from headwater.flow.operators.aggregation.kinds.top_k import Frequent
from headwater.flow.operators.sketches import bloom, count_min
from tests.flow.operators import kinds_reference, reference
from tests.flow.operators.reference import Row
from tests.flow.operators.subjects import TIME, spec

ROUNDING = 1e-6
"""Values whose spread is less differ by rounding alone, and have no shape that could be asked for."""
SHAPES = ("skewness", "kurtosis", "corr", "regr_slope", "regr_intercept", "regr_r2")
FILTER, COUNTER = bloom.shape_for(20, 0.1), CountMin(16, 3)


def ends_of(values: list[int]) -> tuple[list[int]]:
    return ([min(values), max(values)],) if values else ([],)


widest = hw.aggregate(
    create=lambda: ([],),
    add=lambda kept, x: kept if x is None else ends_of([x, *kept.ends]),
    merge=lambda one, other: ends_of(one.ends + other.ends),
    finish=lambda kept: kept.ends[1] - kept.ends[0] if kept.ends else None,
    state="ends array<bigint>",
    returns="bigint",
)


def of_numbers(kind: str) -> Aggregate:
    whole = kind.startswith("bit_") or kind.endswith("_distinct")
    return Aggregate(
        kind, kind, "x", pa.int64() if whole else pa.float64(), other="y" if kind in PAIRS else None
    )  # fmt: skip


SPECS = (
    Aggregate("count", "rows"),
    *(spec(kind, pa.int64()) for kind in ("count", "sum", "avg", "min", "max", "first", "collect", "collect_set")),
    spec("last", pa.int64(), ignore_nulls=True),
    Aggregate("sum", "real", "x", pa.float64()),
    Aggregate("avg", "mean", "x", pa.float64()),
    Aggregate("collect", "few", "x", pa.int64(), "at", TIME, options=Limit(2)),
    *(of_numbers(kind) for kind in (*PLAIN, *MOMENTS, *PAIRS)),
    Aggregate("distinct", "about", "x", pa.int64(), options=Hll()),
    Aggregate("percentile", "middle", "x", pa.float64(), options=Kll((0.5,))),
    Aggregate("percentile", "rough", "x", pa.float64(), options=Kll((0.5,), k=8)),
    Aggregate("exact_percentile", "exactly", "x", pa.float64(), options=Exact((0.3,))),
    Aggregate("exact_percentile", "one of them", "x", pa.float64(), options=Exact((0.3,), discrete=True)),
    Aggregate("exact_percentile", "both ends", "x", pa.float64(), options=Exact((0.0, 1.0), several=True)),
    Aggregate("top_k", "often", "x", pa.int64(), options=Frequent(2, 8, 100)),
    Aggregate("bloom", "seen", "x", HASHES, options=Bloom(FILTER.bits, FILTER.hashes)),
    Aggregate("count_min", "times", "x", pa.int64(), options=COUNTER),
    Aggregate("user", "width", "x", pa.struct({"c0": pa.int64()}), "at", TIME, options=widest("x").options),
)


class Between:
    """Equal to what lies between two values, both included; or to anything."""

    def __init__(self, low: float = float("-inf"), high: float = float("inf")) -> None:
        self._low, self._high = low, high

    def __eq__(self, other: object) -> bool:
        return self._low == float("-inf") or (isinstance(other, float) and self._low <= other <= self._high)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"Between({self._low}, {self._high})"


ANYTHING = Between()


def seen_by(spec: Aggregate, rows: Sequence[Row]) -> list[Row]:
    """Rows with the numbers that an aggregate is given."""
    if not pa.types.is_floating(spec.input_type):
        return list(rows)
    return [row if row.x is None else row._replace(x=row.x / 7 + row.offset % 3 / 10) for row in rows]


def pairs_of(rows: Sequence[Row]) -> list[tuple[Any, Any]]:
    return [(row.x, None if row.offset % 5 == 4 else (row.offset * 7 % 11) / 3) for row in rows]


def made(spec: Aggregate, rows: Sequence[Row]) -> list[Any]:
    """What Spark makes of some rows."""
    rows = seen_by(spec, rows)
    values = [row.x for row in rows if row.x is not None]
    if spec.kind in (*PLAIN, *MOMENTS, *PAIRS):
        return kinds_reference.partial(spec.kind, pairs_of(rows))
    match spec.kind:
        case "distinct":
            return [hll_of(values) if values else None]
        case "percentile" | "exact_percentile":
            return [sorted(values)]
        case "top_k" | "count_min":
            return [values]
        case "bloom":
            return [[dict(zip(("first", "second"), hashes_of(value), strict=True)) for value in sorted(set(values))]]
        case "user":
            placed = sorted(rows, key=lambda row: (row.time, row.offset))
            return [[{**row.place, "value": {"c0": row.x}} for row in placed]]
    whole = reference.partial(spec, rows)
    return [whole[0][: spec.options.limit]] if isinstance(spec.options, Limit) else whole


def exactly(options: Any, values: list[Any]) -> Any:
    if options.discrete:
        return min(one for one in values if sum(each <= one for each in values) >= options.ranks[0] * len(values))
    found = [float(np.quantile(values, rank)) for rank in options.ranks]
    return found if options.several else near(found[0])


def hll_of(values: list[Any], lg_k: int = 12) -> bytes:
    sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)
    for value in values:
        sketch.update(value)
    return bytes(sketch.serialize_updatable())


def hashes_of(value: int) -> tuple[int, int]:
    data = value.to_bytes(8, "little", signed=True)
    first = xxh64_intdigest(data, bloom.SEED)
    second = xxh64_intdigest(data, first)
    return tuple(one - 2**64 if one >= 2**63 else one for one in (first, second))  # type: ignore[return-value]


def result(spec: Aggregate, rows: Sequence[Row]) -> Any:
    """Of all rows at once; sketches are those of the whole, and exact where there are fewer values than they hold."""
    rows = seen_by(spec, rows)
    values = sorted(row.x for row in rows if row.x is not None)
    if spec.kind in (*PLAIN, *MOMENTS, *PAIRS):
        return shapeless(spec.kind, pairs_of(rows)) or near(kinds_reference.result(spec.kind, pairs_of(rows)))
    match spec.kind:
        case "distinct":
            return len(set(values))
        case "percentile":
            middle = Between(values[0], values[-1]) if spec.name == "rough" and values else None
            return middle or (values[(len(values) - 1) // 2] if values else None)
        case "exact_percentile":
            return exactly(spec.options, values) if values else None
        case "top_k":
            counts = sorted((-count, value) for value, count in Counter(values).items())
            return [{"item": value, "count": -count} for count, value in counts[:2]]
        case "bloom":
            sides = [np.array(side, np.int64) for side in zip(*map(hashes_of, sorted(set(values))), strict=True)]
            return bloom.filled(sides[0], sides[1], FILTER) if values else None
        case "count_min":
            found = Counter(values)
            whole = count_min.counted([*found], [*found.values()], COUNTER.buckets, COUNTER.hashes)
            return whole if values else None
        case "user":
            return values[-1] - values[0] if values else None
    plain = reference.result(spec, rows)
    return plain[: spec.options.limit] if isinstance(spec.options, Limit) else near(plain)


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


def shapeless(kind: str, pairs: list[tuple[Any, Any]]) -> Any:
    """ANYTHING, if a result is divided by a spread that is rounding and nothing else."""
    kept = kinds_reference.partial(kind, pairs)
    if kind not in SHAPES or kept[0] < 2:
        return None
    spreads = kept[2:3] if kind in MOMENTS else kept[4:6]
    return ANYTHING if min(spreads) < ROUNDING else None


def results(specs: Sequence[Aggregate], rows: Sequence[Row]) -> dict[str, Any]:
    return {each.name: result(each, rows) for each in specs}
