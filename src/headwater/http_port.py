"""The HTTP port of a node: opens the socket, gives `serve` what the parts offer, and runs it on a thread of its own."""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.capture.http.receiver import Receiver
from headwater.log.log import Log
from headwater.registry.journal import TopicJournal
from headwater.registry.registry import Registry
from headwater.registry.rest import Rest
from headwater.serve.bodies import Bodies
from headwater.serve.http import build_app, server_of
from headwater.serve.services import routes_of, routes_of_posts
from headwater.settings import HttpSettings
from headwater.wire.bind import refuse_public

_logger = logging.getLogger(__name__)

BACKLOG = 128
REGISTRY_CONTENT = "application/vnd.schemaregistry.v1+json"


class HttpPort:
    """A thread and an event loop of its own: what is slow here keeps no Kafka client waiting."""

    def __init__(
        self, log: Log, data: Path, settings: HttpSettings, *, ended: Callable[[BaseException | None], None]
    ) -> None:
        self._settings, self._ended = settings, ended
        self.registry = Registry(TopicJournal(log))
        bodies = Bodies(settings)
        routes = [
            *routes_of(Rest(self.registry), bodies, content_type=REGISTRY_CONTENT),
            *routes_of_posts(Receiver(log, data), bodies),
        ]
        self._server = server_of(build_app(routes, settings), settings)
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None
        self.url = ""

    def start(self) -> None:
        """Clients can connect when this returns. UnsafeBind or OSError if it cannot be opened."""
        listening = self._socket = _listening(self._settings)
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.url = f"http://{shown}"
        self._thread = threading.Thread(target=self._run, args=[listening], name="headwater-http", daemon=True)
        self._thread.start()
        _logger.info("listening on %s", self.url)

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        if self._socket is not None:
            self._socket.close()

    def _run(self, listening: socket.socket) -> None:
        failure: BaseException | None = None
        try:
            asyncio.run(self._server.serve(sockets=[listening]))
        except BaseException as error:  # noqa: BLE001  it is handed to the node, nothing is swallowed
            failure = error
        self._ended(failure)


def _listening(settings: HttpSettings) -> socket.socket:
    host, port = settings.host, settings.port
    found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    if not settings.insecure_public_bind:
        refuse_public(host, [str(address[0]) for *_, address in found])
    family, *_, address = found[0]
    try:
        return _bound(family, address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not settings.port_may_differ:
            raise OSError(error.errno, f"the HTTP port {host}:{port} cannot be opened: {error.strerror}") from None
    _logger.warning("port %d is in use; HTTP takes a free one", port)
    return _bound(family, (address[0], 0, *address[2:]))


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    # With the protocol named: only then asyncio sends small answers at once, instead of 40 ms later.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened
