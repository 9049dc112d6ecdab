import base64

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.formats.kernels.binaries import ALPHABET, binaries
from headwater.flow.formats.kernels.cells import TEXT, VALID, cells_of_values


@given(st.lists(st.binary(max_size=20)))
def test_base64_is_undone(values: list[bytes]) -> None:
    texts = binaries(cells_of_values(pa.array([base64.b64encode(value) for value in values], type=pa.binary()), TEXT))
    assert texts.states.tolist() == [VALID] * len(values)
    assert texts.array(pa.binary()).to_pylist() == values


def valid(text: str) -> bool:
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except ValueError:
        return False


def decodable(values: list[str]) -> list[bool]:
    texts = binaries(cells_of_values(pa.array([value.encode() for value in values], type=pa.binary()), TEXT))
    return [state == VALID for state in texts.states]


def test_bits_that_padding_leaves_over_are_zero() -> None:
    letters = ALPHABET.decode()
    values = [f"{one}{two}==" for one in letters for two in letters] + [f"Aw{letter}=" for letter in letters]
    assert decodable(values) == [valid(value) for value in values]


@given(st.lists(st.text("AQw+/=-_ \n", max_size=9)))
def test_only_what_an_encoder_writes_is_base64(values: list[str]) -> None:
    assert decodable(values) == [valid(value) for value in values]
