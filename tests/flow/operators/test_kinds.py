"""Any split of rows, merged in any order, gives the statistics of the whole."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidDeclaration, NumberOverflow
from headwater.flow.operators.aggregation.aggregates import Aggregate, partials, result_type, state_schema
from headwater.flow.operators.aggregation.kinds.moments import MOMENTS
from headwater.flow.operators.aggregation.kinds.ordered import Limit
from headwater.flow.operators.aggregation.kinds.pairs import PAIRS
from headwater.flow.operators.aggregation.kinds.plain import PLAIN
from headwater.flow.operators.aggregation.merging import finish, merge_all
from headwater.flow.operators.windows.folding import fold_groups, nothing
from tests.flow.operators.kinds_reference import partial, result
from tests.flow.operators.subjects import TIME, spec

WHOLE = ("bit_and", "bit_or", "bit_xor", "count_distinct", "sum_distinct", "avg_distinct")
KINDS = (*PLAIN, *MOMENTS, *PAIRS)
whole_numbers = st.none() | st.integers(-9, 9)
coarse = st.none() | st.integers(-40, 40).map(lambda quarter: quarter / 4)
"""Whose products and sums are exact, or nearly."""


def of(kind: str) -> Aggregate:
    kind_of_x = pa.int64() if kind in WHOLE else pa.float64()
    return Aggregate(kind, "z", "x", kind_of_x, other="y" if kind in PAIRS else None)


def rows_of(aggregate: Aggregate, parts: list[list[Any]]) -> pa.RecordBatch:
    columns = list(zip(*(partial(aggregate.kind, part) for part in parts), strict=True))
    schema = state_schema((aggregate,))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def close(one: Any, other: Any) -> bool:
    if one is None or other is None or not isinstance(one, float):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(st.data())
def test_any_split_merged_is_the_whole(kind: str, data: st.DataObject) -> None:
    numbers = whole_numbers if kind in WHOLE else coarse
    parts = data.draw(st.lists(st.lists(st.tuples(numbers, numbers), max_size=4), min_size=1, max_size=6))
    aggregate, together = of(kind), [pair for part in parts for pair in part]
    firsts = np.arange(len(parts)) == 0
    folded = fold_groups((aggregate,), rows_of(aggregate, parts), firsts)
    with_nothing = merge_all((aggregate,), folded, nothing((aggregate,), 1))
    expected = result(kind, together)
    if kind in ("skewness", "kurtosis", "corr", "regr_slope", "regr_intercept", "regr_r2") and expected is not None:
        # Values that differ by rounding alone have no shape that could be asked for.
        kept = partial(kind, together)
        if min(kept[2] if kind in MOMENTS else kept[4], kept[2] if kind in MOMENTS else kept[5] or 1) < 1e-6:
            return
    (found,) = finish(aggregate, with_nothing).to_pylist()
    assert close(found, expected)
    assert finish(aggregate, with_nothing).type == result_type(aggregate)


def test_a_small_variance_far_from_zero_survives_a_thousand_merges() -> None:
    aggregate = of("var_pop")
    values = [1e9 + (place % 10) for place in range(10_000)]
    parts = [[(value, None) for value in values[place : place + 10]] for place in range(0, len(values), 10)]
    folded = fold_groups((aggregate,), rows_of(aggregate, parts), np.arange(len(parts)) == 0)
    assert math.isclose(finish(aggregate, folded)[0].as_py(), 8.25, rel_tol=1e-9)


def test_a_sum_of_different_values_that_outgrows_its_type_is_an_error() -> None:
    aggregate = of("sum_distinct")
    state = pa.RecordBatch.from_pydict({partials(aggregate)[0].name: [[2**62, 2**62 + 1, 2**62 + 2]]})
    with pytest.raises(NumberOverflow):
        finish(aggregate, state.cast(state_schema((aggregate,))))


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 30), max_size=5), min_size=1, max_size=5), st.integers(1, 4))
def test_a_bounded_collection_holds_the_first_of_all(parts: list[list[int]], limit: int) -> None:
    aggregate = spec("collect", pa.int64(), options=Limit(limit))
    schema, offset, columns, everything = state_schema((aggregate,)), 0, [], []
    for part in parts:
        elements = []
        for time in part:
            place = {"time": time, "topic": "t", "partition": 0, "offset": offset}
            elements.append({**place, "value": offset})
            offset += 1
        everything += elements
        columns.append(sorted(elements, key=lambda one: (one["time"], one["offset"]))[:limit])
    kind = schema.field(0).type
    plain = pa.list_(pa.struct([f if f.name != "time" else pa.field("time", pa.int64()) for f in kind.value_type]))
    rows = pa.RecordBatch.from_arrays([pa.array(columns, plain).cast(kind)], schema=schema)
    folded = fold_groups((aggregate,), rows, np.arange(len(parts)) == 0)
    assert len(folded.column(0)[0]) <= limit
    wanted = sorted(everything, key=lambda one: (one["time"], one["offset"]))[:limit]
    assert finish(aggregate, folded).to_pylist() == [[one["value"] for one in wanted]]


@pytest.mark.parametrize(
    "kind, given, said",
    [
        ("var_pop", pa.string(), "cannot be the var_pop of `x`, which is string. Use a column of numbers."),
        ("corr", TIME, "Use two columns of numbers."),
        ("bit_and", pa.float64(), "Use a column of whole numbers."),
        ("count_distinct", pa.list_(pa.int64()), "Use an ordered type."),
        ("sum_distinct", pa.string(), "Use a column of numbers."),
    ],
)
def test_a_statistic_of_what_is_no_number_is_refused(kind: str, given: pa.DataType, said: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        Aggregate(kind, "z", "x", given, other="y")
    assert said in str(refused.value)
