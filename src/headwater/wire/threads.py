"""A few threads for short work that blocks, with as little as possible between the event loop and the work.

concurrent.futures makes two futures and takes several locks for each piece of work. For appends, of which there may be
thousands in a second, that costs as much as the append.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")
Work = Callable[[], None]

logger = logging.getLogger("headwater.wire")


class Threads:
    def __init__(self, count: int, name: str) -> None:
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._busy = 0
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._threads = [threading.Thread(target=self._serve, name=f"{name}-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def run(self, work: Callable[[], Result], then: Work | None = None) -> "asyncio.Future[Result]":
        """What `work` answers or raises, when it has been done on one of the threads.

        `then` follows on the same thread, after the answer was passed on.
        """
        future: asyncio.Future[Result] = self._loop.create_future()

        def do() -> None:
            try:
                result = work()
            # Whatever it is, it is raised in the task that waits.
            except BaseException as error:  # noqa: BLE001
                self._answer(_fail, future, error)
                return
            self._answer(_succeed, future, result)
            if then is not None:
                then()

        self._queue.put(do)
        return future

    @property
    def spare(self) -> bool:
        """Is a thread free beside the one that asks, and nothing waiting for it?"""
        return self._queue.empty() and self._busy < len(self._threads)

    def stop(self) -> None:
        """Finish what was asked for."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            with self._lock:
                self._busy += 1
            try:
                work()
            except Exception:
                logger.exception("work failed in an unforeseen way")
            finally:
                with self._lock:
                    self._busy -= 1

    def _answer(self, settle: Callable[..., None], future: "asyncio.Future[Result]", outcome: object) -> None:
        try:
            self._loop.call_soon_threadsafe(settle, future, outcome)
        except RuntimeError:
            logger.debug("the event loop closed before its work was done")


def _succeed(future: "asyncio.Future[Result]", result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Result]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
