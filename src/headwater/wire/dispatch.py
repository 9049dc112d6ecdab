"""From the bytes of a request to its handler, and from the response to bytes."""

from typing import Any, NamedTuple

from headwater.errors import ProtocolError
from headwater.wire.protocol.headers import RequestStart, read_client_id, read_start, response_start
from headwater.wire.protocol.reader import Reader, decode
from headwater.wire.routes import API_VERSIONS, Route, find_route, unsupported_api_versions
from headwater.wire.sender import Part

CONTROL_REQUEST_BYTES_MAX = 16 * 1024**2
"""Requests that carry no records are decoded into objects many times their size, so they have a limit of their own."""


class Call(NamedTuple):
    start: RequestStart
    route: Route
    client_id: str | None
    request: Any


def carries_records(frame: memoryview) -> bool:
    """Is this a request whose bytes are mostly records, which the server does not decode?"""
    route = find_route(read_start(frame).api_key)
    return route is not None and route.carries_records


def read_call(frame: memoryview) -> Call | list[Part]:
    """The request, decoded; or at once the answer to one that only asks which versions there are.

    ProtocolError, and no other error, for whatever else the bytes may be.
    """
    start = read_start(frame)
    route = find_route(start.api_key)
    if route is None:
        raise ProtocolError(f"there is no API {start.api_key}")
    if start.api_version not in route.versions:
        if start.api_key == API_VERSIONS:
            # A client of the future asks in a form of the future; the oldest form of the response lists the versions we
            # support.
            body = unsupported_api_versions()
            return [response_start(start.correlation_id, len(body), flexible=False), body]
        raise ProtocolError(f"{route.name} has no version {start.api_version}; {route.versions_text} are served")
    if not route.carries_records and len(frame) > CONTROL_REQUEST_BYTES_MAX:
        raise ProtocolError(f"{route.name} of {len(frame)} bytes; {CONTROL_REQUEST_BYTES_MAX} are allowed")
    codec = route.codec(start.api_version)

    def read(reader: Reader) -> tuple[str | None, Any]:
        client_id = read_client_id(reader, flexible=codec.flexible_request)
        return client_id, codec.read(reader)

    client_id, request = decode(read, frame)
    return Call(start, route, client_id, request)


def write_answer(start: RequestStart, route: Route, response: Any) -> list[Part]:
    """A response as parts ready to be sent, length and header first."""
    codec = route.codec(start.api_version)
    body = codec.write(response)
    size = sum([len(part) if isinstance(part, bytes) else part.length for part in body])
    return [response_start(start.correlation_id, size, flexible=codec.flexible_response_header), *body]
