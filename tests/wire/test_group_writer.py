"""Writing for groups: in order, together, and honest about what failed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headwater import errors
from headwater.log.groups.entry import Entry
from headwater.log.groups.member import SavedGroup
from headwater.log.groups.offsets import CommittedOffset, GroupOffsets
from headwater.log.groups.records import GroupKey
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.record import TopicPartition
from headwater.wire.group_writer import GroupWriter

ORDERS, NOWHERE = TopicPartition("orders", 0), TopicPartition("nowhere", 0)

Scenario = Callable[[GroupWriter, GroupOffsets], Coroutine[Any, Any, None]]


def play(scenario: Scenario) -> None:
    async def run() -> None:
        with Log.open("data", storage=MemoryStorage()) as log:
            log.create_topic("orders")
            writer = GroupWriter(log.group_offsets, queues=4)
            await scenario(writer, log.group_offsets)
            await writer.close()

    asyncio.run(run())


def test_work_on_a_group_keeps_its_order() -> None:
    async def scenario(writer: GroupWriter, offsets: GroupOffsets) -> None:
        works = [
            writer.commit("g", {ORDERS: CommittedOffset(1)}),
            writer.save("g", [Entry(GroupKey("g"), SavedGroup("g", "consumer", 1))]),
            writer.delete("g"),
            writer.commit("g", {ORDERS: CommittedOffset(2)}),
            writer.save("g", [Entry(GroupKey("g"), SavedGroup("g", "consumer", 2))]),
            writer.commit("g", {ORDERS: CommittedOffset(3)}),
        ]
        assert await asyncio.gather(*works) == [{}] * 6
        assert offsets.fetch("g")[ORDERS].offset == 3
        assert offsets.saved_group("g") == SavedGroup("g", "consumer", 2)

    play(scenario)


def test_what_was_on_its_way_is_deleted_too() -> None:
    async def scenario(writer: GroupWriter, offsets: GroupOffsets) -> None:
        await asyncio.gather(writer.commit("g", {ORDERS: CommittedOffset(1)}), writer.delete("g"))
        assert offsets.groups() == []

    play(scenario)


def test_what_cannot_be_committed_is_named_and_the_rest_committed() -> None:
    async def scenario(writer: GroupWriter, offsets: GroupOffsets) -> None:
        refused = await writer.commit("g", {ORDERS: CommittedOffset(1), NOWHERE: CommittedOffset(1)})
        assert isinstance(refused, dict)
        assert [(partition, type(error)) for partition, error in refused.items()] == [(NOWHERE, errors.UnknownTopic)]
        assert list(offsets.fetch("g")) == [ORDERS]

    play(scenario)


def test_the_client_of_a_request_may_have_disconnected() -> None:
    async def scenario(writer: GroupWriter, offsets: GroupOffsets) -> None:
        writer.commit("g", {ORDERS: CommittedOffset(1)}).cancel()
        await writer.commit("g", {ORDERS: CommittedOffset(2)})
        assert offsets.fetch("g")[ORDERS].offset == 2

    play(scenario)


def test_an_unforeseen_failure_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def scenario(writer: GroupWriter, offsets: GroupOffsets) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(offsets, "write", fail)
            assert isinstance(await writer.commit("g", {ORDERS: CommittedOffset(1)}), errors.UnavailableError)
        assert await writer.commit("g", {ORDERS: CommittedOffset(2)}) == {}

    play(scenario)


def test_closing_finishes_what_was_begun_and_refuses_the_rest() -> None:
    async def scenario(writer: GroupWriter, offsets: GroupOffsets) -> None:
        begun = writer.commit("g", {ORDERS: CommittedOffset(1)})
        await writer.close()
        assert begun.result() == {}
        assert isinstance(await writer.commit("g", {ORDERS: CommittedOffset(2)}), errors.LogClosed)
        assert offsets.fetch("g")[ORDERS].offset == 1

    play(scenario)
