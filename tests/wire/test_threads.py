import asyncio
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from headwater.errors import UnknownTopic
from headwater.wire.threads import Threads
from tests.waiting import LONG


def run(body: Callable[[Threads], Coroutine[Any, Any, None]], *, count: int = 2) -> None:
    async def with_threads() -> None:
        threads = Threads(count, "test")
        try:
            await body(threads)
        finally:
            await asyncio.to_thread(threads.stop)

    asyncio.run(with_threads())


def test_work_is_done_elsewhere_and_its_answer_comes_back() -> None:
    async def body(threads: Threads) -> None:
        assert await threads.run(threading.get_ident) != threading.get_ident()

    run(body)


def test_what_work_raises_comes_back_too() -> None:
    def fail() -> None:
        raise UnknownTopic("orders")

    async def body(threads: Threads) -> None:
        with pytest.raises(UnknownTopic):
            await threads.run(fail)

    run(body)


def test_what_follows_does_not_delay_the_answer() -> None:
    may_end, followed = threading.Event(), []

    def follow() -> None:
        assert may_end.wait(LONG)
        followed.append(threading.get_ident())

    async def body(threads: Threads) -> None:
        worker = await threads.run(threading.get_ident, then=follow)
        assert followed == []
        may_end.set()
        threads.stop()
        assert followed == [worker]

    run(body)


def test_a_failure_of_what_follows_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    async def body(threads: Threads) -> None:
        for _ in range(3):
            assert await threads.run(lambda: 5, then=lambda: [][0]) == 5

    run(body, count=1)
    assert "unforeseen" in caplog.text


def test_a_spare_thread_is_one_that_no_task_waits_for() -> None:
    held = threading.Event()
    asked: list[bool] = []

    async def body(threads: Threads) -> None:
        await threads.run(lambda: asked.append(threads.spare))
        waiting = threads.run(lambda: held.wait(LONG))
        await threads.run(lambda: asked.append(threads.spare))
        held.set()
        await waiting
        assert asked == [True, False]

    run(body)


def test_an_abandoned_answer_is_dropped() -> None:
    held = threading.Event()

    async def body(threads: Threads) -> None:
        abandoned = threads.run(lambda: held.wait(LONG))
        abandoned.cancel()
        held.set()
        assert await threads.run(lambda: 7) == 7

    run(body, count=1)


def test_what_was_asked_for_is_finished_at_the_stop() -> None:
    done: list[int] = []

    async def body(threads: Threads) -> None:
        for number in range(50):
            threads.run(partial(done.append, number))

    run(body)
    assert sorted(done) == list(range(50))
