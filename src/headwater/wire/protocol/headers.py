"""The headers before the body of every request and response."""

import struct
from typing import NamedTuple

from headwater.errors import ProtocolError
from headwater.wire.protocol.reader import Reader

_START = struct.Struct(">hhi")
_RESPONSE = struct.Struct(">ii")

LENGTH_BYTES = 4
NO_TAGGED_FIELDS = b"\x00"


class RequestStart(NamedTuple):
    """The part of the header that has one form in all versions of all APIs."""

    api_key: int
    api_version: int
    correlation_id: int


def read_start(frame: memoryview) -> RequestStart:
    if len(frame) < _START.size:
        raise ProtocolError(f"a request of {len(frame)} bytes is shorter than its header")
    return RequestStart._make(_START.unpack_from(frame))


def read_client_id(reader: Reader, *, flexible: bool) -> str | None:
    """The rest of the header; leaves the reader at the body.

    The name is in the old form even in flexible versions: a broker must be able to read it before it knows them.
    """
    reader.position = _START.size
    client_id = reader.nullable_string(False)
    if flexible:
        reader.skip_tagged_fields()
    return client_id


def response_start(correlation_id: int, body_bytes: int, *, flexible: bool) -> bytes:
    """Length and header of a response whose body has `body_bytes` bytes."""
    if flexible:
        return _RESPONSE.pack(LENGTH_BYTES + 1 + body_bytes, correlation_id) + NO_TAGGED_FIELDS
    return _RESPONSE.pack(LENGTH_BYTES + body_bytes, correlation_id)
