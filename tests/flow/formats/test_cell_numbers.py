import math
from decimal import Context

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.flow.formats.kernels.cells import INTEGER, NUMBER, VALID, WRONG, Cells, cells_of_values
from headwater.flow.formats.kernels.numbers import decimals, doubles, integers

written = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def cells(texts: list[str], kind: int) -> Cells:
    return cells_of_values(pa.array([text.encode() for text in texts], type=pa.binary()), kind)


@given(st.lists(st.one_of(written, st.floats(allow_nan=False, allow_infinity=False).map(repr)), max_size=20))
@example(["9007199254740993", "0.1", "1e23", "8.5e22", "1e-22", "123456789012345e22", "2.2250738585072011e-308"])
def test_a_double_is_what_python_reads(texts: list[str]) -> None:
    values, states = doubles(cells(texts, NUMBER))
    assert states.tolist() == [VALID] * len(texts)
    assert [value.hex() for value in values.tolist()] == [float(text).hex() for text in texts]
    assert [math.copysign(1, value) for value in values] == [math.copysign(1, float(text)) for text in texts]


@given(st.lists(st.integers(-(10**20), 10**20).map(str), max_size=20))
@example([str(2**63), str(2**63 - 1), str(-(2**63)), str(-(2**63) - 1), "-0", "+7", "000012"])
def test_an_integer_is_exact_or_wrong(texts: list[str]) -> None:
    values, states = integers(cells(texts, INTEGER), pa.int64())
    for text, value, state in zip(texts, values.tolist(), states.tolist(), strict=True):
        assert state == (VALID if -(2**63) <= int(text) < 2**63 else WRONG)
        assert value == (int(text) if state == VALID else 0)


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=20), st.integers(0, 38))
def test_a_decimal_of_up_to_38_digits_is_exact(numbers: list[int], scale: int) -> None:
    words, states = decimals(cells([f"{number}e-{scale}" for number in numbers], NUMBER), 38, scale)
    array = pa.Array.from_buffers(pa.decimal128(38, scale), len(numbers), [None, pa.py_buffer(words)])
    assert states.tolist() == [VALID] * len(numbers)
    assert [int(value.as_tuple().digits and value.scaleb(scale, _WIDE)) for value in array.to_pylist()] == numbers


_WIDE = Context(prec=80)


def test_a_column_in_which_one_number_is_too_large_for_a_double_keeps_the_others() -> None:
    values, _ = doubles(cells(["1e999", "-1e999", "0.12345678901234567", "1e-999"], NUMBER))
    assert values.tolist() == [np.inf, -np.inf, 0.12345678901234567, 0.0]
