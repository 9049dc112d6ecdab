"""Share groups on the event loop: members and their sessions, around the pure ShareGroup, and the queues of the log."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headwater import errors
from headwater.clock import Clock
from headwater.log.groups.consumer.heartbeat import Catalog
from headwater.log.groups.member import DescribedGroup
from headwater.log.groups.offsets import check_group
from headwater.log.groups.share.membership import JOINING, LEAVING, ShareAnswer, ShareGroup, ShareHeartbeat
from headwater.log.queues.queues import Queue, Queues
from headwater.log.queues.settings import QueueSettings
from headwater.settings import WireSettings
from headwater.wire.share_sessions import SessionKey, ShareSessions

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.wire")

KIND = PROTOCOL_TYPE = "share"
SWEEP_SECONDS = 1.0
DEFAULTS = QueueSettings.from_configs({})


class ShareGroups:
    """All share groups of this node. Every method belongs on the event loop, between `start` and `stop`."""

    def __init__(self, log: "Log", settings: WireSettings, clock: Clock) -> None:
        self._log, self._settings, self._clock = log, settings, clock
        self.sessions = ShareSessions()
        self._groups: dict[str, ShareGroup] = {}
        self._queues: Queues | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self._queues = await asyncio.get_running_loop().run_in_executor(None, lambda: self._log.queues)

    def stop(self) -> None:
        self._queues = None
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    @property
    def queues(self) -> Queues:
        if self._queues is None:
            raise errors.LogClosed
        return self._queues

    # -- members -----------------------------------------------------------------------------------------------------

    def heartbeat(self, group_id: str, said: ShareHeartbeat, catalog: Catalog) -> ShareAnswer:
        if not group_id.strip():
            raise errors.UsageError("GroupId is empty")
        check_group(group_id)
        if not said.member_id:
            raise errors.UsageError("MemberId is empty")
        if said.epoch < LEAVING:
            raise errors.UsageError(f"a member epoch cannot be {said.epoch}")
        if said.epoch == JOINING and not said.topics:
            raise errors.UsageError("SubscribedTopicNames must be given by a member that joins")
        group = self._groups.get(group_id)
        if said.epoch == LEAVING:
            if group is None:
                raise errors.UnknownGroup(group_id)
            group.leave(said.member_id)
            self._tidy(group)
            return ShareAnswer(LEAVING, None)
        if group is None:
            if said.epoch != JOINING and not self.exists(group_id):
                raise errors.UnknownGroup(group_id)
            group = ShareGroup(group_id, self._settings.group_members_max)
        timeout_ms = self.settings_of(group_id).share_session_timeout_ms
        answer = group.heartbeat(said, catalog, self._clock.elapsed_ms(), timeout_ms)
        self._groups[group_id] = group
        self._sweep_later()
        return answer

    def settings_of(self, group_id: str) -> QueueSettings:
        queue = self.queue(group_id)
        return DEFAULTS if queue is None else queue.settings

    def queue(self, group_id: str) -> Queue | None:
        try:
            return self.queues.get(group_id)
        except errors.UnknownQueue:
            return None

    def exists(self, group_id: str) -> bool:
        """Is there a share group of this name? One that was only given settings is none yet."""
        queue = self.queue(group_id)
        return group_id in self._groups or (queue is not None and bool(queue.partitions()))

    def has_members(self, group_id: str) -> bool:
        return group_id in self._groups and bool(self._groups[group_id].members)

    def check_empty(self, group_id: str) -> None:
        """UnknownGroup, GroupNotEmpty."""
        if not self.exists(group_id):
            raise errors.UnknownGroup(group_id)
        if self.has_members(group_id):
            raise errors.GroupNotEmpty(group_id)

    def describe(self, group_id: str, catalog: Catalog) -> ShareGroup:
        """UnknownGroup if there is none."""
        if not self.exists(group_id):
            raise errors.UnknownGroup(group_id)
        group = self._groups.get(group_id) or ShareGroup(group_id, self._settings.group_members_max)
        group.refresh(catalog)
        return group

    def groups(self) -> list[DescribedGroup]:
        names = {*self._groups, *self.queues.names()}
        return [
            DescribedGroup(name, "Stable" if self.has_members(name) else "Empty", PROTOCOL_TYPE, "", kind=KIND)
            for name in sorted(names) if self.exists(name)
        ]  # fmt: skip

    # -- sessions and time -------------------------------------------------------------------------------------------

    def end_session(self, key: SessionKey) -> Callable[[], None] | None:
        """Forget a session. What is returned gives back what its member holds; it may touch the disk."""
        session, queue = self.sessions.close(key), self.queue(key.group)
        if session is None or queue is None:
            return None
        # Of all partitions, since some may have been forgotten that it still holds messages of.
        partitions = queue.partitions()

        def give_back() -> None:
            for partition in partitions:
                try:
                    partition.leave(key.member)
                except errors.HeadwaterError as error:
                    logger.warning("share group %s: messages of a member wait for their lock: %s", key.group, error)

        return give_back

    def give_back_later(self, keys: Iterable[SessionKey]) -> None:
        """For members that are not there any more."""
        for key in keys:
            give_back = None if self._queues is None else self.end_session(key)
            if give_back is not None:
                asyncio.get_running_loop().run_in_executor(None, give_back)

    def _sweep_later(self) -> None:
        if self._sweeping is None and self._queues is not None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now_ms = self._clock.elapsed_ms()
        for group in list(self._groups.values()):
            late = group.expire(now_ms)
            self.give_back_later(SessionKey(group.id, member) for member in late)
            self._tidy(group)
        if self._groups:
            self._sweep_later()

    def _tidy(self, group: ShareGroup) -> None:
        if not group.members and self._groups.get(group.id) is group and self.exists_without_members(group.id):
            del self._groups[group.id]

    def exists_without_members(self, group_id: str) -> bool:
        queue = self.queue(group_id)
        return queue is not None and bool(queue.partitions())

    async def delete(self, group_id: str) -> None:
        """Forget a group and what it has read; UnknownGroup, GroupNotEmpty."""
        self.check_empty(group_id)
        self._groups.pop(group_id, None)
        if self.queue(group_id) is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.queues.delete, group_id)
