"""A client that says exactly what a test wants, well-formed or not."""

import io
import socket
import struct
from typing import Any, Self

from kio.index import load_response_schema
from kio.serial import entity_writer

from headwater.log.batch_format import encode_batch
from headwater.record import Record
from headwater.wire.protocol.entities import entity_reader
from headwater.wire.protocol.reader import decode
from tests.waiting import LONG


class RawClient:
    def __init__(self, host: str, port: int, *, timeout: float = LONG) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_request(self, request: Any) -> int:
        """Send a kio request; answers its correlation id."""
        self._correlation_id += 1
        self.send(request_frame(request, self._correlation_id))
        return self._correlation_id

    def receive(self, count: int) -> bytes:
        """Exactly `count` bytes, or fewer where the connection ends."""
        parts = []
        while count and (part := self._receive(count)):
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _receive(self, count: int) -> bytes:
        try:
            return self.socket.recv(min(count, 1 << 20))
        except ConnectionResetError:
            return b""

    def receive_frame(self) -> bytes:
        """One response with its header; b"" if the connection was closed."""
        length = self.receive(4)
        return self.receive(struct.unpack(">i", length)[0]) if len(length) == 4 else b""

    def receive_response(self, api_key: int, version: int) -> tuple[int, Any]:
        """Correlation id and response."""
        frame = self.receive_frame()
        assert frame, "the connection was closed"
        return struct.unpack_from(">i", frame)[0], read_response(frame, api_key, version)

    def call(self, request: Any) -> Any:
        """Send a kio request and answer its kio response."""
        sent = self.send_request(request)
        answered, response = self.receive_response(request.__api_key__, request.__version__)
        assert answered == sent
        return response

    def closed(self) -> bool:
        """Does the server end the connection, without another byte?"""
        return self.receive(1) == b""


def request_frame(request: Any, correlation_id: int = 1, client_id: str | None = "test") -> bytes:
    buffer = io.BytesIO()
    header_type = request.__header_schema__
    header = header_type(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    entity_writer(header_type)(buffer, header)
    entity_writer(type(request))(buffer, request)
    return framed(buffer.getvalue())


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def read_response(frame: bytes, api_key: int, version: int) -> Any:
    response_type: Any = load_response_schema(api_key, version)
    start = 5 if response_type.__header_schema__.__flexible__ else 4
    return decode(entity_reader(response_type), memoryview(frame), start)


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000, **options: Any) -> bytes:
    """A record batch with one record for each value."""
    return bytes(encode_batch([Record(value, timestamp_ms=timestamp_ms) for value in values], **options))
