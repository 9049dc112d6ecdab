from itertools import product

import pyarrow as pa

from headwater.flow.formats.kernels.cells import ABSENT, TEXT, VALID, cells_of_values
from headwater.flow.formats.kernels.utf8 import utf8_states

BORDERS = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF]


def readable(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def test_every_first_byte_with_every_border_behind_it_is_judged_as_python_judges() -> None:
    tails = [tail for length in range(4) for tail in product(BORDERS, repeat=length)]
    values = [bytes([first, *tail]) for first in range(256) for tail in tails]
    states = utf8_states(cells_of_values(pa.array(values, type=pa.binary()), TEXT))
    assert [value for value, state in zip(values, states, strict=True) if (state == VALID) != readable(value)] == []


def test_what_is_missing_is_absent() -> None:
    assert utf8_states(cells_of_values(pa.array([None], type=pa.binary()), TEXT)).tolist() == [ABSENT]
