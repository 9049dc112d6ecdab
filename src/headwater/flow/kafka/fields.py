"""The fields that Kafka's messages are made of. Pure.

int8 int16 int32 int64   big-endian
string                   int16 length (-1 null), that many bytes of UTF-8
bytes                    int32 length (-1 null), that many bytes
array                    int32 count (-1 null), that many elements

Where no version without them says what is needed, the newer form:

compact string, array    varint of length or count + 1 (0 null), then as above
uuid                     16 bytes
tags                     varint count, then each: varint tag, varint size, that many bytes
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from headwater.errors import ProtocolError

Element = TypeVar("Element")

VARINT_BITS_MAX = 28

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def int8(value: int) -> bytes:
    return _INT8.pack(value)


def int16(value: int) -> bytes:
    return _INT16.pack(value)


def int32(value: int) -> bytes:
    return _INT32.pack(value)


def int64(value: int) -> bytes:
    return _INT64.pack(value)


def string(value: str | None) -> bytes:
    """
    >>> string("ab"), string(None)
    (b'\\x00\\x02ab', b'\\xff\\xff')
    """
    if value is None:
        return int16(-1)
    encoded = value.encode()
    if len(encoded) > 0x7FFF:
        raise ProtocolError(f"a text of {len(encoded)} bytes is longer than the protocol can say")
    return int16(len(encoded)) + encoded


def array(elements: Iterable[bytes]) -> bytes:
    """
    >>> array([int8(1), int8(2)])
    b'\\x00\\x00\\x00\\x02\\x01\\x02'
    """
    written = list(elements)
    return int32(len(written)) + b"".join(written)


def varint(value: int) -> bytes:
    """
    >>> varint(1), varint(300)
    (b'\\x01', b'\\xac\\x02')
    """
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


NO_TAGS = varint(0)


def compact_string(value: str) -> bytes:
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def compact_array(elements: Iterable[bytes]) -> bytes:
    written = list(elements)
    return varint(len(written) + 1) + b"".join(written)


class Reader:
    """Takes fields from the front of an answer. Every length is held against what is left before it is believed."""

    def __init__(self, content: bytes | bytearray | memoryview) -> None:
        self._content = memoryview(content)
        self._place = 0

    @property
    def left(self) -> int:
        return len(self._content) - self._place

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ProtocolError("an answer has no text where it must have one")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length == -1:
            return None
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("an answer has text that is not UTF-8") from None

    def bytes(self) -> memoryview:
        """Null reads as empty. The memory is the answer's own."""
        length = self.int32()
        return self._take(0 if length == -1 else length)

    def array(self, element: Callable[[], Element]) -> list[Element]:
        """Null reads as empty."""
        count = self.int32()
        if count == -1:
            return []
        # Every element has at least one byte.
        if not 0 <= count <= self.left:
            raise ProtocolError(f"an answer claims {count} elements where {self.left} bytes remain")
        return [element() for _ in range(count)]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > VARINT_BITS_MAX:
                raise ProtocolError("an answer has a number of more than five bytes where a length should be")

    def compact_string(self) -> str | None:
        length = self.varint()
        if length == 0:
            return None
        try:
            return str(self._take(length - 1), "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("an answer has text that is not UTF-8") from None

    def compact_array(self, element: Callable[[], Element]) -> list[Element]:
        count = max(0, self.varint() - 1)
        if count > self.left:
            raise ProtocolError(f"an answer claims {count} elements where {self.left} bytes remain")
        return [element() for _ in range(count)]

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self._take(16)))

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self._take(self.varint())

    def _number(self, form: struct.Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def _take(self, length: int) -> memoryview:
        if not 0 <= length <= self.left:
            raise ProtocolError(f"an answer claims {length} bytes where {self.left} remain")
        taken = self._content[self._place : self._place + length]
        self._place += length
        return taken
