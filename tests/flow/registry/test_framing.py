"""Frames are found in whole columns as they would be one by one."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.registry.framing import message_indexes, unframe

VALUES = (
    st.none()
    | st.binary(max_size=8)
    | st.builds(
        lambda number, body: b"\x00" + number.to_bytes(4) + body, st.integers(0, 2**32 - 1), st.binary(max_size=4)
    )
)


@given(st.lists(VALUES), st.integers(0, 3), st.integers(0, 3))
def test_a_column_is_divided_as_each_value_would_be(values: list[bytes | None], skipped: int, cut: int) -> None:
    column = pa.array(values, type=pa.binary())[skipped : max(skipped, len(values) - cut)]
    expected = [
        (int.from_bytes(value[1:5]), value[5:])
        if value is not None and len(value) >= 5 and value[0] == 0
        else (-1, None)
        for value in column.to_pylist()
    ]
    framed = unframe(column)
    framed.bodies.validate(full=True)
    assert list(zip(framed.ids.tolist(), framed.bodies.to_pylist(), strict=True)) == expected


def test_the_place_of_a_message_is_read_as_confluent_writes_it() -> None:
    assert message_indexes(b"\x00rest") == ((0,), 1)
    assert message_indexes(b"\x04\x02\x00rest") == ((1, 0), 3)


@pytest.mark.parametrize("body", [b"", b"\x02", b"\xff", b"\xff" * 9, b"\x01", b"\xfe\xff\xff\xff\x0f"])
def test_a_place_that_cannot_be_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="message indexes"):
        message_indexes(body)
