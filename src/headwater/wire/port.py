"""The state that the connections of one server share."""

import asyncio
import ipaddress
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headwater.log.storage import File
from headwater.settings import WireSettings
from headwater.wire.budget import Budget
from headwater.wire.context import Node
from headwater.wire.dispatch import Call, read_call, write_answer
from headwater.wire.frames import FIRST_BYTES, new_scratch
from headwater.wire.protocol.headers import RequestStart
from headwater.wire.routes import Route
from headwater.wire.sender import Part
from headwater.wire.shared import Shared
from headwater.wire.threads import Threads

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.wire.connection import Connection
    from headwater.wire.group_service import GroupService
    from headwater.wire.security import Security

LOOPBACK = "127.0.0.1"
WORK_THREADS = 8
CODEC_THREADS = 2
"""For requests and responses of thousands of elements. Few: they are Python through and through, and whatever runs
beside the event loop takes its turns from it."""
APPEND_THREADS = 4
COLD_THREADS = 8

SLOW_SECONDS = 2.0
"""How long a request may be slow while others wait for the memory it holds."""

logger = logging.getLogger("headwater.wire")


class Port:
    def __init__(
        self, log: "Log", groups: "GroupService", settings: WireSettings, security: "Security | None" = None
    ) -> None:
        self.log, self.groups, self.settings, self.security = log, groups, settings, security
        self.loop = asyncio.get_running_loop()
        self.number = settings.port
        self.local_number = 0
        """Where programs of this machine connect, if others have to log in."""
        self.now = self.loop.time()
        """The time of the last sweep: exact enough for timeouts, and free."""
        self.scratch = new_scratch()
        self.budget = Budget(settings.buffered_request_bytes_max)
        self.executor = ThreadPoolExecutor(WORK_THREADS, thread_name_prefix="headwater-work")
        self._codec_executor = ThreadPoolExecutor(CODEC_THREADS, thread_name_prefix="headwater-codec")
        self._append_threads = Threads(APPEND_THREADS, "headwater-append")
        self._cold_executor = ThreadPoolExecutor(COLD_THREADS, thread_name_prefix="headwater-cold")
        self.shared = Shared(append_threads=self._append_threads, cold_executor=self._cold_executor)
        self.connections: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._unsent_bytes = 0

    def start(self) -> None:
        self.shared.durability.start()

    def stop(self) -> None:
        """Wait for appends and syncs that run; nothing may touch the log after this."""
        self._append_threads.stop()
        self.shared.durability.stop()
        self._cold_executor.shutdown(wait=True, cancel_futures=True)
        self._codec_executor.shutdown(wait=True, cancel_futures=True)
        self.executor.shutdown(wait=True, cancel_futures=True)

    def admit(self, connection: "Connection") -> bool:
        """May this client stay? Counted in any case, until it is forgotten."""
        self.connections.add(connection)
        self._per_address[connection.peer] += 1
        return (
            len(self.connections) <= self.settings.connections_max
            and self._per_address[connection.peer] <= self.settings.connections_per_address_max
        )

    def forget(self, connection: "Connection") -> None:
        if connection in self.connections:
            self.connections.discard(connection)
            self._per_address[connection.peer] -= 1
            if not self._per_address[connection.peer]:
                del self._per_address[connection.peer]

    def node_for(self, local_host: str, *, local: bool = False) -> Node:
        """This server as the client that connected to `local_host` can reach it."""
        if local:
            return Node(self.settings.node_id, LOOPBACK, self.local_number)
        return Node(self.settings.node_id, self.settings.advertised_host or _plain(local_host), self.number)

    async def decode(self, frame: memoryview) -> Call | list[Part]:
        return await self.loop.run_in_executor(self._codec_executor, read_call, frame)

    async def encode(self, start: RequestStart, route: Route, response: Any, throttle_ms: int = 0) -> list[Part]:
        return await self.loop.run_in_executor(self._codec_executor, write_answer, start, route, response, throttle_ms)

    async def read_slowly(self, file: File, position: int, length: int) -> bytes:
        return await self.loop.run_in_executor(self._cold_executor, file.read_at, position, length)

    def sweep(self) -> None:
        self.now = self.loop.time()
        for connection in list(self.connections):
            connection.check_time()
        self._cut_slow_requests()
        self._cut_untaken_responses()
        self.shared.arrivals.sweep()

    def note_unsent(self, connection: "Connection", size: int) -> None:
        """A connection holds so many bytes of a response."""
        self._unsent_bytes += size - connection.unsent_bytes
        connection.unsent_bytes = size
        if self._unsent_bytes > self.settings.unsent_response_bytes_max:
            self._cut_untaken_responses()

    def _cut_slow_requests(self) -> None:
        """While requests wait for memory, those that hold some and bring little are cut off, the slowest first."""
        if not self.budget.wanted():
            return
        slow = [
            (one.slow_since, one.peer, one)
            for one in self.connections
            if one.slow_since is not None and one.held_bytes > FIRST_BYTES
        ]
        for since, _, connection in sorted(slow, key=lambda row: row[:2]):
            if not self.budget.wanted() or self.now - since < SLOW_SECONDS:
                break
            held = connection.held_bytes
            connection.cut_off(f"its request of {held} bytes so far hardly arrives, and others wait for the memory")

    def _cut_untaken_responses(self) -> None:
        """Beyond the limit, clients that do not read are cut off, those that have not read for longest first."""
        untaken = {one: size for one in self.connections if (size := one.untaken_bytes)}
        total = sum(untaken.values())
        for connection in sorted(untaken, key=lambda one: one.untaken_since):
            if total <= self.settings.unsent_response_bytes_max:
                break
            total -= untaken[connection]
            connection.cut_off(f"it does not take the {untaken[connection]} bytes of its answers, as many others")


def _plain(host: str) -> str:
    """Returns an IPv4-mapped IPv6 address as IPv4: a client that connected over IPv4 gets an IPv4 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
