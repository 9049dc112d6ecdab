"""A group changes its protocol with its members in it (KIP-848, migration policy "bidirectional"). Pure.

To the consumer protocol it goes when the first member comes that speaks it, and back when the last such member leaves.
Members keep their ids and partitions: each finds out by its next heartbeat, and joins again in its own time.
"""

from collections.abc import Iterable

from headwater.log.groups.consumer.assignors import PartitionId, Partitions
from headwater.log.groups.consumer.classic import assignment_of
from headwater.log.groups.consumer.group import ConsumerGroup
from headwater.log.groups.consumer.heartbeat import Catalog
from headwater.log.groups.consumer.members import ConsumerMember
from headwater.log.groups.consumer.protocol import PROTOCOL_TYPE, Unreadable, read_assignment, read_subscription
from headwater.log.groups.consumer.reconciliation import Share
from headwater.log.groups.consumer.records import ClassicMember, Kind, MemberData, StateKey
from headwater.log.groups.entry import Entry
from headwater.log.groups.group_state import State
from headwater.log.groups.member import Limits, Member, SavedGroup, SavedMember
from headwater.log.groups.membership import Group
from headwater.log.groups.records import GroupKey


def can_become_consumer_group(group: Group) -> bool:
    """Consumers at rest: while they rebalance it is not known what each of them still reads."""
    return group.state is State.STABLE and group.protocol_type == PROTOCOL_TYPE


def to_consumer_group(group: Group, limits: Limits, catalog: Catalog, now_ms: int) -> ConsumerGroup:
    """The same group with the same members; nothing is saved of it before its next change."""
    changed = ConsumerGroup(group.id, limits)
    changed.epoch = changed.assignment_epoch = group.generation
    targets = {}
    for member in group.members:
        taken = ConsumerMember(member.id)
        changed.members.set_data(taken, _data_of(member, group.protocol_name))
        assigned = _assigned(member.assignment, catalog)
        changed.members.set_share(taken, Share(group.generation, group.generation, assigned=assigned))
        targets[member.id] = assigned
        changed.touch(taken, now_ms)
    changed.members.set_targets(targets)
    changed.topics = {name: topic for name in changed.members.topics if (topic := catalog.find(name)) is not None}
    changed.save_also([GroupKey(group.id), StateKey(group.id, Kind.GROUP), StateKey(group.id, Kind.TARGET)])
    return changed


def _data_of(member: Member, protocol_name: str | None) -> MemberData:
    try:
        topics = read_subscription(member.metadata_for(protocol_name)).topics
    except Unreadable:
        topics = frozenset()
    return MemberData(
        instance_id=member.instance_id, client_id=member.client_id, client_host=member.client_host, topics=topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(member.session_timeout_ms, member.protocols),
    )  # fmt: skip


def _assigned(assignment: bytes, catalog: Catalog) -> Partitions:
    try:
        named = read_assignment(assignment)
    except Unreadable:
        return frozenset()
    found = ((catalog.find(name), number) for name, number in named)
    return frozenset(PartitionId(topic.id, number) for topic, number in found if topic is not None)


def to_classic_group(group: ConsumerGroup, limits: Limits, now_ms: int) -> tuple[Group, list[Entry]]:
    """The same group with the same members, and what has to be saved. Its members have to join again."""
    saved = _saved_group(group)
    entries = [Entry(key, None) for key in group.saved_keys()]
    return Group.restore(saved, limits, now_ms), [*entries, Entry(GroupKey(group.id), saved)]


def _saved_group(group: ConsumerGroup) -> SavedGroup:
    name = _common_protocol(group.members)
    members = []
    for member in group.members:
        classic = member.data.classic
        assert classic is not None
        metadata = next((one.metadata for one in classic.protocols if one.name == name), b"")
        members.append(
            SavedMember(
                member.id, member.data.instance_id, member.data.client_id, member.data.client_host,
                member.data.rebalance_timeout_ms, classic.session_timeout_ms, metadata,
                assignment_of(group, member.share.assigned),
            )
        )  # fmt: skip
    leader = members[0].id if members else None
    return SavedGroup(group.id, PROTOCOL_TYPE, group.epoch, name if members else None, leader, tuple(members))


def _common_protocol(members: Iterable[ConsumerMember]) -> str:
    """One that all of them speak: no member is let in that has none in common with the others."""
    offered = [[one.name for one in member.data.classic.protocols] for member in members if member.data.classic]
    common = set.intersection(*map(set, offered)) if offered else set()
    return next((name for names in offered for name in names if name in common), "")
