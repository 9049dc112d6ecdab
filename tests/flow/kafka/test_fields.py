import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ProtocolError
from headwater.flow.kafka.fields import Reader, array, int8, int16, int32, int64, string


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=50))
def test_what_is_written_is_read(long: int, number: int, text: str | None) -> None:
    reader = Reader(int64(long) + int32(number) + string(text) + array([int16(1), int16(2)]) + int8(-3))
    assert (reader.int64(), reader.int32(), reader.nullable_string()) == (long, number, text)
    assert reader.array(reader.int16) == [1, 2]
    assert (reader.int8(), reader.left) == (-3, 0)


def test_null_arrays_and_bytes_read_as_empty() -> None:
    reader = Reader(int32(-1) + int32(-1))
    assert (reader.array(reader.int8), bytes(reader.bytes())) == ([], b"")


@pytest.mark.parametrize(
    "content, read",
    [
        (b"\0", lambda reader: reader.int16()),
        (int16(5) + b"abcd", lambda reader: reader.string()),
        (int16(-1), lambda reader: reader.string()),
        (int16(-2), lambda reader: reader.nullable_string()),
        (int16(1) + b"\xff", lambda reader: reader.string()),
        (int32(2**31 - 1) + b"abc", lambda reader: reader.bytes()),
        (int32(2**31 - 1) + b"abc", lambda reader: reader.array(reader.int8)),
        (int32(-2) + b"abc", lambda reader: reader.array(reader.int8)),
    ],
)
def test_a_length_that_lies_is_a_protocol_error(content: bytes, read) -> None:
    with pytest.raises(ProtocolError):
        read(Reader(content))


def test_a_text_too_long_for_the_protocol_is_refused() -> None:
    with pytest.raises(ProtocolError, match="40000 bytes"):
        string("x" * 40_000)
