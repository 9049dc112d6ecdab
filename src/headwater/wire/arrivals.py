"""Waking requests that wait for a partition: a fetch for new records, a produce for free space.

No thread polls or waits. Partitions call back from whatever thread appended; the call is passed on to the event
loop once, however many appends happen before the loop gets to it, and not at all while no fetch waits.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol


class Source(Protocol):
    """The part of a partition that this module uses."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]: ...


class _Watch:
    """All who wait for one partition."""

    __slots__ = ("idle", "loop", "scheduled", "unsubscribe", "waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiters: set[Waiter] = set()
        self.scheduled = False
        self.idle = False
        self.unsubscribe: Callable[[], None] = lambda: None

    def notify(self) -> None:
        """From any thread. A waiter is here before it looks at the partition, so one of the two sees the change."""
        if not self.waiters or self.scheduled:
            return
        self.scheduled = True
        try:
            self.loop.call_soon_threadsafe(self.deliver)
        except RuntimeError:
            return  # the loop is closed, and with it every waiting fetch

    def deliver(self) -> None:
        self.scheduled = False
        for waiter in self.waiters:
            waiter.signal()


class Waiter:
    """One request that waits. Signals between two waits are remembered."""

    def __init__(self, watches: list[_Watch]) -> None:
        self._watches = watches
        self._signalled = False
        self._future: asyncio.Future[bool] | None = None
        for watch in watches:
            watch.waiters.add(self)
            watch.idle = False

    def signal(self) -> None:
        self._signalled = True
        if self._future is not None and not self._future.done():
            self._future.set_result(True)

    async def wait(self, deadline: float) -> bool:
        """True when something happened since the last wait; False at `deadline`, in the time of the loop."""
        if not self._signalled:
            loop = asyncio.get_running_loop()
            if loop.time() >= deadline:
                return False
            self._future = loop.create_future()
            timer = loop.call_at(deadline, _expire, self._future)
            try:
                await self._future
            finally:
                timer.cancel()
        happened, self._signalled = self._signalled, False
        return happened

    def close(self) -> None:
        for watch in self._watches:
            watch.waiters.discard(self)


def _expire(future: "asyncio.Future[bool]") -> None:
    if not future.done():
        future.set_result(False)


class Arrivals:
    def __init__(self) -> None:
        self._watches: dict[Source, _Watch] = {}
        self.stopping = False

    def watch(self, partitions: Iterable[Source]) -> Waiter:
        """Begin to listen. Look at the partitions after this, not before, or a change between is missed."""
        return Waiter([self._watch(partition) for partition in partitions])

    def _watch(self, partition: Source) -> _Watch:
        watch = self._watches.get(partition)
        if watch is None:
            watch = self._watches[partition] = _Watch(asyncio.get_running_loop())
            watch.unsubscribe = partition.subscribe(watch.notify)
        return watch

    def sweep(self) -> None:
        """Stop listening to partitions for which no fetch has waited since the last sweep."""
        for partition, watch in list(self._watches.items()):
            if watch.waiters:
                continue
            if watch.idle:
                watch.unsubscribe()
                del self._watches[partition]
            watch.idle = True

    def stop(self) -> None:
        """Let every waiting fetch answer with the records that exist."""
        self.stopping = True
        for watch in self._watches.values():
            watch.unsubscribe()
            watch.deliver()
        self._watches.clear()
