"""Parts that all feeds share: a wake-up signal, and work that is done once for all subscribers."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Result = TypeVar("Result")

HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 0.05
PAUSE_PER_SUBSCRIBER = 0.001
PAUSE_SECONDS_MAX = 0.5


def pause_for(subscribers: int) -> float:
    """How long changes gather before they are sent: with more subscribers, each receives events less often."""
    return min(PAUSE_SECONDS_MAX, LOOK_SECONDS + PAUSE_PER_SUBSCRIBER * subscribers)


class Bell:
    """Wakes all waiting tasks: one that takes `rung` before it reads is woken by every later change."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    def ring(self) -> None:
        rung, self.rung = self.rung, asyncio.Event()
        rung.set()


async def changed(rung: asyncio.Event, seconds: float = HEARTBEAT_SECONDS) -> bool:
    """Whether it rang; False after a while of silence."""
    try:
        async with asyncio.timeout(seconds):
            await rung.wait()
    except TimeoutError:
        return False
    return True


class Shared(Generic[Result]):
    """Results by what was asked, computed on threads: those who ask the same at the same time get one answer.

    The newest are kept, up to a number of bytes.
    """

    def __init__(self, threads: ThreadPoolExecutor, size: Callable[[Result], int], *, bytes_max: int) -> None:
        self._threads, self._size, self._bytes_max = threads, size, bytes_max
        self._kept: OrderedDict[Hashable, asyncio.Future[Result]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self.computed = 0

    async def get(self, asked: Hashable, compute: Callable[[], Result]) -> Result:
        found = self._kept.get(asked)
        if found is None:
            self.computed += 1
            found = asyncio.get_running_loop().run_in_executor(self._threads, compute)
            self._kept[asked] = found
            found.add_done_callback(lambda done: self._done(asked, done))
        return await asyncio.shield(found)

    def _done(self, asked: Hashable, done: "asyncio.Future[Result]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._kept.pop(asked, None)
            return
        self._sizes[asked] = self._size(done.result())
        while self._kept and sum(self._sizes.values()) > self._bytes_max:
            oldest, future = next(iter(self._kept.items()))
            if not future.done():
                break
            del self._kept[oldest]
            self._sizes.pop(oldest, None)
