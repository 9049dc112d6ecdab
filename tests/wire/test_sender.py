import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from headwater.errors import ProtocolError
from headwater.log.snapshot import Slice
from headwater.wire.sender import Part, Sender

CHUNK = 100


class Socket(asyncio.Transport):
    """Takes `room` bytes, then pauses the sender until it is read."""

    def __init__(self, room: int = 1 << 30) -> None:
        super().__init__()
        self.room = room
        self.taken = bytearray()
        self.waiting = 0
        self.sender: Sender
        self.writes: list[int] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high

    def writelines(self, list_of_data: Any) -> None:
        data = b"".join(list_of_data)
        self.writes.append(len(data))
        self.taken += data
        self.waiting += len(data)
        if self.waiting > self.room:
            self.sender.pause()

    def read_all(self) -> None:
        self.waiting = 0
        self.sender.resume()


class Disk:
    """A file that has only a part of itself in memory."""

    def __init__(self, content: bytes, *, cached: int) -> None:
        self.content, self.cached = content, cached
        self.slow_reads = 0

    def read_cached(self, position: int, length: int) -> bytes | None:
        return self.content[position : min(position + length, self.cached)] or None

    def read_at(self, position: int, length: int) -> bytes:
        self.slow_reads += 1
        return self.content[position : position + length]


async def read_slowly(file: Any, position: int, length: int) -> bytes:
    await asyncio.sleep(0)
    data: bytes = file.read_at(position, length)
    return data


def run(
    parts: Sequence[Part], socket: Socket, then: Callable[["asyncio.Task[None]"], Awaitable[None]] | None = None
) -> None:
    async def body() -> None:
        socket.sender = Sender(socket, chunk_bytes=CHUNK, read_slowly=read_slowly)
        task = asyncio.ensure_future(socket.sender.send(parts))
        if then is not None:
            await then(task)
        await task

    asyncio.run(body())


def slice_of(disk: Disk, position: int, length: int) -> Slice:
    return Slice(disk, position, length)  # type: ignore[arg-type]  # as much of a file as is needed


def test_parts_leave_in_order_and_whole() -> None:
    disk = Disk(bytes(range(250)), cached=250)
    socket = Socket()
    run([b"head", slice_of(disk, 10, 230), b"tail"], socket)
    assert bytes(socket.taken) == b"head" + disk.content[10:240] + b"tail"


def test_small_parts_leave_together() -> None:
    socket = Socket()
    run([b"a", slice_of(Disk(b"bcd", cached=3), 0, 3), b"e"], socket)
    assert socket.writes == [5]


def test_what_is_not_in_memory_is_read_elsewhere() -> None:
    disk = Disk(bytes(300), cached=120)
    socket = Socket()
    run([slice_of(disk, 0, 300)], socket)
    assert len(socket.taken) == 300
    assert disk.slow_reads > 0


def test_a_client_that_does_not_read_holds_one_chunk() -> None:
    disk = Disk(bytes(100_000), cached=100_000)
    socket = Socket(room=0)

    async def stall(task: "asyncio.Task[None]") -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        assert not task.done()
        assert len(socket.taken) == CHUNK
        assert socket.sender.blocked
        socket.room = 1 << 30
        socket.read_all()

    run([slice_of(disk, 0, 100_000)], socket, stall)
    assert len(socket.taken) == 100_000
    assert socket.limit == 1, "a chunk pauses the sender at once, also where a transport encrypts"


def test_others_have_their_turn_while_a_large_response_flows() -> None:
    turns = []

    async def count(task: "asyncio.Task[None]") -> None:
        while not task.done():
            turns.append(1)
            await asyncio.sleep(0)

    run([slice_of(Disk(bytes(1), cached=0), 0, 0), bytes(10), *([bytes(1000)] * 30_000)], Socket(), count)
    assert len(turns) > 3


def test_a_file_that_ends_before_its_slice_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="a file ended"):
        run([slice_of(Disk(bytes(50), cached=50), 0, 80)], Socket())
