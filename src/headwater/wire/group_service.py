"""Consumer groups on the event loop: timers, waiting requests and saving, around the pure Group."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from headwater import errors
from headwater.clock import Clock
from headwater.log.groups.consumer import classic
from headwater.log.groups.consumer.description import (
    KIND,
    ConsumerGroupDescription,
    described,
    described_in_full,
)
from headwater.log.groups.consumer.group import MODERN_COMMIT_SINCE, ConsumerGroup
from headwater.log.groups.consumer.heartbeat import JOINING, Catalog, Heartbeat, HeartbeatAnswer, check_heartbeat
from headwater.log.groups.consumer.migration import can_become_consumer_group, to_classic_group, to_consumer_group
from headwater.log.groups.consumer.protocol import PROTOCOL_TYPE
from headwater.log.groups.effects import Effects, Outcome, Save
from headwater.log.groups.group_state import State
from headwater.log.groups.member import (
    Claim,
    DescribedGroup,
    Join,
    Joined,
    Limits,
    SavedGroup,
    Sync,
    Synced,
    Ticket,
)
from headwater.log.groups.membership import Group
from headwater.log.groups.offsets import CommittedOffset, GroupOffsets, check_group
from headwater.log.groups.records import GroupKey
from headwater.record import TopicPartition
from headwater.settings import WireSettings, milliseconds
from headwater.wire.group_writer import GroupWriter, Refused
from headwater.wire.share_groups import ShareGroups
from headwater.wire.topic_catalog import TopicCatalog

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.wire")

STALL_MS = 1_000
GRACE_SECONDS = 5.0
"""After a stall of the process or of the machine, heartbeats lie unread: they are handled before any member expires."""

EXPIRY_SECONDS = 600.0


@dataclass
class _Live:
    group: Group | ConsumerGroup
    timer: asyncio.TimerHandle | None = None
    timer_ms: int = 0
    stalled: bool = False
    """Its timer went off much too late, so it was set once more."""


class GroupService:
    """All groups of this node. Every method belongs on the event loop, between `start` and `stop`."""

    def __init__(self, log: "Log", settings: WireSettings, clock: Clock | None = None) -> None:
        self._log, self._settings, self._clock = log, settings, clock or log.clock
        self._limits = Limits(
            members_max=settings.group_members_max,
            initial_delay_ms=milliseconds(settings.group_initial_delay),
            session_timeout_ms_min=milliseconds(settings.group_session_timeout_min),
            session_timeout_ms_max=milliseconds(settings.group_session_timeout_max),
            consumer_session_timeout_ms=milliseconds(settings.group_consumer_session_timeout),
        )
        self._catalog = TopicCatalog(log)
        self._share = ShareGroups(log, settings, self._clock)
        self._live: dict[str, _Live] = {}
        self._answers: dict[Ticket, asyncio.Future[Outcome]] = {}
        self._tickets = count(1)
        self._running = False
        self._expiry: asyncio.Task[None] | None = None

    @property
    def share(self) -> ShareGroups:
        return self._share

    async def start(self) -> None:
        """Read what was saved; a second start does nothing.

        Members that were in a group are in it still, and have one session timeout to send a heartbeat.
        """
        if self._running:
            return
        loop = asyncio.get_running_loop()
        self._offsets: GroupOffsets = await loop.run_in_executor(None, lambda: self._log.group_offsets)
        await self.share.start()
        self._writer = GroupWriter(self._offsets, queues=self._log.settings.offsets_partitions)
        self._running = True
        for saved in self._offsets.saved_groups():
            if saved.members:
                live = _Live(Group.restore(saved, self._limits, self._now_ms()))
                self._live[saved.id] = live
                self._carry_out(live, live.group.effects())
        for group_id in self._offsets.consumer_groups():
            live = _Live(self._restored(group_id))
            self._live[group_id] = live
            self._carry_out(live, live.group.tick(self._now_ms()))
        self._expiry = loop.create_task(self._expire_now_and_then())

    async def stop(self) -> None:
        """Answer all waiting requests with a retriable error, and finish writing."""
        if not self._running:
            return
        self._running = False
        self.share.stop()
        for live in self._live.values():
            if live.timer is not None:
                live.timer.cancel()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(errors.LogClosed())
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.wait([self._expiry])
        await self._writer.close()

    # Membership in the classic protocol

    async def join(self, group_id: str, request: Join, catalog: Catalog | None = None) -> Joined:
        check_group(group_id)
        if self.share.exists(group_id):
            raise errors.InconsistentProtocol(f'group "{group_id}" is a share group')
        live = self._found(group_id, make=not request.member_id)
        if live is None:
            raise errors.UnknownMember(f'there is no group "{group_id}"')
        if isinstance(live.group, ConsumerGroup) and not len(live.group.members):
            self._change_to_classic(live)
        ticket = next(self._tickets)
        if isinstance(live.group, ConsumerGroup):
            effects = classic.join(live.group, request, catalog or self._catalog, ticket, self._now_ms())
        else:
            effects = live.group.join(request, ticket, self._now_ms())
        outcome = await self._wait(live, ticket, effects)
        assert isinstance(outcome, Joined)
        return outcome

    async def sync(self, group_id: str, request: Sync) -> Synced:
        live = self._member_group(group_id)
        ticket = next(self._tickets)
        if isinstance(live.group, ConsumerGroup):
            effects = classic.sync(live.group, request, ticket, self._now_ms())
        else:
            effects = live.group.sync(request, ticket, self._now_ms())
        outcome = await self._wait(live, ticket, effects)
        assert isinstance(outcome, Synced)
        return outcome

    def heartbeat(self, group_id: str, claim: Claim) -> None:
        live = self._member_group(group_id)
        if not isinstance(live.group, ConsumerGroup):
            live.group.heartbeat(claim, self._now_ms())
            return
        try:
            classic.heartbeat(live.group, claim, self._now_ms())
        finally:
            self._carry_out(live, live.group.effects())

    def leave(self, group_id: str, member_id: str, instance_id: str | None) -> None:
        live = self._member_group(group_id)
        if isinstance(live.group, ConsumerGroup):
            self._carry_out(live, classic.leave(live.group, member_id, instance_id, self._now_ms()))
        else:
            self._carry_out(live, live.group.leave(member_id, instance_id, self._now_ms()))

    # Membership in the consumer protocol

    async def consumer_heartbeat(
        self, group_id: str, request: Heartbeat, catalog: Catalog | None = None
    ) -> HeartbeatAnswer:
        """Answered when what it says is durable."""
        if not group_id.strip():
            raise errors.UsageError("GroupId is empty")
        check_group(group_id)
        check_heartbeat(request)
        if self.share.exists(group_id):
            raise errors.UnknownGroup(group_id)
        catalog = catalog or self._catalog
        live, group = self._consumer_group(group_id, request, catalog)
        ticket = next(self._tickets)
        effects = group.heartbeat(request, catalog, ticket, self._now_ms())
        if self._live.get(group_id) is not live or live.group is not group:
            for answer in effects.answers:
                if isinstance(answer.outcome, errors.HeadwaterError):
                    raise answer.outcome  # the first member was refused: the group stays what it is
            live.group = group
            self._live[group_id] = live
        outcome = await self._wait(live, ticket, effects)
        assert isinstance(outcome, HeartbeatAnswer)
        return outcome

    def _consumer_group(self, group_id: str, request: Heartbeat, catalog: Catalog) -> tuple[_Live, ConsumerGroup]:
        """The group, made or changed to the consumer protocol if this heartbeat is a member's first one."""
        live = self._found(group_id)
        if live is None and self._offsets.consumer_state(group_id):
            live = _Live(self._restored(group_id))
        if live is not None and isinstance(live.group, ConsumerGroup):
            return live, live.group
        if request.epoch != JOINING:
            raise errors.UnknownGroup(group_id)
        classic_group = live.group if live is not None and isinstance(live.group, Group) else None
        if live is None or classic_group is None or classic_group.state is State.EMPTY:
            group = ConsumerGroup(group_id, self._limits)
            saved = self._offsets.saved_group(group_id)
            group.epoch = group.assignment_epoch = saved.generation if saved is not None else 0
            group.save_also([GroupKey(group_id)] if saved is not None else [])
            return live or _Live(group), group
        if classic_group.protocol_type != PROTOCOL_TYPE:
            raise errors.UnknownGroup(group_id)
        if not can_become_consumer_group(classic_group):
            raise errors.UnavailableError(f'group "{group_id}" is rebalancing; the member joins when it has')
        return live, to_consumer_group(classic_group, self._limits, catalog, self._now_ms())

    def _restored(self, group_id: str) -> ConsumerGroup:
        saved = self._offsets.consumer_state(group_id)
        return ConsumerGroup.restore(group_id, saved, self._limits, self._catalog, self._now_ms())

    def _change_to_classic(self, live: _Live) -> None:
        """The last member of the consumer protocol has left, or the first one of the classic protocol comes."""
        assert isinstance(live.group, ConsumerGroup)
        live.group, entries = to_classic_group(live.group, self._limits, self._now_ms())

        def report(written: "asyncio.Future[errors.HeadwaterError | Refused]") -> None:
            if isinstance(failure := written.result(), errors.HeadwaterError):
                logger.warning('group "%s" could not be saved: %s', live.group.id, failure)

        self._writer.save(live.group.id, entries).add_done_callback(report)
        live.group.rebalance(self._now_ms())

    # Offsets

    async def commit(
        self,
        group_id: str,
        claim: Claim,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        api_version: int = MODERN_COMMIT_SINCE,
    ) -> Refused:
        """Durable when it returns, except for the partitions in the answer; raises if nothing may be committed."""
        check_group(group_id)
        live = self._found(group_id)
        if live is not None and isinstance(live.group, ConsumerGroup):
            live.group.check_commit(claim, self._now_ms(), api_version=api_version)
        elif live is not None:
            live.group.check_commit(claim, self._now_ms())
        elif claim.generation >= 0 and not self._remembered(group_id):
            raise errors.StaleGeneration(f'there is no group "{group_id}"')
        elif claim.generation >= 0:
            raise errors.UnknownMember(f'group "{group_id}" has no members')
        return _raised(await self._writer.commit(group_id, offsets))

    def check_transaction(self, group_id: str, claim: Claim) -> None:
        """May a transaction commit offsets under this claim? Who claims nothing is an older client, and may."""
        check_group(group_id)
        live = self._found(group_id)
        if claim == Claim("", claim.generation) and claim.generation < 0:
            return
        if live is not None:
            live.group.check_transaction(claim, self._now_ms())
        elif claim.generation >= 0:
            raise errors.StaleGeneration(f'there is no group "{group_id}"')

    def unstable(self, group_id: str) -> Collection[TopicPartition]:
        """Partitions of which an open transaction is about to commit an offset."""
        self._check_running()
        return self._offsets.unstable(group_id)

    def fetch(
        self, group_id: str, member_id: str | None = None, epoch: int = -1
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """StaleMemberEpoch, UnknownMember for a member of the consumer protocol that claims to be what it is not."""
        live = self._found(group_id)
        if live is not None and isinstance(live.group, ConsumerGroup):
            live.group.check_fetch(member_id, epoch)
        return self._offsets.fetch(group_id)

    async def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> Refused:
        """Forget these offsets, except those of topics that members read: they are in the answer."""
        live = self._found(group_id)
        if live is None and not self._remembered(group_id):
            raise errors.UnknownGroup(group_id)
        refused: Refused = {}
        if live is not None and live.group.state != State.EMPTY:
            if isinstance(live.group, Group) and live.group.protocol_type != PROTOCOL_TYPE:
                raise errors.GroupNotEmpty(group_id)
            refused = {
                where: errors.SubscribedToTopic(f'group "{group_id}" reads topic "{where.topic}"')
                for where in partitions
                if live.group.subscribes(where.topic)
            }
        _raised(await self._writer.delete(group_id, [where for where in partitions if where not in refused]))
        return refused

    # Administration

    def describe(self, group_id: str) -> DescribedGroup | None:
        """The group as it is; None if nothing is known of it."""
        live = self._found(group_id)
        if live is not None:
            return described(live.group) if isinstance(live.group, ConsumerGroup) else live.group.describe()
        if not self._remembered(group_id):
            return None
        if self._offsets.consumer_state(group_id):
            return DescribedGroup(group_id, State.EMPTY, PROTOCOL_TYPE, "", kind=KIND)
        saved = self._offsets.saved_group(group_id) or SavedGroup(group_id)
        return DescribedGroup(group_id, State.EMPTY, saved.protocol_type, "")

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        """UnknownGroup if there is none of the consumer protocol."""
        live = self._found(group_id)
        if live is not None and isinstance(live.group, ConsumerGroup):
            return described_in_full(live.group)
        saved = self._offsets.consumer_state(group_id)
        if live is not None or not saved:
            raise errors.UnknownGroup(group_id)
        return described_in_full(self._restored(group_id))

    def groups(self) -> list[DescribedGroup]:
        self._check_running()
        described = (self.describe(group_id) for group_id in sorted({*self._live, *self._offsets.groups()}))
        return [group for group in described if group is not None] + self.share.groups()

    async def delete(self, group_id: str) -> None:
        """Forget a group and its offsets; GroupNotEmpty while it has members."""
        if self.share.exists(group_id):
            await self.share.delete(group_id)
            return
        live = self._found(group_id)
        if live is None and not self._remembered(group_id):
            raise errors.UnknownGroup(group_id)
        if live is not None:
            self._carry_out(live, live.group.remove())
        _raised(await self._writer.delete(group_id))

    # Groups and their effects

    def _now_ms(self) -> int:
        return self._clock.elapsed_ms()

    def _check_running(self) -> None:
        if not self._running:
            raise errors.LogClosed

    def _remembered(self, group_id: str) -> bool:
        self._check_running()
        return self._offsets.remembers(group_id)

    def _found(self, group_id: str, *, make: bool = False) -> _Live | None:
        self._check_running()
        live = self._live.get(group_id)
        if live is None and make:
            if self._offsets.consumer_state(group_id):
                live = self._live[group_id] = _Live(self._restored(group_id))
                return live
            saved = self._offsets.saved_group(group_id) or SavedGroup(group_id)
            live = self._live[group_id] = _Live(Group.restore(saved, self._limits, self._now_ms()))
        return live

    def _member_group(self, group_id: str) -> _Live:
        live = self._found(group_id)
        if live is None:
            raise errors.UnknownMember(f'group "{group_id}" has no members')
        return live

    async def _wait(self, live: _Live, ticket: Ticket, effects: Effects) -> Outcome:
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._answers[ticket] = answer
        self._carry_out(live, effects)
        try:
            outcome = await answer
        except asyncio.CancelledError:
            if self._running:
                self._carry_out(live, live.group.abandon(ticket, self._now_ms()))
            raise
        finally:
            self._answers.pop(ticket, None)
        if isinstance(outcome, errors.HeadwaterError):
            raise outcome
        return outcome

    def _carry_out(self, live: _Live, effects: Effects, of: Group | ConsumerGroup | None = None) -> None:
        for ticket, outcome in effects.answers:
            answer = self._answers.get(ticket)
            if answer is not None and not answer.done():
                answer.set_result(outcome)
        for save in effects.saves:
            self._save(live, save)
        if of is not None and of is not live.group:
            return  # the group has changed its protocol since
        if isinstance(live.group, ConsumerGroup) and live.group.can_become_classic:
            self._change_to_classic(live)
            self._carry_out(live, live.group.effects())
        elif live.group.forgettable:
            self._forget(live)
        else:
            self._set_timer(live, effects.wake_ms)

    def _save(self, live: _Live, save: Save) -> None:
        group = live.group

        def report(written: "asyncio.Future[errors.HeadwaterError | Refused]") -> None:
            answer = written.result()
            failure = answer if isinstance(answer, errors.HeadwaterError) else None
            if failure is not None:
                logger.warning('group "%s" could not be saved: %s', group.id, failure)
            if self._running:
                self._carry_out(live, group.saved(save.number, failure, self._now_ms()), of=group)

        self._writer.save(group.id, save.entries).add_done_callback(report)

    def _forget(self, live: _Live) -> None:
        if live.timer is not None:
            live.timer.cancel()
            live.timer = None
        if self._live.get(live.group.id) is live:
            del self._live[live.group.id]

    # Time

    def _set_timer(self, live: _Live, wake_ms: int | None) -> None:
        if live.stalled or (live.timer is not None and live.timer_ms == wake_ms):
            return
        if live.timer is not None:
            live.timer.cancel()
            live.timer = None
        if wake_ms is not None:
            live.timer_ms = wake_ms
            wait_seconds = max(wake_ms - self._now_ms(), 0) / 1000
            live.timer = asyncio.get_running_loop().call_later(wait_seconds, self._time_is_up, live)

    def _time_is_up(self, live: _Live) -> None:
        now_ms = self._now_ms()
        live.stalled = not live.stalled and now_ms - live.timer_ms > STALL_MS
        if live.stalled:
            live.timer = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._time_is_up, live)
            return
        live.timer = None
        self._carry_out(live, live.group.tick(now_ms))

    async def _expire_now_and_then(self) -> None:
        loop = asyncio.get_running_loop()
        retention_ms = milliseconds(self._settings.offsets_retention)
        while True:
            await asyncio.sleep(min(EXPIRY_SECONDS, max(retention_ms / 1000, 1.0)))
            try:
                await loop.run_in_executor(None, self._expire, retention_ms, frozenset(self._live))
            except errors.HeadwaterError as error:
                logger.warning("expired offsets could not be removed: %s", error)

    def _expire(self, retention_ms: int, active: Collection[str]) -> None:
        self._offsets.expire(retention_ms, active=active)


def _raised(answer: errors.HeadwaterError | Refused) -> Refused:
    if isinstance(answer, errors.HeadwaterError):
        raise answer
    return answer
