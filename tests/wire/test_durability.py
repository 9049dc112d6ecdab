import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headwater.errors import LogClosed, PartitionOffline
from headwater.wire.durability import Durability
from tests.waiting import LONG


class SlowPartition:
    """Syncs when it is let."""

    def __init__(self) -> None:
        self.synced: list[int] = []
        self.may_sync = threading.Semaphore(0)
        self.at_sync = threading.Semaphore(0)
        self.failure: Exception | None = None

    def make_durable(self, end: int) -> None:
        self.at_sync.release()
        assert self.may_sync.acquire(timeout=LONG)
        if self.failure is not None:
            raise self.failure
        self.synced.append(end)


def run(body: Callable[[Durability], Coroutine[Any, Any, None]]) -> None:
    async def with_durability() -> None:
        durability = Durability()
        durability.start()
        try:
            await body(durability)
        finally:
            await asyncio.to_thread(durability.stop)

    asyncio.run(with_durability())


async def reach(semaphore: threading.Semaphore) -> None:
    assert await asyncio.to_thread(semaphore.acquire, timeout=LONG)


def test_those_who_come_during_a_sync_share_the_next_one() -> None:
    async def body(durability: Durability) -> None:
        partition = SlowPartition()
        first = durability.request(partition, 1)
        await reach(partition.at_sync)
        later = [durability.request(partition, end) for end in (2, 5, 3)]
        partition.may_sync.release()
        await first.wait()
        await reach(partition.at_sync)
        partition.may_sync.release()
        for ticket in later:
            await ticket.wait()
        assert partition.synced == [1, 5]

    run(body)


def test_a_ticket_that_is_waited_for_late_answers_at_once() -> None:
    async def body(durability: Durability) -> None:
        partition = SlowPartition()
        partition.may_sync.release()
        ticket = durability.request(partition, 1)
        await asyncio.to_thread(durability.stop)
        assert partition.synced == [1]
        await asyncio.wait_for(ticket.wait(), timeout=LONG)

    run(body)


def test_a_failed_sync_fails_every_request_that_waited_for_it() -> None:
    async def body(durability: Durability) -> None:
        partition = SlowPartition()
        partition.failure = PartitionOffline("orders", 0, "a sync failed")
        tickets = [durability.request(partition, end) for end in (1, 2)]
        partition.may_sync.release(2)
        for ticket in tickets:
            with pytest.raises(PartitionOffline):
                await ticket.wait()

    run(body)


def test_an_unforeseen_failure_leaves_no_request_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def body(durability: Durability) -> None:
        partition = SlowPartition()
        partition.failure = ZeroDivisionError("surprise")
        partition.may_sync.release()
        with pytest.raises(LogClosed):
            await durability.request(partition, 1).wait()

    run(body)
    assert "unforeseen" in caplog.text


def test_one_slow_partition_does_not_hold_up_another() -> None:
    async def body(durability: Durability) -> None:
        slow, fast = SlowPartition(), SlowPartition()
        held = durability.request(slow, 1)
        await reach(slow.at_sync)
        fast.may_sync.release()
        await durability.request(fast, 9).wait()
        slow.may_sync.release()
        await held.wait()

    run(body)


def test_what_was_asked_for_is_finished_at_the_stop() -> None:
    partition = SlowPartition()

    async def body(durability: Durability) -> None:
        durability.request(partition, 4)
        partition.may_sync.release()

    run(body)
    assert partition.synced == [4]


def test_after_the_stop_a_request_fails() -> None:
    async def body() -> None:
        durability = Durability()
        durability.start()
        durability.stop()
        with pytest.raises(LogClosed):
            await durability.request(SlowPartition(), 1).wait()

    asyncio.run(body())
