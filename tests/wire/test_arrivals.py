import asyncio
import threading
from collections.abc import Callable

from headwater.wire.arrivals import Arrivals
from tests.waiting import LONG


class Partition:
    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def change(self) -> None:
        """As an append on another thread would."""
        thread = threading.Thread(target=lambda: [callback() for callback in self.callbacks])
        thread.start()
        thread.join()


def soon(seconds: float = LONG) -> float:
    return asyncio.get_running_loop().time() + seconds


def test_a_change_wakes_all_who_wait() -> None:
    async def body() -> None:
        arrivals, partition = Arrivals(), Partition()
        waiters = [arrivals.watch([partition]) for _ in range(3)]
        waiting = [asyncio.ensure_future(waiter.wait(soon())) for waiter in waiters]
        await asyncio.sleep(0)
        partition.change()
        assert await asyncio.gather(*waiting) == [True, True, True]
        assert len(partition.callbacks) == 1, "one subscription serves them all"

    asyncio.run(body())


def test_a_change_before_the_wait_is_not_missed() -> None:
    async def body() -> None:
        arrivals, partition = Arrivals(), Partition()
        waiter = arrivals.watch([partition])
        partition.change()
        await asyncio.sleep(0.01)
        assert await waiter.wait(soon())

    asyncio.run(body())


def test_any_of_several_partitions_wakes() -> None:
    async def body() -> None:
        arrivals, first, second = Arrivals(), Partition(), Partition()
        waiter = arrivals.watch([first, second])
        second.change()
        assert await waiter.wait(soon())

    asyncio.run(body())


def test_waiting_ends_at_the_deadline() -> None:
    async def body() -> None:
        waiter = Arrivals().watch([Partition()])
        assert not await waiter.wait(soon(0.02))
        assert not await waiter.wait(soon(-1))

    asyncio.run(body())


def test_many_changes_are_one_call_on_the_loop() -> None:
    async def body() -> None:
        arrivals, partition = Arrivals(), Partition()
        waiter = arrivals.watch([partition])
        for _ in range(50):
            partition.change()
        assert await waiter.wait(soon())
        assert not await waiter.wait(soon(0.02))

    asyncio.run(body())


def test_a_partition_without_waiting_fetches_is_left_alone_after_two_sweeps() -> None:
    async def body() -> None:
        arrivals, partition = Arrivals(), Partition()
        waiter = arrivals.watch([partition])
        arrivals.sweep()
        arrivals.sweep()
        assert partition.callbacks, "a fetch waits"
        waiter.close()
        arrivals.sweep()
        assert partition.callbacks, "a fetch waited a moment ago"
        arrivals.sweep()
        assert not partition.callbacks

    asyncio.run(body())


def test_stopping_wakes_every_waiter() -> None:
    async def body() -> None:
        arrivals, partition = Arrivals(), Partition()
        waiter = arrivals.watch([partition])
        arrivals.stop()
        assert await waiter.wait(soon())
        assert arrivals.stopping
        assert not partition.callbacks

    asyncio.run(body())


def test_a_change_after_the_loop_has_closed_is_harmless() -> None:
    partition = Partition()

    async def body() -> None:
        Arrivals().watch([partition])

    asyncio.run(body())
    partition.change()
