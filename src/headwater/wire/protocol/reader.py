"""A cursor over the bytes of one request that never believes a length before it has looked at what remains.

Python's containers are many times larger than the bytes they were read from, so the number of elements in a request is
bounded too, not only each count.
"""

import struct
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from headwater.errors import ProtocolError

Value = TypeVar("Value")

ELEMENTS_MAX = 100_000
VARINT_BYTES_MAX = 5

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT16 = struct.Struct(">H")
_FLOAT64 = struct.Struct(">d")


class Reader:
    """Reads forward; ProtocolError where the bytes end too early or contradict themselves.

    The fixed-size reads lean on struct's own check of the end and on the one of indexing: `decode` translates those
    errors. Use a Reader only inside it.
    """

    __slots__ = ("elements_left", "end", "position", "view")

    def __init__(self, view: memoryview, position: int = 0) -> None:
        self.view = view
        self.position = position
        self.end = len(view)
        self.elements_left = ELEMENTS_MAX

    def int8(self) -> int:
        position = self.position
        self.position = position + 1
        value: int = _INT8.unpack_from(self.view, position)[0]
        return value

    def int16(self) -> int:
        position = self.position
        self.position = position + 2
        value: int = _INT16.unpack_from(self.view, position)[0]
        return value

    def uint16(self) -> int:
        position = self.position
        self.position = position + 2
        value: int = _UINT16.unpack_from(self.view, position)[0]
        return value

    def int32(self) -> int:
        position = self.position
        self.position = position + 4
        value: int = _INT32.unpack_from(self.view, position)[0]
        return value

    def int64(self) -> int:
        position = self.position
        self.position = position + 8
        value: int = _INT64.unpack_from(self.view, position)[0]
        return value

    def float64(self) -> float:
        position = self.position
        self.position = position + 8
        value: float = _FLOAT64.unpack_from(self.view, position)[0]
        return value

    def boolean(self) -> bool:
        return self.int8() != 0

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self.take(16)))

    def varint(self) -> int:
        """An unsigned number, seven bits a byte, of at most 32 bits."""
        byte = self.view[self.position]
        self.position += 1
        if byte < 0x80:
            return byte
        value = byte & 0x7F
        for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
            byte = self.view[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ProtocolError(f"a length is longer than {VARINT_BYTES_MAX} bytes")

    def take(self, length: int) -> memoryview:
        """The next `length` bytes, not copied."""
        position = self.position
        if not 0 <= length <= self.end - position:
            raise ProtocolError(f"{length} bytes are announced where {self.end - position} remain")
        self.position = position + length
        return self.view[position : position + length]

    def nullable_string(self, flexible: bool) -> str | None:
        length = self.varint() - 1 if flexible else self.int16()
        return None if length == -1 else str(self.take(length), "utf-8")

    def string(self, flexible: bool) -> str:
        return present(self.nullable_string(flexible))

    def nullable_bytes(self, flexible: bool) -> memoryview | None:
        length = self.varint() - 1 if flexible else self.int32()
        return None if length == -1 else self.take(length)

    def nullable_count(self, flexible: bool) -> int | None:
        """How many elements follow; each takes a byte or more, so no count can exceed the bytes that remain."""
        count = self.varint() - 1 if flexible else self.int32()
        if count == -1:
            return None
        if not 0 <= count <= self.end - self.position:
            raise ProtocolError(f"{count} elements are announced where {self.end - self.position} bytes remain")
        self.elements_left -= count
        if self.elements_left < 0:
            raise ProtocolError(f"a request holds more than {ELEMENTS_MAX} elements")
        return count

    def count(self, flexible: bool) -> int:
        return present(self.nullable_count(flexible))

    def skip_tagged_fields(self) -> None:
        if self.view[self.position] == 0:  # nearly always there are none
            self.position += 1
            return
        for _ in range(self.tagged_fields()):
            self.varint()
            self.take(self.varint())

    def tagged_fields(self) -> int:
        count = self.varint()
        if count > self.end - self.position:
            raise ProtocolError(f"{count} tagged fields are announced where {self.end - self.position} bytes remain")
        return count


def present(value: Value | None) -> Value:
    if value is None:
        raise ProtocolError("a field that must have a value is null")
    return value


def decode(read: Callable[[Reader], Value], view: memoryview, position: int = 0) -> Value:
    """What `read` makes of the bytes; ProtocolError, and no other error, if they are not what they claim to be."""
    reader = Reader(view, position)
    try:
        return read(reader)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a request is malformed near byte {reader.position}: {error}") from None
