"""The way into an encrypted port: the handshake, before the connection exists for anybody else.

asyncio tells a protocol of its connection only after the handshake, and bounds neither how many there are nor how long they
take together. So the port takes plain connections, counts them here, and upgrades each.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Protocol, cast

EARLY_BYTES_MAX = 256 * 1024


class Abortable(Protocol):
    def abort(self) -> None: ...


class Unfinished:
    """Connections that have not logged in yet, in the order they came: the oldest go when there are too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[Abortable, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: Abortable) -> None:
        self._waiting[one] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.abort()

    def remove(self, one: Abortable) -> None:
        self._waiting.pop(one, None)


class TlsEntry(asyncio.Protocol):
    """Upgrades one connection, then hands it to the protocol that `make` makes."""

    def __init__(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        unfinished: Unfinished,
        timeout_seconds: float,
    ) -> None:
        self._make, self._context, self._unfinished = make, context, unfinished
        self._timeout_seconds = timeout_seconds
        self._transport: asyncio.Transport | None = None
        self._upgrade: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()  # the handshake begins with the first byte, and must not miss it
        self._unfinished.add(self)
        self._upgrade = asyncio.get_running_loop().create_task(self._upgraded(self._transport))

    def connection_lost(self, error: Exception | None) -> None:
        self._unfinished.remove(self)
        if self._upgrade is not None:
            self._upgrade.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _upgraded(self, transport: asyncio.Transport) -> None:
        loop, early = asyncio.get_running_loop(), _Early()
        try:
            # A context that cannot be made is a reason to hang up on this client, not to end the port.
            secure = await loop.start_tls(
                transport, early, self._context(), server_side=True,
                ssl_handshake_timeout=self._timeout_seconds, ssl_shutdown_timeout=self._timeout_seconds,
            )  # fmt: skip
        except (OSError, ValueError):  # ssl.SSLError, a timeout and a connection that was reset are kinds of OSError
            transport.abort()
            return
        finally:
            self._unfinished.remove(self)
        if secure is None or early.lost:
            transport.abort()
            return
        early.hand_over(secure, self._make())


class _Early(asyncio.Protocol):
    """Keeps what comes between the end of the handshake and the moment at which its task runs on."""

    def __init__(self) -> None:
        self._received = bytearray()
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self._received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True

    def hand_over(self, transport: asyncio.Transport, protocol: asyncio.BaseProtocol) -> None:
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if len(self._received) > EARLY_BYTES_MAX:
            transport.abort()
        elif self._received:
            feed(protocol, self._received)


def feed(protocol: Any, data: "bytes | bytearray") -> None:
    """Give bytes to a protocol of either kind as a transport would."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        protocol.data_received(bytes(data))
        return
    rest = memoryview(data)
    while rest:
        buffer = protocol.get_buffer(len(rest))
        size = min(len(buffer), len(rest))
        memoryview(buffer)[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]
