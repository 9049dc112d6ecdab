"""Group commit: many requests wait, one sync answers them all.

Each partition has at most one sync running. What is appended meanwhile waits together for the next one. Tickets are
taken on the thread that appended, before a task can be cancelled: the records of a client that went away become
durable, and so visible, like all others.
"""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from headwater.errors import HeadwaterError, LogClosed

logger = logging.getLogger("headwater.wire")

SYNC_THREADS = 8


class Durable(Protocol):
    """The part of a partition that this module uses."""

    def make_durable(self, end: int) -> None: ...


class Ticket:
    """A future that resolves when everything below `end` is durable, or fails.

    Resolved and awaited on the event loop.
    """

    __slots__ = ("_error", "_future", "_resolved", "end")

    def __init__(self, end: int) -> None:
        self.end = end
        self._resolved = False
        self._error: HeadwaterError | None = None
        self._future: asyncio.Future[None] | None = None

    def resolve(self, error: HeadwaterError | None) -> None:
        self._resolved, self._error = True, error
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Return when it is durable; raise what kept it from that. One waiter only."""
        if not self._resolved:
            self._future = asyncio.get_running_loop().create_future()
            await self._future
        if self._error is not None:
            raise self._error


class Durability:
    def __init__(self, threads: int = SYNC_THREADS) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._tickets: dict[Durable, list[Ticket]] = {}  # of partitions that have a sync running
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="headwater-sync")

    def stop(self) -> None:
        """Finish what was asked for."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def request(self, partition: Durable, end: int) -> Ticket:
        """Have everything below `end` made durable. From any thread."""
        ticket, first = self.ask(partition, end)
        if first:
            self.submit(partition)
        return ticket

    def ask(self, partition: Durable, end: int) -> tuple[Ticket, bool]:
        """As request, but where no sync is under way for the partition yet, the caller sees to it: by `submit`, or by
        `sync` if it has the time to wait for the disk itself."""
        ticket = Ticket(end)
        with self._lock:
            waiting = self._tickets.get(partition)
            if waiting is not None:
                waiting.append(ticket)
                return ticket, False
            self._tickets[partition] = [ticket]
        return ticket, True

    def submit(self, partition: Durable) -> None:
        """Sync on another thread."""
        pool = self._pool
        try:
            if pool is None:
                raise LogClosed
            pool.submit(self.sync, partition)
        except (RuntimeError, LogClosed):  # RuntimeError: the pool has been shut down
            with self._lock:
                tickets = self._tickets.pop(partition, [])
            self._answer(tickets, LogClosed())

    def sync(self, partition: Durable) -> None:
        """Sync the requested partitions on this thread. Requests that arrive meanwhile use another thread."""
        with self._lock:
            tickets, self._tickets[partition] = self._tickets[partition], []
        error = _make_durable(partition, max(ticket.end for ticket in tickets))
        self._answer(tickets, error)
        with self._lock:
            if not self._tickets[partition]:
                del self._tickets[partition]
                return
        # Through the queue of the pool, not round in a loop: other partitions have their turn.
        self.submit(partition)

    def _answer(self, tickets: list[Ticket], error: HeadwaterError | None) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return

        def resolve() -> None:
            for ticket in tickets:
                ticket.resolve(error)

        try:
            loop.call_soon_threadsafe(resolve)
        except RuntimeError:
            logger.debug("the event loop closed before a sync was answered")


def _make_durable(partition: Durable, end: int) -> HeadwaterError | None:
    try:
        partition.make_durable(end)
    except HeadwaterError as error:
        return error
    except Exception:
        # Whatever it was: nothing may be acknowledged, and no request may wait for ever.
        logger.exception("a sync failed in an unforeseen way")
        return LogClosed()
    return None
