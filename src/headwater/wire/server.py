"""The Kafka port: listens, watches over its connections, and stops without losing what was acknowledged."""

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from headwater.access.tls_listener import TlsListener
from headwater.settings import SecuritySettings, WireSettings
from headwater.wire.bind import check_bind, unavailable
from headwater.wire.connection import Connection
from headwater.wire.group_service import GroupService
from headwater.wire.port import LOOPBACK, Port
from headwater.wire.security import Security

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.wire")

BACKLOG = 1024
SWEEP_SECONDS_MAX = 1.0
STOP_SECONDS_MAX = 5.0
SWITCH_SECONDS = 0.0005


class KafkaServer:
    """Serves a log to Kafka clients. `start` and `stop` once each, on the event loop that serves."""

    def __init__(
        self,
        log: "Log",
        settings: WireSettings | None = None,
        *,
        groups: GroupService | None = None,
        security: Security | None = None,
    ) -> None:
        """Without `security` a port of its own kind is made: there are no logins, and everything is allowed."""
        self._log = log
        self._own_security = security is None
        self._security = security or Security(log, SecuritySettings())
        self._settings = settings or WireSettings()
        self._groups = groups or GroupService(log, self._settings)
        self._port: Port | None = None
        self._servers: list[asyncio.Server] = []
        self._tls: TlsListener | None = None
        self.local_address = ("", 0)
        """Where programs of this machine connect, with the token in the data directory if others log in."""
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; returns the address, with the real port if port 0 was asked for. UnsafeBind, PortUnavailable."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        # Python's usual 5 ms would let a busy thread keep the event loop waiting for as long, at every turn.
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        safe = settings.insecure_public_bind or self._security.settings.public_allowed
        await check_bind(settings.host, insecure=safe)
        await self._groups.start()
        port = self._port = Port(self._log, self._groups, settings, self._security)
        port.start()
        if self._own_security:
            self._security.start()
        try:
            host, port.number = await self._listen(port)
        except OSError as error:
            await self.stop()
            raise unavailable("Kafka", settings.host, settings.port, option="--kafka", error=error) from None
        self.local_address = (host, port.number)
        if self._security.enforcing:
            server = await loop.create_server(lambda: Connection(port, local=True), LOOPBACK, 0, backlog=BACKLOG)
            self._servers.append(server)
            self.local_address = (LOOPBACK, server.sockets[0].getsockname()[1])
            port.local_number = self.local_address[1]
        self._sweep()
        logger.info("listening on %s port %d", host, port.number)
        return host, port.number

    async def _listen(self, port: Port) -> tuple[str, int]:
        """Open the port; encrypted, if it is to be. OSError."""
        settings, security = self._settings, self._security
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(port), settings.host, settings.port,
            backlog=BACKLOG, reuse_address=True, start_serving=security.tls is None,
        )  # fmt: skip
        address: tuple[str, int] = server.sockets[0].getsockname()[:2]
        if security.tls is None:
            self._servers.append(server)
            return address
        tls = security.tls
        timeout = security.settings.login_timeout.total_seconds()
        self._tls = TlsListener(lambda: Connection(port), lambda: tls.context, security.unfinished, timeout)
        opened = [one.dup() for one in server.sockets]
        server.close()
        for one in opened:
            one.listen(BACKLOG)
            self._tls.start(one)
        return address

    async def stop(self) -> None:
        """Take no more requests, answer those that were taken, then close. May be called again."""
        servers, self._servers = self._servers, []
        port, self._port = self._port, None
        for server in servers:
            server.close()
        if self._tls is not None:
            self._tls.close()
            self._tls = None
        if self._sweeping is not None:
            self._sweeping.cancel()
        if port is None:
            return
        for connection in port.connections:
            connection.refuse_more()
        port.shared.arrivals.stop()
        await self._groups.stop()
        await self._drain(port)
        for connection in list(port.connections):
            connection.abort()
        await asyncio.sleep(0)  # let connection_lost cancel what still waits
        await asyncio.to_thread(port.stop)
        if self._own_security:
            await asyncio.to_thread(self._security.stop)

    async def _drain(self, port: Port) -> None:
        working = [asyncio.ensure_future(connection.finished()) for connection in port.connections if connection.busy]
        if working:
            _, late = await asyncio.wait(working, timeout=STOP_SECONDS_MAX)
            for task in late:
                task.cancel()

    def _sweep(self) -> None:
        port = self._port
        if port is None:
            return
        port.sweep()
        self._sweeping = port.loop.call_later(self._sweep_seconds(), self._sweep)

    def _sweep_seconds(self) -> float:
        settings = self._settings
        timeouts = (settings.partial_request_timeout, settings.stalled_client_timeout, settings.idle_connection_timeout)
        return min(SWEEP_SECONDS_MAX, min(timeouts).total_seconds() / 4)
