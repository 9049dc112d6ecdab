"""The members of a share group: who is there, what they subscribe to, and their partitions. Pure.

Members are not written down. After a restart of the node a heartbeat is answered with UnknownMember, on which a member
joins again under the same id; which messages it held is for the queue to know.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headwater.errors import FencedMemberEpoch, GroupFull, UnknownMember
from headwater.log.groups.consumer.assignors import PartitionId, Partitions
from headwater.log.groups.consumer.heartbeat import Catalog
from headwater.log.groups.share.assignment import assign

JOINING, LEAVING = 0, -1


class State(StrEnum):
    EMPTY = "Empty"
    STABLE = "Stable"


class ShareHeartbeat(NamedTuple):
    member_id: str
    epoch: int
    topics: frozenset[str] | None
    """None: as before."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""


class ShareAnswer(NamedTuple):
    epoch: int
    assignment: Partitions | None
    """None: as before."""


@dataclass
class ShareMember:
    id: str
    topics: frozenset[str]
    rack_id: str | None
    client_id: str
    client_host: str
    deadline_ms: int
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions | None = None
    """The last answer that it was sent."""


@dataclass
class ShareGroup:
    """Not thread-safe."""

    id: str
    members_max: int
    epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    _assigned_from: object = None

    @property
    def state(self) -> State:
        return State.STABLE if self.members else State.EMPTY

    def heartbeat(self, said: ShareHeartbeat, catalog: Catalog, now_ms: int, timeout_ms: int) -> ShareAnswer:
        """UnknownMember, FencedMemberEpoch: the member has to join again. GroupFull."""
        member = self._member(said, now_ms + timeout_ms)
        if said.topics is not None:
            member.topics = said.topics
        self._assign(catalog)
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        assignment = self.target[member.id]
        if assignment == member.assigned and said.epoch != JOINING:
            return ShareAnswer(member.epoch, None)
        member.assigned = assignment
        return ShareAnswer(member.epoch, assignment)

    def leave(self, member_id: str) -> None:
        if member_id not in self.members:
            raise UnknownMember(f'group "{self.id}" has no member "{member_id}"')
        del self.members[member_id]

    def expire(self, now_ms: int) -> Sequence[str]:
        """Removes members whose session has ended; returns their ids."""
        late = [one.id for one in self.members.values() if one.deadline_ms <= now_ms]
        for member_id in late:
            del self.members[member_id]
        return late

    def refresh(self, catalog: Catalog) -> None:
        """Bring the assignment up to date, for a description."""
        self._assign(catalog)

    def _member(self, said: ShareHeartbeat, deadline_ms: int) -> ShareMember:
        member = self.members.get(said.member_id)
        if said.epoch == JOINING:
            if member is None and len(self.members) >= self.members_max:
                raise GroupFull(f'group "{self.id}" has {len(self.members)} members, and no room for more')
            if member is None:
                member = ShareMember(
                    said.member_id, frozenset(), said.rack_id, said.client_id, said.client_host, deadline_ms
                )
                self.members[said.member_id] = member
        elif member is None:
            raise UnknownMember(f'group "{self.id}" has no member "{said.member_id}"')
        elif said.epoch not in (member.epoch, member.previous_epoch):
            raise FencedMemberEpoch(
                f'member "{said.member_id}" of group "{self.id}" is at epoch {member.epoch}, not {said.epoch}'
            )
        member.deadline_ms = deadline_ms
        return member

    def _assign(self, catalog: Catalog) -> None:
        names = {name for member in self.members.values() for name in member.topics}
        topics = {name: found for name in sorted(names) if (found := catalog.find(name)) is not None}
        wanted = {
            member.id: [
                PartitionId(topics[name].id, number)
                for name in sorted(member.topics & topics.keys()) for number in range(topics[name].partitions)
            ]
            for member in self.members.values()
        }  # fmt: skip
        if wanted == self._assigned_from:
            return
        self._assigned_from = wanted
        self.epoch += 1
        self.target = assign(wanted)
