"""The members of a group of the consumer protocol, what they have and are to have, and what of it is not saved yet."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headwater.log.groups.consumer.assignors import PartitionId, Partitions, Subscriber
from headwater.log.groups.consumer.reconciliation import Share
from headwater.log.groups.consumer.records import Kind, Matched, MemberData, StateKey, StateValue, Target

NOTHING: Partitions = frozenset()


@dataclass(slots=True)
class ConsumerMember:
    id: str
    data: MemberData = field(default_factory=MemberData)
    share: Share = field(default_factory=Share)
    deadline_ms: int = 0
    """When the session expires, unless a request of the member arrives before."""
    rebalance_deadline_ms: int | None = None
    """When the member is removed if it has not given up what it was asked for, or not joined again."""

    @property
    def epoch(self) -> int:
        return self.share.epoch

    @property
    def classic(self) -> bool:
        """It speaks the classic protocol."""
        return self.data.classic is not None


class Members:
    """Decides nothing. Keys of what changed collect in `unsaved`."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.unsaved: set[StateKey] = set()
        self.targets: dict[str, Partitions] = {}
        self.patterns: dict[str, frozenset[str]] = {}
        """By pattern, the topics that it matches."""
        self._members: dict[str, ConsumerMember] = {}
        self._static_ids: dict[str, str] = {}
        self._holders: dict[PartitionId, str] = {}
        self._named: Counter[str] = Counter()
        self._patterned: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ConsumerMember]:
        return iter(self._members.values())

    def get(self, member_id: str) -> ConsumerMember | None:
        return self._members.get(member_id)

    def static(self, instance_id: str | None) -> ConsumerMember | None:
        return self._members.get(self._static_ids.get(instance_id or "", ""))

    @property
    def classic(self) -> list[ConsumerMember]:
        return [member for member in self if member.classic]

    # -- changes -----------------------------------------------------------------------------------------------------

    def set_data(self, member: ConsumerMember, data: MemberData) -> bool:
        """Is what the member subscribes to another than before?"""
        known = member.id in self._members
        before, member.data = (member.data if known else MemberData()), data
        self._members[member.id] = member
        if data.instance_id is not None:
            self._static_ids[data.instance_id] = member.id
        self._named.update(data.topics)
        self._named.subtract(before.topics)
        self._named += Counter()
        self._patterned.update([data.pattern] if data.pattern else [])
        self._patterned.subtract([before.pattern] if before.pattern else [])
        self._drop_patterns()
        if known and data == before:
            return False
        self._note(Kind.MEMBER, member.id)
        return not known or (data.topics, data.pattern, data.assignor) != (
            before.topics, before.pattern, before.assignor
        )  # fmt: skip

    def set_share(self, member: ConsumerMember, share: Share) -> None:
        if share == member.share:
            return
        for one in member.share.held - share.held:
            if self._holders.get(one) == member.id:
                del self._holders[one]
        self._holders.update(dict.fromkeys(share.held, member.id))
        member.share = share
        self._note(Kind.SHARE, member.id)

    def set_targets(self, targets: Mapping[str, Partitions]) -> None:
        for member_id in self.targets.keys() | targets.keys():
            if self.targets.get(member_id) != targets.get(member_id):
                self._note(Kind.TARGET_MEMBER, member_id)
        self.targets = dict(targets)

    def set_pattern(self, pattern: str, topics: frozenset[str]) -> bool:
        """Does it match other topics than before?"""
        if self.patterns.get(pattern) == topics:
            return False
        self.patterns[pattern] = topics
        self._note(Kind.PATTERN, pattern)
        return True

    def remove(self, member: ConsumerMember) -> None:
        self.set_data(member, MemberData(instance_id=member.data.instance_id))
        self.set_share(member, Share())
        del self._members[member.id]
        instance_id = member.data.instance_id
        if instance_id is not None and self._static_ids.get(instance_id) == member.id:
            del self._static_ids[instance_id]
        self.targets.pop(member.id, None)
        for kind in (Kind.MEMBER, Kind.SHARE, Kind.TARGET_MEMBER):
            self._note(kind, member.id)

    def replace(self, former: ConsumerMember, member_id: str) -> ConsumerMember:
        """The static member comes back under a new id, with what its former self had."""
        target, data, share = self.targets.get(former.id), former.data, former.share
        self.remove(former)
        member = ConsumerMember(member_id)
        self.set_data(member, data)
        self.set_share(member, share._replace(epoch=0, previous_epoch=0))
        if target is not None:
            self.targets[member_id] = target
            self._note(Kind.TARGET_MEMBER, member_id)
        return member

    # -- questions ---------------------------------------------------------------------------------------------------

    def held_by_another(self, one: PartitionId, member: ConsumerMember) -> bool:
        return self._holders.get(one, member.id) != member.id

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """All that it subscribes to, by name and by pattern."""
        if not member.data.pattern:
            return member.data.topics
        return member.data.topics | self.patterns.get(member.data.pattern, frozenset())

    @property
    def topics(self) -> frozenset[str]:
        """All that anyone subscribes to."""
        return frozenset(self._named).union(*(self.patterns.get(one, ()) for one in self._patterned))

    @property
    def patterned(self) -> frozenset[str]:
        return frozenset(self._patterned)

    def subscribers(self) -> dict[str, Subscriber]:
        return {
            member.id: Subscriber(
                member.data.instance_id or member.id, self.topics_of(member), self.targets.get(member.id, NOTHING)
            )
            for member in self
        }

    def value_of(self, key: StateKey) -> StateValue | None:
        """What is to be saved under a key of a member or of a pattern; None: it is to be deleted."""
        if key.kind is Kind.PATTERN:
            return Matched(self.patterns[key.name]) if key.name in self.patterns else None
        member = self._members.get(key.name)
        if member is None:
            return None
        if key.kind is Kind.TARGET_MEMBER:
            return Target(self.targets[member.id]) if member.id in self.targets else None
        return member.data if key.kind is Kind.MEMBER else member.share

    def keys(self) -> Iterable[StateKey]:
        """All that is to be saved of members and patterns."""
        for member in self:
            yield StateKey(self.group_id, Kind.MEMBER, member.id)
            yield StateKey(self.group_id, Kind.SHARE, member.id)
            yield StateKey(self.group_id, Kind.TARGET_MEMBER, member.id)
        for pattern in self.patterns:
            yield StateKey(self.group_id, Kind.PATTERN, pattern)

    def _drop_patterns(self) -> None:
        self._patterned += Counter()
        for pattern in [one for one in self.patterns if one not in self._patterned]:
            del self.patterns[pattern]
            self._note(Kind.PATTERN, pattern)

    def _note(self, kind: Kind, name: str) -> None:
        self.unsaved.add(StateKey(self.group_id, kind, name))
