"""Groups on the event loop: waiting, timers, saving, restarts, and nothing left behind."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from headwater import errors
from headwater.clock import ManualClock
from headwater.log.groups.journal import TOPIC
from headwater.log.groups.member import Claim, Join, Joined, Protocol, Sync
from headwater.log.groups.membership import Group
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage, Storage
from headwater.log.storage.simulated import Fault, SimulatedDisk
from headwater.record import TopicPartition
from headwater.settings import LogSettings, WireSettings
from headwater.wire import group_service
from headwater.wire.group_service import GroupService
from tests.waiting import LONG

ORDERS = TopicPartition("orders", 0)
SETTINGS = WireSettings(group_initial_delay=timedelta(0), group_session_timeout_min=timedelta(milliseconds=50))

Scenario = Callable[[GroupService], Coroutine[Any, Any, None]]


def play(scenario: Scenario, *, storage: Storage | None = None, settings: WireSettings = SETTINGS) -> None:
    """Run a scenario against a service over a log, both stopped at the end."""

    async def run() -> None:
        log = Log.open("data", storage=storage or MemoryStorage(), settings=LogSettings(offsets_partitions=2))
        if "orders" not in [topic.name for topic in log.topics()]:
            log.create_topic("orders")
        service = GroupService(log, settings)
        await service.start()
        try:
            await asyncio.wait_for(scenario(service), LONG)
        finally:
            await service.stop()
            log.close()

    asyncio.run(run())


def joining(member_id: str = "", *, fresh: str = "m", session_ms: int = 10_000, **more: Any) -> Join:
    return Join(
        protocol_type="consumer",
        protocols=(Protocol("range", b""),),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        fresh_id=fresh,
        member_id=member_id,
        **more,
    )


async def stable(service: GroupService, group: str = "g", **join: Any) -> Joined:
    joined = await service.join(group, joining(**join))
    claim = Claim(joined.member_id, joined.generation, join.get("instance_id"))
    await service.sync(group, Sync(claim, {joined.member_id: b"all"}))
    return joined


async def eventually(question: Callable[[], bool]) -> None:
    while not question():  # noqa: ASYNC110 (a group has no event for a change)
        await asyncio.sleep(0.01)


async def refusal(waiting: Awaitable[object]) -> type[BaseException]:
    with pytest.raises(errors.HeadwaterError) as caught:
        await waiting
    return caught.type


def state_of(service: GroupService, group: str = "g") -> str | None:
    described = service.describe(group)
    return described.state if described else None


def test_members_wait_for_each_other_and_get_their_shares() -> None:
    async def scenario(service: GroupService) -> None:
        first, second = await asyncio.gather(*(service.join("g", joining(fresh=name)) for name in "ab"))
        leader, follower = (first, second) if first.members else (second, first)
        waiting = asyncio.create_task(service.sync("g", Sync(Claim(follower.member_id, 1), {})))
        shares = {leader.member_id: b"1", follower.member_id: b"2"}
        mine = await service.sync("g", Sync(Claim(leader.member_id, 1), shares))
        assert (mine.assignment, (await waiting).assignment) == (b"1", b"2")

    play(scenario, settings=WireSettings(group_initial_delay=timedelta(milliseconds=20)))


def test_a_silent_member_is_missed() -> None:
    async def scenario(service: GroupService) -> None:
        await stable(service, session_ms=60)
        await eventually(lambda: state_of(service) == "Empty")

    play(scenario)


def test_the_wall_clock_ends_no_session() -> None:
    clock = ManualClock()

    async def scenario(service: GroupService) -> None:
        joined = await stable(service, session_ms=100)
        clock.jump_wall(365 * 24 * 3600 * 1000)
        await asyncio.sleep(0.02)
        service.heartbeat("g", Claim(joined.member_id, 1))

    async def run() -> None:
        log = Log.open("data", storage=MemoryStorage(), clock=clock)
        service = GroupService(log, SETTINGS)
        await service.start()
        await scenario(service)
        await service.stop()
        log.close()

    asyncio.run(run())


def test_after_a_stall_heartbeats_are_handled_before_a_member_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_service, "GRACE_SECONDS", 0.05)
    clock = ManualClock()

    async def run() -> None:
        log = Log.open("data", storage=MemoryStorage(), clock=clock)
        service = GroupService(log, SETTINGS)
        await service.start()
        silent = await stable(service, "silent", session_ms=60)
        joined = await stable(service, session_ms=60)
        clock.advance(60_000)  # the machine slept
        await asyncio.sleep(0.08)
        service.heartbeat("g", Claim(joined.member_id, 1))
        await eventually(lambda: state_of(service, "silent") == "Empty")
        service.heartbeat("g", Claim(joined.member_id, 1))
        assert await refusal(service.sync("silent", Sync(Claim(silent.member_id, 1), {}))) is errors.UnknownMember
        await service.stop()
        log.close()

    asyncio.run(run())


def test_a_client_that_goes_away_while_it_waits_leaves_no_trace() -> None:
    async def scenario(service: GroupService) -> None:
        waiting = asyncio.create_task(service.join("g", joining()))
        await asyncio.sleep(0)
        assert state_of(service) == "PreparingRebalance"
        waiting.cancel()
        await asyncio.wait([waiting])
        assert state_of(service) is None
        assert not service._answers

    play(scenario, settings=WireSettings(group_initial_delay=timedelta(seconds=5)))


def test_members_are_still_in_their_group_after_a_restart() -> None:
    storage = MemoryStorage()
    members: list[Joined] = []

    async def before(service: GroupService) -> None:
        members.append(await stable(service))

    async def after(service: GroupService) -> None:
        claim = Claim(members[0].member_id, 1)
        service.heartbeat("g", claim)
        assert (await service.sync("g", Sync(claim, {}))).assignment == b"all"
        assert state_of(service) == "Stable"

    play(before, storage=storage)
    play(after, storage=storage)


def test_members_that_do_not_come_back_after_a_restart_are_missed() -> None:
    storage = MemoryStorage()

    async def before(service: GroupService) -> None:
        await stable(service, session_ms=60)

    async def after(service: GroupService) -> None:
        assert state_of(service) == "Stable"
        await eventually(lambda: state_of(service) == "Empty")

    play(before, storage=storage)
    play(after, storage=storage)


def test_a_static_member_keeps_its_id_across_a_restart() -> None:
    storage = MemoryStorage()
    members: list[Joined] = []

    async def before(service: GroupService) -> None:
        await stable(service, fresh="first", instance_id="red")
        members.append(await service.join("g", joining(fresh="second", instance_id="red")))

    async def after(service: GroupService) -> None:
        service.heartbeat("g", Claim("second", 1, "red"))
        with pytest.raises(errors.FencedMember):
            service.heartbeat("g", Claim("first", 1, "red"))

    play(before, storage=storage)
    play(after, storage=storage)


def test_generations_continue_counting() -> None:
    async def scenario(service: GroupService) -> None:
        generations = []
        for _ in range(3):
            joined = await stable(service)
            generations.append(joined.generation)
            service.leave("g", joined.member_id, None)
            await eventually(lambda: not service._live)
        assert generations == [1, 3, 5]

    play(scenario)


def test_groups_without_members_cost_nothing() -> None:
    async def scenario(service: GroupService) -> None:
        for number in range(50):
            group = f"g{number}"
            joined = await stable(service, group)
            service.leave(group, joined.member_id, None)
            assert await refusal(service.join(f"x{number}", joining(id_required=True, session_ms=50))) is (
                errors.MemberIdRequired
            )
        await eventually(lambda: not service._live)
        gc.collect()
        assert not [thing for thing in gc.get_objects() if isinstance(thing, Group)]
        assert not service._answers

    play(scenario)


def test_many_commits_share_a_sync() -> None:
    disk = SimulatedDisk()
    syncs: list[str] = []

    async def scenario(service: GroupService) -> None:
        await service.commit("g", Claim(""), {ORDERS: CommittedOffset(0)})
        disk.on_call = lambda call: syncs.append(call.path) if call.operation == "sync" and TOPIC in call.path else None
        commits = [service.commit("g", Claim(""), {ORDERS: CommittedOffset(number)}) for number in range(200)]
        await asyncio.gather(*commits)
        disk.on_call = None
        assert service.fetch("g")[ORDERS].offset == 199

    play(scenario, storage=disk)
    assert len([path for path in syncs if path.endswith(".log")]) < 10


def test_a_commit_that_could_not_be_stored_is_not_acknowledged() -> None:
    disk = SimulatedDisk()

    async def scenario(service: GroupService) -> None:
        claim = Claim("")
        await service.commit("g", claim, {ORDERS: CommittedOffset(1)})
        disk.fail(Fault(["write"], path_part=TOPIC, code=28))
        assert await refusal(service.commit("g", claim, {ORDERS: CommittedOffset(2)})) is errors.DiskFull
        await service.commit("g", claim, {ORDERS: CommittedOffset(3)})
        assert service.fetch("g")[ORDERS].offset == 3

    play(scenario, storage=disk)


def test_a_group_continues_while_the_disk_is_full() -> None:
    disk = SimulatedDisk()

    async def scenario(service: GroupService) -> None:
        await stable(service, "other")
        disk.fail(Fault(["write"], path_part=TOPIC, code=28, sticky=True))
        joined = await stable(service)
        service.heartbeat("g", Claim(joined.member_id, joined.generation))
        service.leave("g", joined.member_id, None)
        await asyncio.sleep(0.05)
        assert (await service.join("g", joining())).generation > joined.generation
        disk.heal()

    play(scenario, storage=disk)


def test_a_deleted_group_stays_deleted() -> None:
    storage = MemoryStorage()

    async def before(service: GroupService) -> None:
        joined = await stable(service)
        await service.commit("g", Claim(joined.member_id, 1), {ORDERS: CommittedOffset(1)})
        assert await refusal(service.delete("g")) is errors.GroupNotEmpty
        service.leave("g", joined.member_id, None)
        await service.delete("g")
        assert await refusal(service.delete("g")) is errors.UnknownGroup

    async def after(service: GroupService) -> None:
        assert service.groups() == []

    play(before, storage=storage)
    play(after, storage=storage)


def test_offsets_of_groups_without_members_expire() -> None:
    async def scenario(service: GroupService) -> None:
        joined = await stable(service, "busy")
        await service.commit("busy", Claim(joined.member_id, 1), {ORDERS: CommittedOffset(1)})
        await service.commit("idle", Claim(""), {ORDERS: CommittedOffset(1)})
        await eventually(lambda: state_of(service, "idle") is None)
        assert service.fetch("busy")[ORDERS].offset == 1

    play(scenario, settings=WireSettings(group_initial_delay=timedelta(0), offsets_retention=timedelta(milliseconds=1)))


def test_stopping_sends_those_who_wait_away_to_try_again() -> None:
    async def scenario(service: GroupService) -> None:
        waiting = asyncio.create_task(service.join("g", joining()))
        await asyncio.sleep(0)
        await service.stop()
        assert await refusal(waiting) is errors.LogClosed
        assert await refusal(service.join("g", joining())) is errors.LogClosed
        with pytest.raises(errors.LogClosed):
            service.heartbeat("g", Claim("m", 1))
        await service.stop()

    play(scenario, settings=WireSettings(group_initial_delay=timedelta(seconds=5)))
