"""From the bytes of a request to its handler, and from the response to bytes."""

import dataclasses
from datetime import timedelta
from typing import Any, NamedTuple

from headwater.errors import ProtocolError
from headwater.wire.protocol.fields import Fields
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


def write_answer(start: RequestStart, route: Route, response: Any, throttle_ms: int = 0) -> list[Part]:
    """A response as parts ready to be sent, length and header first; `throttle_ms`: how long the client has to wait."""
    codec = route.codec(start.api_version)
    if throttle_ms and hasattr(response, "throttle_time"):
        response = Fields(**{name: getattr(response, name) for name in _names(response)})
        response.throttle_time = timedelta(milliseconds=throttle_ms)
    body = codec.write(response)
    if throttle_ms and (position := route.throttle_position(start.api_version)) is not None:
        body = _patched(body, position, throttle_ms)
    size = sum([len(part) if isinstance(part, bytes) else part.length for part in body])
    return [response_start(start.correlation_id, size, flexible=codec.flexible_response_header), *body]


def _names(response: Any) -> list[str]:
    if dataclasses.is_dataclass(response):
        return [field.name for field in dataclasses.fields(response)]
    return list(vars(response))


def _patched(body: list[Part], position: int, throttle_ms: int) -> list[Part]:
    """The time is where every version of the APIs that are written by hand has it: at the start, or near the end."""
    place = 0 if position >= 0 else -1
    part = body[place]
    assert isinstance(part, bytes)
    start = position if position >= 0 else len(part) + position
    patched = part[:start] + throttle_ms.to_bytes(4, "big") + part[start + 4 :]
    return [patched, *body[1:]] if place == 0 else [*body[:-1], patched]
