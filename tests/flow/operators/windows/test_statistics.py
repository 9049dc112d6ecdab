"""Statistics, sketches and aggregates of users in windows of every kind: any batching, any straggler, any emission."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.flow.operators.aggregates import Aggregate
from headwater.flow.operators.kinds.options import Frequent, Kll, Limit
from headwater.flow.operators.windows.shapes import Count, Hopping, Session, Sliding, Tumbling, Window
from tests.flow.operators import kinds_reference, reference
from tests.flow.operators.reference import Row
from tests.flow.operators.subjects import TIME, spec
from tests.flow.operators.windows import subjects
from tests.flow.operators.windows.subjects import Batch, batches_strategy, emissions, life


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
SPECS = (
    Aggregate("count_distinct", "different", "x", pa.int64()),
    Aggregate("bit_xor", "bits", "x", pa.int64()),
    Aggregate("percentile", "middle", "x", pa.float64(), options=Kll((0.5,))),
    Aggregate("top_k", "often", "x", pa.int64(), options=Frequent(2, 8, 100)),
    Aggregate("user", "width", "x", pa.struct({"c0": pa.int64()}), "at", TIME, options=widest("x").options),
    spec("collect", pa.int64(), options=Limit(2)),
)
WINDOWS: list[Window] = [
    Tumbling(10, 3), Hopping(20, 5), Session(6), Sliding(12, on_change=False), Sliding(12, on_change=True), Count(3),
]  # fmt: skip


def made(spec: Aggregate, rows: Sequence[Row]) -> list[Any]:
    """What Spark makes of some rows."""
    values = [row.x for row in rows if row.x is not None]
    match spec.kind:
        case "percentile":
            return [sorted(map(float, values))]
        case "top_k":
            return [values]
        case "user":
            placed = sorted(rows, key=lambda row: (row.time, row.offset))
            return [[{**row.place, "value": {"c0": row.x}} for row in placed]]
        case "count_distinct" | "bit_xor":
            return kinds_reference.partial(spec.kind, [(row.x, None) for row in rows])
    whole: list[Any] = reference.partial(spec, rows)[0]
    return [whole[:2]]


def result(spec: Aggregate, rows: Sequence[Row]) -> Any:
    """Of all rows at once, exactly: there are fewer than a sketch can hold."""
    values = sorted(row.x for row in rows if row.x is not None)
    match spec.kind:
        case "percentile":
            return float(values[(len(values) - 1) // 2]) if values else None
        case "top_k":
            counts = sorted((-values.count(value), value) for value in set(values))
            return [{"item": value, "count": -count} for count, value in counts[:2]]
        case "user":
            return values[-1] - values[0] if values else None
        case "count_distinct" | "bit_xor":
            return kinds_reference.result(spec.kind, [(row.x, None) for row in rows])
    return reference.result(spec, rows)[:2]


@pytest.fixture(autouse=True)
def other_aggregates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subjects, "partial", made)
    monkeypatch.setattr(subjects, "results", lambda specs, rows: {each.name: result(each, rows) for each in specs})


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@settings(max_examples=6, deadline=None)
@given(batches=batches_strategy, emission=emissions, whole=st.booleans())
def test_they_are_what_a_query_over_all_rows_gives(
    window: Window, batches: list[Batch], emission: dict[str, Any], whole: bool
) -> None:
    given = {} if isinstance(window, Count) else emission
    life(window, **given, whole=whole, specs=SPECS).live(batches)
