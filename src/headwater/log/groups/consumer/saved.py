"""The members of a group from what was saved of them. Pure."""

from collections.abc import Mapping

from headwater.log.groups.consumer.members import ConsumerMember, Members
from headwater.log.groups.consumer.reconciliation import Share
from headwater.log.groups.consumer.records import Kind, Matched, MemberData, StateKey, StateValue, Target


def members_from(group_id: str, saved: Mapping[StateKey, StateValue]) -> Members:
    """A member without its subscription is none: a crash in a long save may have kept the rest of it."""
    members = Members(group_id)
    for key, value in saved.items():
        if isinstance(value, MemberData):
            members.set_data(ConsumerMember(key.name), value)
    for key, value in saved.items():
        member = members.get(key.name) if key.kind in (Kind.SHARE, Kind.TARGET_MEMBER) else None
        if isinstance(value, Matched) and key.name in members.patterned:
            members.patterns[key.name] = value.topics
        elif member is not None and isinstance(value, Share):
            members.set_share(member, value)
        elif member is not None and isinstance(value, Target):
            members.targets[member.id] = value.partitions
    members.unsaved.clear()
    return members
