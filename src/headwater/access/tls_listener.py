"""An encrypted port: takes connections, and hands them over once they are encrypted.

asyncio passes a connection to its protocol only after the handshake, and bounds neither how many there are nor how
long they take together. So connections are taken here one by one, counted until they have logged in, and upgraded.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger("headwater.access")

OUT_OF_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
PAUSE_SECONDS = 0.1


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


class _Handshake:
    """One connection on its way in."""

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    def abort(self) -> None:
        self._task.cancel()


class TlsListener:
    """On one event loop: `start`, then `close`; connections that are encrypted stay."""

    def __init__(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        unfinished: Unfinished,
        timeout_seconds: float,
    ) -> None:
        """`make` makes the protocol of a connection, `context` gives the certificate of the moment."""
        self._make, self._context, self._unfinished = make, context, unfinished
        self._timeout_seconds = timeout_seconds
        self._listening: list[tuple[socket.socket, asyncio.Task[None]]] = []
        self._upgrades: set[asyncio.Task[None]] = set()

    def start(self, listening: socket.socket) -> None:
        """Take connections from a socket that listens. It is closed with the listener."""
        listening.setblocking(False)
        accepting = asyncio.get_running_loop().create_task(self._accept(listening))
        self._listening.append((listening, accepting))

    def close(self) -> None:
        for listening, accepting in self._listening:
            accepting.cancel()
            listening.close()
        self._listening.clear()
        for upgrade in self._upgrades:
            upgrade.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno not in OUT_OF_FILES and listening.fileno() < 0:
                    return
                await asyncio.sleep(PAUSE_SECONDS)  # no files are left, or the client has gone: the next one is tried
                continue
            # Small answers leave at once, as from other ports.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            upgrade = loop.create_task(self._upgrade(client))
            self._upgrades.add(upgrade)
            upgrade.add_done_callback(self._upgrades.discard)

    async def _upgrade(self, client: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        handshake = _Handshake(task)
        self._unfinished.add(handshake)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make, client, ssl=self._context(),
                ssl_handshake_timeout=self._timeout_seconds, ssl_shutdown_timeout=self._timeout_seconds,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # ssl.SSLError, a timeout and a connection that was reset are OSErrors
            logger.debug("a client could not encrypt its connection: %s", error)
        finally:
            self._unfinished.remove(handshake)
