import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ProtocolError
from headwater.wire.protocol.reader import ELEMENTS_MAX, Reader, decode


def reader(data: bytes) -> Reader:
    return Reader(memoryview(data))


def test_a_string_that_announces_more_than_remains_is_refused() -> None:
    with pytest.raises(ProtocolError, match="300 bytes are announced where 1 remain"):
        reader(struct.pack(">h", 300) + b"x").string(False)


@pytest.mark.parametrize("length", [-2, -32768])
def test_a_negative_length_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        reader(struct.pack(">h", length) + b"xxxx").nullable_string(False)


@pytest.mark.parametrize("flexible, data", [(False, b"\xff\xff"), (True, b"\x00")])
def test_null_is_a_value_only_where_it_may_be(flexible: bool, data: bytes) -> None:
    assert reader(data).nullable_string(flexible) is None
    with pytest.raises(ProtocolError, match="null"):
        reader(data).string(flexible)


@pytest.mark.parametrize("count", [2**31 - 1, -2, -(2**31)])
def test_an_array_that_cannot_fit_is_refused_before_anything_is_made(count: int) -> None:
    with pytest.raises(ProtocolError):
        reader(struct.pack(">i", count) + b"1234").nullable_count(False)


def test_the_elements_of_all_arrays_together_are_bounded() -> None:
    data = struct.pack(">i", ELEMENTS_MAX) * 2 + bytes(ELEMENTS_MAX + 100)
    cursor = reader(data)
    assert cursor.count(False) == ELEMENTS_MAX
    with pytest.raises(ProtocolError, match="more than"):
        cursor.count(False)


def test_a_length_that_never_ends_is_refused() -> None:
    with pytest.raises(ProtocolError, match="longer than"):
        reader(b"\xff" * 20).varint()


def test_tagged_fields_cannot_outnumber_the_bytes() -> None:
    with pytest.raises(ProtocolError, match="tagged"):
        reader(b"\xff\xff\xff\xff\x0f" + b"\x00" * 8).skip_tagged_fields()


def test_unknown_tagged_fields_are_passed_over() -> None:
    cursor = reader(b"\x02\x05\x02ab\x09\x00" + b"\x07")
    cursor.skip_tagged_fields()
    assert cursor.int8() == 7


def test_what_is_taken_is_a_window_not_a_copy() -> None:
    frame = bytearray(b"\x00\x00\x00\x02hi")
    window = Reader(memoryview(frame)).nullable_bytes(False)
    assert window is not None
    window[0] = ord("H")
    assert frame == b"\x00\x00\x00\x02Hi"


def test_every_error_of_decoding_is_a_protocol_error() -> None:
    for read, data in [
        (Reader.int64, b"\x00"),
        (Reader.int8, b""),
        (Reader.varint, b"\x80"),
        (lambda cursor: cursor.string(False), b"\x00\x02\xff\xfe"),
    ]:
        with pytest.raises(ProtocolError):
            decode(read, memoryview(data))


@given(st.integers(0, 2**32 - 1))
def test_varints_are_read_as_they_are_written(value: int) -> None:
    encoded, rest = bytearray(), value
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    assert reader(bytes(encoded)).varint() == value
