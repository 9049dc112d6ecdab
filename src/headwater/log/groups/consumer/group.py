"""One group of the consumer protocol (KIP-848): epochs, the target assignment, and each member's way to it. Pure.

A change of subscriptions or topics raises the group's epoch, and the assignor decides at once who is to have what: the
target. Each member comes to it by its own heartbeats (reconciliation.py); nothing stops, and no member waits for all.
Members that speak the classic protocol are members as the others are (classic.py): so a group is moved from one
protocol to the other one member at a time.

Nothing here waits, reads a clock or touches a disk. Calls answer with Effects. An answer is given when all that it says
is saved: a member finds its epoch and its partitions unchanged after a restart.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headwater import errors
from headwater.log.groups.consumer.assignors import ASSIGNORS, DEFAULT, Partitions, TopicInfo
from headwater.log.groups.consumer.heartbeat import (
    JOINING,
    LEAVING,
    STATIC_LEAVING,
    Catalog,
    Heartbeat,
    HeartbeatAnswer,
    check_heartbeat,
)
from headwater.log.groups.consumer.members import NOTHING, ConsumerMember, Members
from headwater.log.groups.consumer.reconciliation import reconciled
from headwater.log.groups.consumer.records import Epoch, Kind, MemberData, StateKey, StateValue
from headwater.log.groups.consumer.saved import members_from
from headwater.log.groups.consumer.states import GroupState, MemberState
from headwater.log.groups.effects import Answer, Effects, Outcome, Save
from headwater.log.groups.entry import Entry
from headwater.log.groups.member import Claim, Limits, Ticket
from headwater.log.groups.records import GroupKey

MODERN_COMMIT_SINCE = 9


class _OpenSave(NamedTuple):
    keys: frozenset[StateKey | GroupKey]
    answers: list[Answer]


class ConsumerGroup:
    """Not thread-safe. Every ticket is answered exactly once, unless it is abandoned."""

    def __init__(self, group_id: str, limits: Limits) -> None:
        self.id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.assignor = DEFAULT
        self.removed = False
        self.limits = limits
        self.members = Members(group_id)
        self.topics: dict[str, TopicInfo] = {}
        """The topics that the target is made from."""
        self._matched_over: dict[str, frozenset[str]] = {}
        self._also_unsaved: set[StateKey | GroupKey] = set()
        self._answers: list[Answer] = []
        self._saves: list[Save] = []
        self._open_saves: dict[int, _OpenSave] = {}
        self._saves_begun = 0
        self._wake_ms: int | None = None

    @classmethod
    def restore(
        cls, group_id: str, saved: dict[StateKey, StateValue], limits: Limits, catalog: Catalog, now_ms: int
    ) -> "ConsumerGroup":
        """The group as it was saved. Its members have one session timeout from now to send a heartbeat."""
        group = cls(group_id, limits)
        for kind, epoch in ((Kind.GROUP, "epoch"), (Kind.TARGET, "assignment_epoch")):
            value = saved.get(StateKey(group_id, kind))
            setattr(group, epoch, value.epoch if isinstance(value, Epoch) else 0)
        group.members = members_from(group_id, saved)
        for member in group.members:
            group.touch(member, now_ms)
            if member.share.state is MemberState.UNREVOKED:
                group.limit_rebalance(member, now_ms)
        group.topics = group._known_topics(catalog)
        group.assignor = group._preferred_assignor()
        return group

    # -- what members ask --------------------------------------------------------------------------------------------

    def heartbeat(self, request: Heartbeat, catalog: Catalog, ticket: Ticket, now_ms: int) -> Effects:
        """Answered with HeartbeatAnswer, or with the reason for which the member must do something else."""
        try:
            check_heartbeat(request)
            leaving = request.epoch in (LEAVING, STATIC_LEAVING)
            answer = self._leave(request) if leaving else self._heartbeat(request, catalog, now_ms)
        except errors.HeadwaterError as refusal:
            self._answers.append(Answer(ticket, refusal))
        else:
            self.answer_when_saved(ticket, answer)
        return self.effects()

    def check_commit(self, claim: Claim, now_ms: int, *, api_version: int = MODERN_COMMIT_SINCE) -> None:
        """May offsets be committed under this claim? Raises why not."""
        if claim.generation < 0 and not len(self.members):
            return
        member = self.known(claim.member_id, claim.instance_id)
        if member.classic:
            self.check_generation(member, claim.generation)
            self.touch(member, now_ms)
            return
        if api_version < MODERN_COMMIT_SINCE:
            raise errors.UnsupportedRequest(
                f"members of the consumer protocol commit with version {MODERN_COMMIT_SINCE} or later of OffsetCommit"
            )
        self.check_epoch(member, claim.generation)

    def check_transaction(self, claim: Claim, now_ms: int) -> None:
        self.check_commit(claim, now_ms)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May committed offsets be read under this claim?"""
        if not member_id and epoch < 0:
            return
        member = self.known(member_id or "", None)
        if not member.classic:
            self.check_epoch(member, epoch)

    # -- what the surroundings report --------------------------------------------------------------------------------

    def saved(self, number: int, failure: errors.HeadwaterError | None, now_ms: int) -> Effects:
        """Save `number` is durable, or has failed: then its keys are saved again with the next change."""
        save = self._open_saves.pop(number, None)
        if save is not None:
            if failure is not None:
                self._also_unsaved |= save.keys
            self._answers += [Answer(one.ticket, failure or one.outcome) for one in save.answers]
        return self.effects()

    def abandon(self, ticket: Ticket, now_ms: int) -> Effects:
        """Requests wait only for the disk; the answer of a closed connection is dropped by the caller."""
        return self.effects()

    def tick(self, now_ms: int) -> Effects:
        """Removes members that sent no heartbeat in time, or did not give up in time what they were asked for."""
        overdue = [
            member for member in self.members
            if member.deadline_ms <= now_ms
            or (member.rebalance_deadline_ms is not None and member.rebalance_deadline_ms <= now_ms)
        ]  # fmt: skip
        for member in overdue:
            self.members.remove(member)
        if overdue:
            self.after_removal()
            self.save()
        deadlines = [member.deadline_ms for member in self.members]
        deadlines += [one.rebalance_deadline_ms for one in self.members if one.rebalance_deadline_ms is not None]
        self._wake_ms = min(deadlines, default=None)
        return self.effects()

    def remove(self) -> Effects:
        """The group ends; GroupNotEmpty if it has members."""
        if len(self.members):
            raise errors.GroupNotEmpty(self.id)
        self.removed = True
        return self.effects()

    # -- what others want to know ------------------------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        if self.removed:
            return GroupState.DEAD
        if not len(self.members):
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        at_rest = (one.share.state is MemberState.STABLE and one.epoch == self.assignment_epoch for one in self.members)
        return GroupState.STABLE if all(at_rest) else GroupState.RECONCILING

    @property
    def forgettable(self) -> bool:
        """Nothing would be lost by dropping this object: what counts is saved."""
        unsaved = self._open_saves or self._also_unsaved or self.members.unsaved
        return self.removed or (not len(self.members) and not unsaved)

    @property
    def can_become_classic(self) -> bool:
        """All members speak the classic protocol, and agree on the generation."""
        at_rest = ((one.classic, one.share.state, one.epoch) for one in self.members)
        return len(self.members) > 0 and set(at_rest) == {(True, MemberState.STABLE, self.epoch)}

    def subscribes(self, topic: str) -> bool:
        return topic in self.members.topics

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def _heartbeat(self, request: Heartbeat, catalog: Catalog, now_ms: int) -> HeartbeatAnswer:
        member, known = self._heartbeat_member(request)
        if not known:
            self.check_room(now_ms)
        data = _updated(member.data, request)
        if data.pattern and data.pattern != member.data.pattern:
            catalog.matching(data.pattern)  # refused before anything has changed
        self.touch(member, now_ms)
        before = member.share.assigned if request.epoch != JOINING else None
        self.take_in(member, data, catalog)
        self.reconcile(member, request.owned, now_ms)
        changed = before != member.share.assigned
        answered = member.share.assigned if request.full or changed else None
        return HeartbeatAnswer(member.id, member.epoch, answered)

    def _heartbeat_member(self, request: Heartbeat) -> tuple[ConsumerMember, bool]:
        """The member that a heartbeat is of, and whether the group has it already."""
        if request.epoch == JOINING and request.instance_id is not None:
            former = self.members.static(request.instance_id)
            if former is not None:
                if not former.classic and former.epoch != STATIC_LEAVING:
                    raise errors.UnreleasedInstance(
                        f'member "{former.id}" of group "{self.id}" uses the instance id "{request.instance_id}"'
                    )
                return self.members.replace(former, request.member_id), True
        member = self.members.get(request.member_id)
        if member is None and request.epoch == JOINING:
            return ConsumerMember(request.member_id), False
        member = self.known(request.member_id, request.instance_id)
        self._check_heartbeat_epoch(member, request)
        return member, True

    def _check_heartbeat_epoch(self, member: ConsumerMember, request: Heartbeat) -> None:
        if request.epoch == member.epoch:
            return
        # The answer that raised the epoch may have been lost: then the member still owns no more than it was given.
        repeated = request.epoch == member.share.previous_epoch and request.owned is not None
        if request.epoch < member.epoch and repeated and (request.owned or NOTHING) <= member.share.assigned:
            return
        raise errors.FencedMemberEpoch(
            f'member "{member.id}" of group "{self.id}" is at epoch {member.epoch}, not {request.epoch}:'
            " it must give up its partitions and join again"
        )

    def _leave(self, request: Heartbeat) -> HeartbeatAnswer:
        member = self.known(request.member_id, request.instance_id)
        if request.epoch == STATIC_LEAVING:
            self.members.set_share(
                member,
                member.share._replace(
                    epoch=STATIC_LEAVING, state=MemberState.STABLE, assigned=member.share.held, revoking=NOTHING
                ),
            )
            member.rebalance_deadline_ms = None
        else:
            self.members.remove(member)
            self.after_removal()
        return HeartbeatAnswer(request.member_id, request.epoch, None)

    # -- the group's epoch and target --------------------------------------------------------------------------------

    def take_in(self, member: ConsumerMember, data: MemberData, catalog: Catalog) -> None:
        """What the member says about itself; a new target if that, or a topic, has changed."""
        changed = self.members.set_data(member, data)
        changed |= self._match_patterns(catalog)
        topics = self._known_topics(catalog)
        if changed or topics != self.topics or self.epoch > self.assignment_epoch:
            self.topics = topics
            self.changed()

    def after_removal(self) -> None:
        """The others share what is free; if the group becomes a classic one now, they do that by its rebalance."""
        if not self.can_become_classic:
            self.changed()

    def changed(self) -> None:
        """The next epoch, and the target of it."""
        self.epoch += 1
        self.assignment_epoch = self.epoch
        self.assignor = self._preferred_assignor()
        subscribers = self.members.subscribers()
        self.members.set_targets(ASSIGNORS[self.assignor](subscribers, self.topics) if subscribers else {})
        self._also_unsaved |= {StateKey(self.id, Kind.GROUP), StateKey(self.id, Kind.TARGET)}

    def reconcile(self, member: ConsumerMember, owned: Partitions | None, now_ms: int) -> None:
        share = reconciled(
            member.share,
            target=self.members.targets.get(member.id, NOTHING),
            target_epoch=self.assignment_epoch,
            owned=owned,
            held_by_others=lambda one: self.members.held_by_another(one, member),
        )
        if share.state is not MemberState.UNREVOKED:
            member.rebalance_deadline_ms = None
        elif share != member.share:
            member.rebalance_deadline_ms = None
            self.limit_rebalance(member, now_ms)
        self.members.set_share(member, share)

    def _match_patterns(self, catalog: Catalog) -> bool:
        patterns = self.members.patterned
        if not patterns:
            return False
        names, changed = catalog.names(), False
        for pattern in patterns:
            if self._matched_over.get(pattern) != names:
                self._matched_over[pattern] = names
                changed |= self.members.set_pattern(pattern, catalog.matching(pattern))
        self._matched_over = {pattern: self._matched_over[pattern] for pattern in patterns}
        return changed

    def _known_topics(self, catalog: Catalog) -> dict[str, TopicInfo]:
        return {name: topic for name in self.members.topics if (topic := catalog.find(name)) is not None}

    def _preferred_assignor(self) -> str:
        """The one that most members want, of those that want one."""
        wanted = [member.data.assignor for member in self.members if member.data.assignor]
        return max(sorted(set(wanted)), key=wanted.count, default=DEFAULT)

    # -- members and time --------------------------------------------------------------------------------------------

    def known(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """UnknownMember; FencedMember if another member has the instance id."""
        if instance_id is not None:
            static = self.members.static(instance_id)
            if static is None:
                raise errors.UnknownMember(f'group "{self.id}" has no member with the instance id "{instance_id}"')
            if static.id != member_id:
                raise errors.FencedMember(f'a newer instance "{instance_id}" has joined group "{self.id}"')
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMember(f'group "{self.id}" has no member "{member_id}"')
        return member

    def check_room(self, now_ms: int) -> None:
        if len(self.members) >= self.limits.members_max:
            raise errors.GroupFull(f'group "{self.id}" has {len(self.members)} members, and no room for more')

    def check_epoch(self, member: ConsumerMember, epoch: int) -> None:
        if epoch != member.epoch:
            raise errors.StaleMemberEpoch(f'member "{member.id}" is at epoch {member.epoch}, not {epoch}')

    def check_generation(self, member: ConsumerMember, generation: int) -> None:
        if generation != member.epoch:
            raise errors.StaleGeneration(f'member "{member.id}" is at generation {member.epoch}, not {generation}')

    def touch(self, member: ConsumerMember, now_ms: int) -> None:
        classic = member.data.classic
        timeout_ms = self.limits.consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
        member.deadline_ms = now_ms + timeout_ms
        self._wake_by(member.deadline_ms)

    def limit_rebalance(self, member: ConsumerMember, now_ms: int) -> None:
        """From now on the member has its rebalance timeout to do what it was asked for."""
        if member.rebalance_deadline_ms is None:
            member.rebalance_deadline_ms = now_ms + max(member.data.rebalance_timeout_ms, 0)
            self._wake_by(member.rebalance_deadline_ms)

    def _wake_by(self, deadline_ms: int) -> None:
        if self._wake_ms is None or deadline_ms < self._wake_ms:
            self._wake_ms = deadline_ms

    # -- saving ------------------------------------------------------------------------------------------------------

    def effects(self) -> Effects:
        """Returns the effects since the last call."""
        effects = Effects(self._answers, self._saves, self._wake_ms)
        self._answers, self._saves = [], []
        return effects

    def refuse(self, ticket: Ticket, refusal: errors.HeadwaterError) -> None:
        self._answers.append(Answer(ticket, refusal))

    def answer_when_saved(self, ticket: Ticket, outcome: Outcome) -> None:
        """Give this answer when all that has changed until now is durable."""
        answer = Answer(ticket, outcome)
        if self.members.unsaved or self._also_unsaved:
            self.save(answer)
        elif self._open_saves:
            self._open_saves[max(self._open_saves)].answers.append(answer)
        else:
            self._answers.append(answer)

    def save(self, *answers: Answer) -> None:
        keys = frozenset(self.members.unsaved | self._also_unsaved)
        self.members.unsaved, self._also_unsaved = set(), set()
        self._saves_begun += 1
        self._open_saves[self._saves_begun] = _OpenSave(keys, list(answers))
        # Deletions stand first: a group that has changed its protocol is deleted under its former key.
        entries = sorted((Entry(key, self._value_of(key)) for key in keys), key=lambda one: one.value is not None)
        self._saves.append(Save(self._saves_begun, tuple(entries)))

    def save_also(self, keys: Iterable[StateKey | GroupKey]) -> None:
        """These keys with the next save, too."""
        self._also_unsaved |= set(keys)

    def saved_keys(self) -> list[StateKey]:
        """All that may be saved of the group."""
        rest = {one for one in self._also_unsaved if isinstance(one, StateKey)}
        open_keys = {key for save in self._open_saves.values() for key in save.keys if isinstance(key, StateKey)}
        own = {StateKey(self.id, Kind.GROUP), StateKey(self.id, Kind.TARGET)}
        return sorted({*own, *rest, *open_keys, *self.members.unsaved, *self.members.keys()})

    def _value_of(self, key: StateKey | GroupKey) -> StateValue | None:
        if isinstance(key, GroupKey):
            return None
        if key.kind is Kind.GROUP:
            return Epoch(self.epoch)
        return Epoch(self.assignment_epoch) if key.kind is Kind.TARGET else self.members.value_of(key)


def _updated(data: MemberData, request: Heartbeat) -> MemberData:
    """What is known of the member after this heartbeat, in which None means: as before."""
    timeout_ms = request.rebalance_timeout_ms
    return MemberData(
        instance_id=data.instance_id if request.instance_id is None else request.instance_id,
        rack_id=data.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=data.topics if request.topics is None else frozenset(request.topics),
        pattern=data.pattern if request.pattern is None else request.pattern or None,
        rebalance_timeout_ms=data.rebalance_timeout_ms if timeout_ms is None else timeout_ms,
        assignor=data.assignor if request.assignor is None else request.assignor,
    )
