import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import ProtocolError
from headwater.wire.budget import Budget
from headwater.wire.frames import FIRST_BYTES, SECOND_BYTES, Frame, FrameAssembler, new_scratch
from tests.wire.raw_client import framed

LIMIT = 100 * 1024**2


def assembler(budget: Budget | None = None, *, bytes_max: int = LIMIT) -> FrameAssembler:
    return FrameAssembler(new_scratch(), bytes_max=bytes_max, budget=budget or Budget(LIMIT))


def feed(target: FrameAssembler, data: bytes, *, piece: int = 1 << 30) -> list[Frame]:
    """Hand over bytes as a socket would: never more than the buffer holds, nor more than `piece` at a time."""
    frames: list[Frame] = []
    while data and not target.starved:
        buffer = target.buffer()
        count = min(len(buffer), len(data), piece)
        buffer[:count] = data[:count]
        frames += target.received(count)
        data = data[count:]
    return frames


@settings(max_examples=40)
@given(
    st.lists(st.binary(min_size=10, max_size=300), max_size=8),
    st.integers(1, 700),
)
def test_requests_come_out_as_they_went_in_however_they_are_cut(bodies: list[bytes], piece: int) -> None:
    target = assembler()
    frames = feed(target, b"".join(framed(body) for body in bodies), piece=piece)
    assert [bytes(frame.view) for frame in frames] == bodies
    assert not target.partial


def test_a_large_request_comes_out_whole_and_writable() -> None:
    body = bytes(range(256)) * 40_000
    frames = feed(assembler(), framed(body) + framed(b"0123456789"))
    assert [bytes(frame.view) for frame in frames] == [body, b"0123456789"]
    frames[0].view[0] = 99


@pytest.mark.parametrize("length", [-1, 0, 9, LIMIT + 1, 2**31 - 1, -(2**31)])
def test_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match="announces"):
        feed(assembler(), struct.pack(">i", length))


def test_requests_before_an_impossible_length_are_given_back() -> None:
    budget = Budget(LIMIT)
    with pytest.raises(ProtocolError):
        feed(assembler(budget), framed(bytes(100)) + struct.pack(">i", -1))
    assert budget.used == 0


def test_a_length_that_is_only_announced_costs_little() -> None:
    budget = Budget(LIMIT)
    target = assembler(budget)
    feed(target, struct.pack(">i", LIMIT) + b"x")
    assert target.partial
    assert budget.used == FIRST_BYTES


def test_memory_grows_with_what_arrives() -> None:
    budget = Budget(LIMIT)
    target = assembler(budget)
    feed(target, struct.pack(">i", 50 * 1024**2) + bytes(FIRST_BYTES))
    assert budget.used == SECOND_BYTES
    feed(target, bytes(SECOND_BYTES))
    assert budget.used == 2 * SECOND_BYTES


def test_a_request_that_finds_no_room_waits_and_continues() -> None:
    budget = Budget(SECOND_BYTES)
    assert budget.lease(10).extend(SECOND_BYTES - 10)
    holder = budget.lease(10)
    assert holder.extend(100), "one may go beyond the limit"
    target = assembler(budget)
    body = bytes(FIRST_BYTES + 1000)
    assert feed(target, framed(body)[: FIRST_BYTES + 4]) == []
    assert target.starved
    holder.release()
    assert target.grow()
    assert [len(frame.view) for frame in feed(target, body[FIRST_BYTES:])] == [len(body)]


def test_what_is_given_up_is_given_back() -> None:
    budget = Budget(LIMIT)
    target = assembler(budget)
    feed(target, struct.pack(">i", 1000) + b"half of it")
    target.discard()
    assert budget.used == 0
    assert not target.partial


def test_a_request_holds_its_bytes_until_it_is_released() -> None:
    budget = Budget(LIMIT)
    frames = feed(assembler(budget), framed(bytes(500)))
    assert budget.used == 500
    frames[0].lease.release()
    assert budget.used == 0
