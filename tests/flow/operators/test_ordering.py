import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.ordering import less, sorted_places
from tests.flow.operators.reference import compared, in_order

fractions = st.none() | st.sampled_from([0.5, float("nan")])
pairs = st.builds(lambda a, b: {"a": a, "b": b}, st.none() | st.integers(0, 1), fractions)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-3, 3)),
    (pa.float64(), st.sampled_from([0.0, 1.5, -1.5, float("inf"), float("nan")])),
    (pa.string(), st.sampled_from(["", "a", "ab", "ä", "z"])),
    (pa.binary(), st.sampled_from([b"", b"\x00", b"\xff"])),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(5, 1), st.integers(-3, 3).map(lambda n: Decimal(n) / 2)),
    (pa.date32(), st.integers(0, 3).map(lambda n: datetime.date(2026, 1, 1 + n))),
    (pa.struct({"a": pa.int64(), "b": pa.float64()}), pairs),
]


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[Any]]:
    kind, values = draw(st.sampled_from(KINDS))
    pairs = draw(st.lists(st.tuples(st.none() | values, st.none() | values), max_size=10))
    return kind, [pair[0] for pair in pairs], [pair[1] for pair in pairs]


@given(columns())
def test_one_value_is_less_than_another_as_spark_has_it(column: tuple[pa.DataType, list[Any], list[Any]]) -> None:
    kind, one, other = column
    expected = [compared(left, right) < 0 for left, right in zip(one, other, strict=True)]
    assert less(pa.array(one, kind), pa.array(other, kind)).tolist() == expected


@given(columns())
def test_rows_are_sorted_and_equal_ones_keep_their_order(column: tuple[pa.DataType, list[Any], list[Any]]) -> None:
    kind, values, _ = column
    expected = sorted(range(len(values)), key=lambda place: in_order(values[place]))
    assert sorted_places([pa.array(values, kind)]).tolist() == expected


@pytest.mark.parametrize("places, expected", [([2, 1, 1], [2, 1, 0])])
def test_the_first_column_decides(places: list[int], expected: list[int]) -> None:
    assert sorted_places([pa.array(places), pa.array(["a", "c", "b"])]).tolist() == expected
