"""Numbers that stand for values never contradict their order."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.order_codes import HIGHEST, falling_codes
from headwater.flow.operators.ordering import less

KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(datetime(1600, 1, 1), datetime(2300, 1, 1), timezones=st.just(UTC))),
    (pa.decimal128(38, 2), st.decimals(places=2, allow_nan=False, min_value=Decimal(-10) ** 35, max_value=10**35)),
    (pa.string(), st.text(max_size=12)),
    (pa.binary(), st.binary(max_size=12)),
    (pa.struct([("a", pa.int64())]), st.fixed_dictionaries({"a": st.integers(0, 3)})),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(data=st.data())
def test_a_higher_value_has_no_higher_number(kind: pa.DataType, values: st.SearchStrategy[Any], data: Any) -> None:
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=20)), kind)
    column = column.slice(len(column) // 3)
    numbers = falling_codes(column)
    one, other = (part.ravel() for part in np.meshgrid(np.arange(len(column)), np.arange(len(column))))
    before = less(column.take(pa.array(one)), column.take(pa.array(other)))
    assert (numbers[one[before]] >= numbers[other[before]]).all()
    assert (numbers < HIGHEST).all()


def test_values_that_differ_early_have_numbers_of_their_own() -> None:
    several = [
        pa.array([1, 2]), pa.array([1.0, 1.1]), pa.array(["ann", "anna"]), pa.array([Decimal("1.10"), Decimal("1.11")]),
        pa.array([date(2026, 1, 1), date(2026, 1, 2)]), pa.array([False, True]),
    ]  # fmt: skip
    assert [bool(np.diff(falling_codes(column))[0] < 0) for column in several] == [True] * len(several)
