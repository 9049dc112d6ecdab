"""Rows of a group folded at once are what merging them one after the other gives."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import NumberOverflow
from headwater.flow.operators.aggregation.aggregates import Aggregate, partials, state_schema
from headwater.flow.operators.windows.folding import fold_groups, merge_two
from tests.flow.operators.subjects import spec

SMALL = st.none() | st.integers(-9, 9)
# Halves add up without rounding, in whatever order.
HALVES = st.none() | st.integers(-9, 9).map(lambda number: number / 2)
EDGES = HALVES | st.sampled_from([float("nan"), float("inf"), float("-inf")])
SUBJECTS: list[tuple[Aggregate, list[st.SearchStrategy[Any]]]] = [
    (spec("count", pa.int64()), [st.integers(0, 3)]),
    (spec("sum", pa.int64()), [SMALL]),
    (spec("sum", pa.float64()), [HALVES]),
    (spec("avg", pa.float64()), [HALVES, st.integers(0, 3)]),
    (spec("avg", pa.int32()), [SMALL, st.integers(0, 3)]),
    *((spec(kind, type_), [SMALL]) for kind in ("min", "max") for type_ in (pa.int64(), pa.int16(), pa.date32())),
    *((spec(kind, pa.timestamp("us", "UTC")), [SMALL]) for kind in ("min", "max")),
    *((spec(kind, type_), [EDGES]) for kind in ("min", "max") for type_ in (pa.float64(), pa.float32())),
    *((spec(kind, pa.string()), [st.none() | st.text("aä", max_size=2)]) for kind in ("min", "max")),
    *((spec(kind, pa.bool_()), [st.none() | st.booleans()]) for kind in ("min", "max")),
    (spec("sum", pa.decimal128(12, 2)), [SMALL.map(lambda number: None if number is None else Decimal(number) / 4)]),
    (spec("bit_or", pa.int64()), [SMALL]),
]


def rows_of(aggregate: Aggregate, columns: list[list[Any]]) -> pa.RecordBatch:
    kinds = [part.type for part in partials(aggregate)]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=state_schema((aggregate,)))


def one_by_one(aggregate: Aggregate, rows: pa.RecordBatch, firsts: list[bool]) -> list[Any]:
    found: list[pa.RecordBatch] = []
    for place, first in enumerate(firsts):
        row = rows.slice(place, 1)
        found = [*found, row] if first else [*found[:-1], merge_two((aggregate,), found[-1], row)]
    return list(pa.concat_batches(found).to_pylist())


@pytest.mark.parametrize(
    "aggregate, content", SUBJECTS, ids=lambda one: f"{one.kind} {one.type}" if hasattr(one, "kind") else ""
)
@given(data=st.data())
def test_a_group_folded_at_once_is_its_rows_merged_one_by_one(
    aggregate: Aggregate, content: list[st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.tuples(st.booleans(), *content), min_size=1, max_size=12))
    firsts = [True, *(row[0] for row in drawn[1:])]
    rows = rows_of(aggregate, [[row[place + 1] for row in drawn] for place in range(len(content))])
    found = fold_groups((aggregate,), rows, np.array(firsts))
    assert repr(found.to_pylist()) == repr(one_by_one(aggregate, rows, firsts))


def test_aggregates_of_both_kinds_stand_in_their_order() -> None:
    both = (spec("max", pa.string()), Aggregate("count", "rows"), spec("first", pa.int64()))
    places = [{"time": None, "topic": "t", "partition": 0, "offset": number, "value": number} for number in (2, 1, 3)]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["a", "c", "b"]), pa.array([1, 1, 1]), pa.array(places, state_schema(both).field(2).type)],
        schema=state_schema(both),
    )
    folded = fold_groups(both, rows, np.array([True, False, True])).to_pydict()
    assert folded["max of x__max"] == ["c", "b"]
    assert folded["rows__count"] == [2, 1]
    assert [one["value"] for one in folded["first of x__first"]] == [1, 3]


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1], [2**62, 2**62]])
def test_a_sum_that_outgrows_its_type_is_an_error_also_of_a_group(values: list[int]) -> None:
    aggregate = spec("sum", pa.int64())
    with pytest.raises(NumberOverflow, match="has outgrown its type"):
        fold_groups((aggregate,), rows_of(aggregate, [values]), np.array([True, False]))


def test_a_sum_may_come_to_the_largest_number() -> None:
    aggregate = spec("sum", pa.int64())
    folded = fold_groups((aggregate,), rows_of(aggregate, [[2**63 - 2, 1, None]]), np.array([True, False, False]))
    assert folded.column(0).to_pylist() == [2**63 - 1]
