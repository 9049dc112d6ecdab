from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.state.runs.equality import equal, rows_equal

NAN = float("nan")
TABLE = [
    (pa.int64(), 1, 1, True),
    (pa.int64(), 1, 2, False),
    (pa.int64(), None, None, True),
    (pa.int64(), None, 0, False),
    (pa.string(), "ä", "ä", True),
    (pa.string(), "", None, False),
    (pa.float64(), NAN, NAN, True),
    (pa.float64(), NAN, 1.0, False),
    (pa.float64(), 0.0, -0.0, True),
    (pa.float64(), NAN, None, False),
    (pa.bool_(), True, False, False),
    (pa.binary(), b"a", b"a", True),
    (pa.decimal128(10, 2), Decimal("1.10"), Decimal("1.10"), True),
    (pa.struct({"a": pa.int64(), "b": pa.string()}), {"a": 1, "b": None}, {"a": 1, "b": None}, True),
    (pa.struct({"a": pa.int64(), "b": pa.string()}), {"a": 1, "b": None}, {"a": 1, "b": ""}, False),
    (pa.struct({"a": pa.int64()}), {"a": None}, None, False),
    (pa.list_(pa.int64()), [1, None], [1, None], True),
    (pa.list_(pa.int64()), [1], [1, None], False),
    (pa.list_(pa.int64()), [], None, False),
    (pa.list_(pa.list_(pa.float64())), [[NAN], []], [[NAN], []], True),
    (pa.list_(pa.list_(pa.float64())), [[NAN], []], [[], [NAN]], False),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", 1)], True),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", 2)], False),
    (pa.null(), None, None, True),
]


@pytest.mark.parametrize("kind, one, other, same", TABLE)
def test_values_are_equal_as_in_groups_of_spark(kind: pa.DataType, one: object, other: object, same: bool) -> None:
    left, right = pa.array([None, one, one], kind), pa.array([None, other, one], kind)
    assert equal(left, right).tolist() == [True, same, True]
    assert equal(left.slice(1), right.slice(1)).tolist() == [same, True]


NESTED = pa.list_(pa.struct({"a": pa.list_(pa.int64()), "b": pa.string()}))
nested_values = st.none() | st.lists(
    st.none()
    | st.fixed_dictionaries(
        {"a": st.none() | st.lists(st.none() | st.integers(0, 1), max_size=2), "b": st.none() | st.sampled_from("xy")}
    ),
    max_size=2,
)


@given(st.lists(st.tuples(nested_values, nested_values), max_size=8))
def test_nested_values_are_equal_as_in_python(pairs: list[tuple[object, object]]) -> None:
    left, right = (pa.array([pair[side] for pair in pairs], NESTED) for side in (0, 1))
    assert equal(left, right).tolist() == [one == other for one, other in pairs]


def test_rows_without_columns_are_equal() -> None:
    assert np.array_equal(rows_equal([], [], 2), [True, True])
