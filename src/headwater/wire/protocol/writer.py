"""Pieces of hand-written responses."""

import struct
from uuid import UUID

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def write_varint(target: bytearray, value: int) -> None:
    while value > 0x7F:
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)


def write_count(target: bytearray, count: int, *, flexible: bool) -> None:
    """How many elements, or bytes of a byte string, follow; -1 is null."""
    if flexible:
        write_varint(target, count + 1)
    else:
        target += _INT32.pack(count)


STRING_BYTES_MAX = 2**15 - 1
"""Of a text in a version that is not flexible; its length is an int16."""


def cut(text: str) -> str:
    """As much of a text as every version can carry: an error's message may repeat what the client sent, and more."""
    return text.encode(errors="replace")[:STRING_BYTES_MAX].decode(errors="ignore")


def write_string(target: bytearray, text: str | None, *, flexible: bool) -> None:
    encoded = b"" if text is None else text.encode(errors="replace")
    if not flexible and len(encoded) > STRING_BYTES_MAX:
        encoded = cut(text or "").encode()
    length = -1 if text is None else len(encoded)
    if flexible:
        write_varint(target, length + 1)
    else:
        target += _INT16.pack(length)
    target += encoded


def write_topic(target: bytearray, topic: str | UUID, *, flexible: bool) -> None:
    """A topic is named in older versions and identified in newer ones."""
    if isinstance(topic, UUID):
        target += topic.bytes
    else:
        write_string(target, topic, flexible=flexible)
