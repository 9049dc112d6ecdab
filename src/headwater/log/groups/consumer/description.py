"""A group of the consumer protocol as administrators see it. Pure."""

from typing import NamedTuple

from headwater.log.groups.consumer.assignors import Partitions
from headwater.log.groups.consumer.classic import assignment_of
from headwater.log.groups.consumer.group import ConsumerGroup
from headwater.log.groups.consumer.members import NOTHING
from headwater.log.groups.consumer.protocol import PROTOCOL_TYPE, write_subscription
from headwater.log.groups.consumer.records import MemberData
from headwater.log.groups.consumer.states import GroupState
from headwater.log.groups.member import DescribedGroup, DescribedMember

KIND = "consumer"


class ConsumerMemberDescription(NamedTuple):
    id: str
    epoch: int
    data: MemberData
    assigned: Partitions
    target: Partitions


class ConsumerGroupDescription(NamedTuple):
    id: str
    state: str = GroupState.EMPTY
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[ConsumerMemberDescription, ...] = ()


def described(group: ConsumerGroup) -> DescribedGroup:
    """In the words of the classic protocol, which older tools ask in."""
    members = tuple(
        DescribedMember(
            member.id, member.data.instance_id, member.data.client_id, member.data.client_host,
            write_subscription(group.members.topics_of(member)), assignment_of(group, member.share.assigned),
        )
        for member in group.members
    )  # fmt: skip
    return DescribedGroup(group.id, group.state, PROTOCOL_TYPE, group.assignor, members, KIND)


def described_in_full(group: ConsumerGroup) -> ConsumerGroupDescription:
    members = tuple(
        ConsumerMemberDescription(
            member.id, member.epoch, member.data, member.share.assigned, group.members.targets.get(member.id, NOTHING)
        )
        for member in group.members
    )
    return ConsumerGroupDescription(group.id, group.state, group.epoch, group.assignment_epoch, group.assignor, members)
