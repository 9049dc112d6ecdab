"""A connection that must say what it wants within a time; uvicorn's own waits for the head of a request for ever."""

import asyncio
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_open: "WeakValueDictionary[str, H11Protocol]" = WeakValueDictionary()


def hang_up(scope: Mapping[str, Any]) -> None:
    """End the connection of a request at once, whatever its other side has not read yet."""
    connection = _open.get(_name(scope.get("client"), scope.get("server")))
    if connection is not None:
        connection.transport.abort()


def _name(client: Any, server: Any) -> str:
    return f"{client and tuple(client[:2])} {server and tuple(server[:2])}"


def connections(head_seconds: float) -> type[H11Protocol]:
    """The protocol of connections on which the head of each request may take so long to arrive."""

    class Connection(H11Protocol):
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            _open[_name(transport.get_extra_info("peername"), transport.get_extra_info("sockname"))] = self
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._stop_waiting()
            elif self._waiting is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._waiting = self.loop.call_later(head_seconds, self._give_up)

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _give_up(self) -> None:
            self._waiting = None
            if not self.transport.is_closing():
                self.transport.close()

    return Connection
