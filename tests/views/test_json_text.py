import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UnstorableValue
from headwater.views.json_text import decimal_text, hex_text, json_text
from headwater.views.values import from_json_text
from tests.views import rows as samples

SIMPLE = {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(),
    pa.binary(): st.binary(max_size=20),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(30, 10): st.decimals(min_value=-(10**19), max_value=10**19, places=10),
}


def values_of(type: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_list(type):
        return st.none() | st.lists(values_of(type.value_type), max_size=4)
    if pa.types.is_struct(type):
        return st.none() | st.fixed_dictionaries({field.name: values_of(field.type) for field in type})
    return st.none() | SIMPLE[type]


types = st.recursive(
    st.sampled_from(list(SIMPLE)),
    lambda inner: (
        inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda several: pa.struct([(f'field "{index}"', type) for index, type in enumerate(several)])
        )
    ),
    max_leaves=5,
)


@given(st.data())
def test_any_column_comes_back_as_it_was(data: st.DataObject) -> None:
    type = data.draw(types)
    values = data.draw(st.lists(values_of(type), max_size=6))
    array = pa.array(values, type)
    texts = json_text(array).to_pylist()
    assert samples.shown([from_json_text(text, type) for text in texts]) == samples.shown(array.to_pylist())


@given(st.data())
def test_every_text_is_valid_json(data: st.DataObject) -> None:
    type = data.draw(types)
    array = pa.array(data.draw(st.lists(values_of(type), max_size=6)), type)
    for text in json_text(array).to_pylist():
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@given(st.data())
def test_a_slice_is_written_like_the_whole(data: st.DataObject) -> None:
    type = data.draw(types)
    array = pa.array(data.draw(st.lists(values_of(type), min_size=4, max_size=8)), type)
    assert json_text(array.slice(2, 2)).to_pylist() == json_text(array).to_pylist()[2:4]


@given(st.dictionaries(st.integers(-5, 5), st.text()))
def test_keys_of_a_map_keep_their_type(value: dict[int, str]) -> None:
    type = pa.map_(pa.int32(), pa.string())
    (text,) = json_text(pa.array([list(value.items())], type)).to_pylist()
    assert from_json_text(text, type) == value


@given(st.lists(st.none() | st.decimals(min_value=-(10**19), max_value=10**19, places=12)))
def test_decimals_are_written_with_all_their_places(numbers: list[Decimal | None]) -> None:
    texts = decimal_text(pa.array(numbers, pa.decimal128(38, 12))).to_pylist()
    assert [None if text is None else Decimal(text) for text in texts] == numbers
    assert all(text is None or len(text.partition(".")[2]) == 12 for text in texts)


@given(st.lists(st.none() | st.binary(max_size=9)))
def test_binary_is_written_in_hexadecimal(values: list[bytes | None]) -> None:
    array = pa.array([b"before", *values], pa.binary()).slice(1)
    assert hex_text(array).to_pylist() == [None if value is None else value.hex() for value in values]


def test_what_json_has_no_number_for_is_a_string() -> None:
    array = pa.array([math.nan, math.inf, -math.inf, 1.5, None])
    assert json_text(array).to_pylist() == ['"NaN"', '"Infinity"', '"-Infinity"', "1.5", "null"]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([2**62], pa.timestamp("us", "UTC")),
        pa.array([-(2**62)], pa.timestamp("us")),
        pa.array([[3_000_000]], pa.list_(pa.date32())),
    ],
)
def test_years_that_do_not_sort_as_text_are_refused(array: pa.Array) -> None:
    with pytest.raises(UnstorableValue, match="1 to 9999"):
        json_text(array)
