"""Members of the classic protocol in a group of the consumer protocol: JoinGroup, SyncGroup and Heartbeat. Pure.

They are members as the others are: their generation is their epoch, and their metadata names the topics they subscribe
to and the partitions they own. There is no leader: the coordinator assigns. A member is asked to join again when its
epoch is not the group's, or when it has partitions to give up or to take.
"""

from headwater import errors
from headwater.log.groups.admission import check_session_timeout
from headwater.log.groups.consumer.assignors import PartitionId, Partitions
from headwater.log.groups.consumer.group import ConsumerGroup
from headwater.log.groups.consumer.heartbeat import Catalog
from headwater.log.groups.consumer.members import NOTHING, ConsumerMember
from headwater.log.groups.consumer.protocol import (
    PROTOCOL_TYPE,
    Subscription,
    Unreadable,
    read_subscription,
    version_of,
    write_assignment,
)
from headwater.log.groups.consumer.records import ClassicMember, MemberData
from headwater.log.groups.consumer.states import MemberState
from headwater.log.groups.effects import Effects
from headwater.log.groups.member import Claim, Join, Joined, Sync, Synced, Ticket


def join(group: ConsumerGroup, request: Join, catalog: Catalog, ticket: Ticket, now_ms: int) -> Effects:
    """Answered with Joined at once: the member waits for no other."""
    try:
        joined = _join(group, request, catalog, now_ms)
    except errors.HeadwaterError as refusal:
        group.refuse(ticket, refusal)
    else:
        group.answer_when_saved(ticket, joined)
    return group.effects()


def _join(group: ConsumerGroup, request: Join, catalog: Catalog, now_ms: int) -> Joined:
    check_session_timeout(request, group.limits)
    subscription = _subscription(group, request)
    if not request.member_id and request.id_required and request.instance_id is None:
        raise errors.MemberIdRequired(request.fresh_id)
    member = _joining_member(group, request)
    if group.members.get(member.id) is None:
        group.check_room(now_ms)
    classic = ClassicMember(request.session_timeout_ms, request.protocols)
    data = MemberData(
        instance_id=request.instance_id, client_id=request.client_id, client_host=request.client_host,
        topics=subscription.topics, rebalance_timeout_ms=request.rebalance_timeout_ms, classic=classic,
    )  # fmt: skip
    group.take_in(member, data, catalog)
    ids = {name: topic.id for name, topic in group.topics.items()}
    owned = frozenset(PartitionId(ids[name], number) for name, number in subscription.owned if name in ids)
    group.reconcile(member, owned, now_ms)
    group.touch(member, now_ms)
    member.rebalance_deadline_ms = None
    group.limit_rebalance(member, now_ms)  # to ask for its assignment
    return Joined(member.epoch, PROTOCOL_TYPE, request.protocols[0].name, "", member.id)


def _subscription(group: ConsumerGroup, request: Join) -> Subscription:
    """InconsistentProtocol unless the classic members and this one have a protocol in common."""
    others = [one for one in group.members.classic if one.id != request.member_id]
    names = {protocol.name for protocol in request.protocols}
    for other in others:
        names &= {protocol.name for protocol in (other.data.classic.protocols if other.data.classic else ())}
    if request.protocol_type == PROTOCOL_TYPE and names:
        try:
            return read_subscription(request.protocols[0].metadata)
        except Unreadable:
            pass
    raise errors.InconsistentProtocol(f'group "{group.id}" has no protocol in common with this member')


def _joining_member(group: ConsumerGroup, request: Join) -> ConsumerMember:
    static = group.members.static(request.instance_id)
    if request.member_id:
        if request.instance_id is not None:
            return group.known(request.member_id, request.instance_id)
        return group.members.get(request.member_id) or ConsumerMember(request.member_id)
    return ConsumerMember(request.fresh_id) if static is None else group.members.replace(static, request.fresh_id)


def sync(group: ConsumerGroup, request: Sync, ticket: Ticket, now_ms: int) -> Effects:
    """Answered with Synced: what the member has now."""
    try:
        synced = _sync(group, request, now_ms)
    except errors.HeadwaterError as refusal:
        group.refuse(ticket, refusal)
    else:
        group.answer_when_saved(ticket, synced)
    return group.effects()


def _sync(group: ConsumerGroup, request: Sync, now_ms: int) -> Synced:
    member, classic = _known(group, request.claim)
    known = {protocol.name: protocol.metadata for protocol in classic.protocols}
    name = request.protocol_name or classic.protocols[0].name
    if name not in known or request.protocol_type not in (None, PROTOCOL_TYPE):
        raise errors.InconsistentProtocol(f'member "{member.id}" joined with {", ".join(known)}, not with {name}')
    group.touch(member, now_ms)
    if group.epoch > member.epoch and member.share.state is not MemberState.UNREVOKED:
        group.limit_rebalance(member, now_ms)
        raise errors.RebalanceUnderWay(f'group "{group.id}" is at epoch {group.epoch}, not {member.epoch}')
    member.rebalance_deadline_ms = None
    if member.share.state is MemberState.UNREVOKED:
        group.limit_rebalance(member, now_ms)
    assigned = assignment_of(group, member.share.assigned, version=version_of(known[name]))
    return Synced(PROTOCOL_TYPE, name, assigned)


def heartbeat(group: ConsumerGroup, claim: Claim, now_ms: int) -> None:
    """The member lives; RebalanceUnderWay if it must join again."""
    member, _ = _known(group, claim)
    group.touch(member, now_ms)
    share = member.share
    waits = share.state is MemberState.UNRELEASED and any(
        group.members.held_by_another(one, member)
        for one in group.members.targets.get(member.id, NOTHING) - share.assigned
    )
    behind = member.epoch < group.epoch or share.state is MemberState.UNREVOKED
    if behind or (share.state is MemberState.UNRELEASED and not waits):
        group.limit_rebalance(member, now_ms)
        raise errors.RebalanceUnderWay(f'group "{group.id}" asks member "{member.id}" to join again')


def leave(group: ConsumerGroup, member_id: str, instance_id: str | None, now_ms: int) -> Effects:
    """The member goes at once; UnknownMember, FencedMember. A static one may be named by its instance alone."""
    static = group.members.static(instance_id)
    if static is not None and not member_id:
        member_id = static.id
    group.members.remove(group.known(member_id, instance_id))
    group.after_removal()
    group.save()
    return group.effects()


def _known(group: ConsumerGroup, claim: Claim) -> tuple[ConsumerMember, ClassicMember]:
    member = group.known(claim.member_id, claim.instance_id)
    if member.data.classic is None:
        raise errors.UnknownMember(f'member "{member.id}" of group "{group.id}" speaks the consumer protocol')
    group.check_generation(member, claim.generation)
    return member, member.data.classic


def assignment_of(group: ConsumerGroup, partitions: Partitions, *, version: int = 0) -> bytes:
    """Partitions as consumers of the classic protocol read them; those of deleted topics are left out."""
    names = {topic.id: name for name, topic in group.topics.items()}
    named = [(names[one.topic_id], one.number) for one in partitions if one.topic_id in names]
    return write_assignment(named, version=version)
