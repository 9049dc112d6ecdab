"""A Kafka port to talk to: on a thread of its own, over a log in memory."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvloop

from headwater.log.log import Log
from headwater.log.storage import Storage
from headwater.log.storage.memory import MemoryStorage
from headwater.settings import LogSettings, SecuritySettings, WireSettings
from headwater.wire.port import Port
from headwater.wire.security import Security
from headwater.wire.server import KafkaServer
from tests.waiting import LONG

Result = TypeVar("Result")


class RunningServer:
    def __init__(
        self, log: Log, settings: WireSettings, loop: asyncio.AbstractEventLoop, security: SecuritySettings
    ) -> None:
        self.log = log
        self._loop = loop
        self.security = Security(log, security)
        self._server = KafkaServer(log, settings, security=self.security)
        self.host, self.port = self.run(self._server.start())
        self.security.start()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def shared_port(self) -> Port:
        """What the connections share: for tests that look inside."""
        port = self._server._port
        assert port is not None
        return port

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=LONG)

    def look(self, question: Callable[[], Result]) -> Result:
        """Ask something on the loop's own thread."""

        async def ask() -> Result:
            return question()

        return self.run(ask())

    def stop(self) -> None:
        self.run(self._server.stop())
        self.security.stop()


@contextmanager
def running_server(
    *,
    storage: Storage | None = None,
    log_settings: LogSettings | None = None,
    path: str = "data",
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
    security: SecuritySettings | None = None,
    **settings: Any,
) -> Iterator[RunningServer]:
    loop = new_loop()
    thread = threading.Thread(target=loop.run_forever, name="test-kafka-port")
    thread.start()
    log = Log.open(path, storage=storage or MemoryStorage(), settings=log_settings)
    try:
        server = RunningServer(log, WireSettings(**{"port": 0, **settings}), loop, security or SecuritySettings())
        try:
            yield server
        finally:
            server.stop()
    finally:
        log.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
