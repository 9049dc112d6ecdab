"""Whatever members do, in whatever order: what always holds of a group."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater import errors
from headwater.log.groups.ballot import Ballot
from headwater.log.groups.group_state import State
from headwater.log.groups.member import Claim, Joined, Limits, Protocol, SavedGroup, Synced, Ticket, size_of
from headwater.log.groups.membership import Group
from tests.log.groups.conversation import DELAY_MS, REBALANCE_MS, SESSION_MS, Conversation, group_in

MEMBERS_MAX = 5
INSTANCES = ("red", "green")
OFFERS = (
    (Protocol("range", b"r"),),
    (Protocol("range", b"r"), Protocol("sticky", b"s")),
    (Protocol("sticky", b"s2"), Protocol("range", b"r2")),
    (Protocol("sticky", b"s3"),),
)

offers = st.sampled_from(OFFERS)
places = st.integers(0, 7)


class Members(RuleBasedStateMachine):
    """Clients that join, sync, live, leave, go away and come back, and a broker that saves late or never."""

    @initialize(delay_ms=st.sampled_from([0, DELAY_MS]))
    def begin(self, delay_ms: int) -> None:
        self.talk = Conversation(Limits(initial_delay_ms=delay_ms, members_max=MEMBERS_MAX), saving=False)
        self.asked_ms: dict[Ticket, int] = {}
        self.instances: dict[str, str | None] = {}  # member id -> instance id, for all who were ever told theirs
        self.known: list[Joined] = []  # every place in the group that anybody was ever told
        self.ids_given: list[str] = []
        self.leaders: dict[int, str] = {}
        self.generation = 0
        self.unsaved: list[int] = []
        self.saves_seen = 0
        self.durable = SavedGroup("orders")

    # What clients do

    @rule(offer=offers, id_required=st.booleans())
    def a_newcomer_joins(self, offer: tuple[Protocol, ...], id_required: bool) -> None:
        self._asked(self.talk.ask_to_join(protocols=offer, id_required=id_required))

    @rule(offer=offers, instance=st.sampled_from(INSTANCES), skips=st.booleans())
    def a_static_member_starts(self, offer: tuple[Protocol, ...], instance: str, skips: bool) -> None:
        self._asked(self.talk.ask_to_join(protocols=offer, instance_id=instance, can_skip_assignment=skips))

    @precondition(lambda self: self.ids_given)
    @rule(offer=offers, index=places)
    def one_joins_with_the_id_it_was_given(self, offer: tuple[Protocol, ...], index: int) -> None:
        member_id = self.ids_given[-1 - index % len(self.ids_given)]
        self._asked(self.talk.ask_to_join(member_id, protocols=offer))

    @precondition(lambda self: self.known)
    @rule(offer=offers, index=places)
    def a_member_joins_again(self, offer: tuple[Protocol, ...], index: int) -> None:
        member_id = self.known[-1 - index % len(self.known)].member_id
        instance = self.instances.get(member_id)
        self._asked(self.talk.ask_to_join(member_id, protocols=offer, instance_id=instance))

    @precondition(lambda self: self.known)
    @rule(index=places)
    def a_member_asks_for_its_share(self, index: int) -> None:
        self._sync(self.known[-1 - index % len(self.known)])

    def _sync(self, member: Joined) -> None:
        brought: dict[str, bytes] = {}
        if member.members and not member.skip_assignment:
            brought = {one.id: f"{member.generation}/{one.id}".encode() for one in member.members}
        claims = {"instance_id": instance} if (instance := self.instances.get(member.member_id)) else {}
        self._asked(self.talk.ask_to_sync(member, brought, **claims))

    @precondition(lambda self: self.known)
    @rule(index=places)
    def a_member_lives(self, index: int) -> None:
        member = self.known[-1 - index % len(self.known)]
        try:
            self.talk.heartbeat(member, self.instances.get(member.member_id))
        except errors.RebalanceUnderWay:
            assert self.talk.group.state is State.PREPARING
        except (errors.UnknownMember, errors.FencedMember, errors.StaleGeneration):
            pass
        else:
            assert self.talk.group.state in (State.COMPLETING, State.STABLE)

    @precondition(lambda self: self.known)
    @rule(index=places)
    def a_member_commits(self, index: int) -> None:
        member = self.known[-1 - index % len(self.known)]
        claim = Claim(member.member_id, member.generation, self.instances.get(member.member_id))
        try:
            self.talk.group.check_commit(claim, self.talk.now_ms)
        except errors.ConflictError:
            return
        assert member.generation == self.talk.group.generation
        assert self.talk.group.state in (State.STABLE, State.PREPARING)

    @precondition(lambda self: self.known)
    @rule(index=places)
    def a_member_leaves(self, index: int) -> None:
        member = self.known[-1 - index % len(self.known)]
        try:
            self.talk.leave(member.member_id, self.instances.get(member.member_id))
        except (errors.UnknownMember, errors.FencedMember):
            return
        self._listen()

    @precondition(lambda self: self.asked_ms)
    @rule(index=places)
    def a_connection_closes(self, index: int) -> None:
        ticket = sorted(self.asked_ms)[index % len(self.asked_ms)]
        self.talk.took(self.talk.group.abandon(ticket, self.talk.now_ms))
        del self.asked_ms[ticket]
        self._listen()

    @rule(offer=offers, saved=st.booleans())
    def everybody_does_as_told(self, offer: tuple[Protocol, ...], saved: bool) -> None:
        """All members join again, wait, and ask for their shares."""
        for member in self.talk.group.describe().members:
            self._asked(self.talk.ask_to_join(member.id, protocols=offer, instance_id=member.instance_id))
        self.time_passes(DELAY_MS)
        for joined in [one for one in self.known if one.generation == self.talk.group.generation]:
            self._sync(joined)
        if self.unsaved and saved:
            self.the_disk_answers(works=True)

    # What happens around them

    @rule(ms=st.sampled_from([1, DELAY_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, ms: int) -> None:
        self.talk.pass_time(ms)
        self._listen()

    @rule(ms=st.sampled_from([SESSION_MS, REBALANCE_MS]))
    def time_passes_and_members_live(self, ms: int) -> None:
        for _ in range(2 * ms // SESSION_MS):
            for member in self.talk.group.describe().members:
                try:
                    self.talk.group.heartbeat(Claim(member.id, self.talk.group.generation), self.talk.now_ms)
                except errors.RebalanceUnderWay:
                    pass
            self.time_passes(SESSION_MS // 2)

    @precondition(lambda self: self.unsaved)
    @rule(works=st.booleans())
    def the_disk_answers(self, works: bool) -> None:
        number = self.unsaved.pop(0)
        if works:
            self.durable = group_in(self.talk.saves[number - 1])
        failure = None if works else errors.DiskFull("__consumer_offsets", 0)
        state, saved = self.talk.group.state, group_in(self.talk.saves[number - 1])
        self.talk.took(self.talk.group.saved(number, failure, self.talk.now_ms))
        assert self.talk.group.state is state or saved.generation == self.talk.group.generation
        self._listen()

    @rule()
    def the_broker_restarts(self) -> None:
        talk = Conversation(self.talk.limits, now_ms=self.talk.now_ms, saving=False)
        talk._ids, talk._tickets = self.talk._ids, self.talk._tickets
        talk.group = Group.restore(self.durable, talk.limits, talk.now_ms)
        talk.took(talk.group.effects())
        self.talk, self.generation = talk, self.durable.generation
        self.leaders = {}
        # What was never saved, members join again to learn; the numbers of such generations come a second time.
        self.known = [joined for joined in self.known if joined.generation <= self.durable.generation]
        self.unsaved.clear()
        self.saves_seen = 0
        self.asked_ms.clear()

    def _asked(self, ticket: Ticket) -> None:
        self.asked_ms[ticket] = self.talk.now_ms
        self._listen()

    def _listen(self) -> None:
        self.unsaved += [save.number for save in self.talk.saves[self.saves_seen :]]
        self.saves_seen = len(self.talk.saves)
        for ticket in [ticket for ticket in self.asked_ms if ticket in self.talk.answers]:
            del self.asked_ms[ticket]
            self._heard(self.talk.answers[ticket], *self.talk.answered_in[ticket])

    def _heard(self, outcome: object, state: State, generation: int) -> None:
        if isinstance(outcome, errors.MemberIdRequired):
            self.ids_given.append(outcome.member_id)
        if isinstance(outcome, Joined):
            self.known.append(outcome)
            name = outcome.member_id.rpartition("-")[0]
            self.instances[outcome.member_id] = name if name in INSTANCES else None
            if outcome.members and not outcome.skip_assignment:
                announced = self.leaders.setdefault(outcome.generation, outcome.member_id)
                assert announced == outcome.member_id, "one leader a generation"
        if isinstance(outcome, Synced):
            assert outcome.assignment.startswith(f"{generation}/".encode()), "a share of this generation"
            assert state is State.STABLE

    # What always holds

    @invariant()
    def a_generation_only_grows(self) -> None:
        assert self.talk.group.generation >= self.generation
        self.generation = self.talk.group.generation

    @invariant()
    def a_group_with_members_has_one_leader_among_them(self) -> None:
        roster = self.talk.group._roster
        assert (roster.leader_id in roster) == (len(roster) > 0)
        assert (self.talk.group.state is State.EMPTY) == (len(roster) == 0)

    @invariant()
    def there_are_never_too_many_members(self) -> None:
        assert len(self.talk.group._roster) <= MEMBERS_MAX
        assert len(self.talk.group._pending) <= MEMBERS_MAX

    @invariant()
    def static_ids_are_unique_and_lead_to_their_members(self) -> None:
        roster = self.talk.group._roster
        static = {member.instance_id: member.id for member in roster if member.instance_id is not None}
        assert roster._static_ids == static
        assert len(static) == len([member for member in roster if member.instance_id is not None])

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        roster, recount = self.talk.group._roster, Ballot()
        for member in roster:
            recount.add(member.protocols)
        assert roster.ballot._speakers == recount._speakers
        assert roster.bytes == sum(size_of(member.protocols) for member in roster)
        assert roster.joins_waiting == sum(member.join_ticket is not None for member in roster)
        holders = {ticket: m.id for m in roster for ticket in (m.join_ticket, m.sync_ticket) if ticket is not None}
        assert roster._ticket_holders == holders

    @invariant()
    def shares_exist_only_in_a_stable_group(self) -> None:
        group = self.talk.group
        assert group.state is State.STABLE or not any(member.assignment for member in group._roster)

    @invariant()
    def a_generation_consists_of_those_who_joined_it(self) -> None:
        group = self.talk.group
        if group.state is State.COMPLETING:
            announced = {one.id for one in group._roster if one.sync_expected or one.sync_ticket is not None}
            assert group._roster.leader_id in announced
            assert announced >= {one.id for one in group._roster if one.instance_id is None}

    @invariant()
    def what_the_leader_brought_belongs_to_its_generation(self) -> None:
        assert self.talk.group._proposed is None or self.talk.group.state is State.COMPLETING

    @invariant()
    def members_wait_for_what_their_group_is_doing(self) -> None:
        state = self.talk.group.state
        for member in self.talk.group._roster:
            assert member.join_ticket is None or state is State.PREPARING
            assert member.sync_ticket is None or state is State.COMPLETING

    @invariant()
    def nobody_waits_longer_than_the_rebalance_timeout(self) -> None:
        static_saves = {
            answer.ticket for save in self.talk.group._open_saves.values() for answer in save.answers
        }  # these wait for the disk, not for the group
        waited = [self.talk.now_ms - asked for ticket, asked in self.asked_ms.items() if ticket not in static_saves]
        assert max(waited, default=0) < REBALANCE_MS

    @invariant()
    def the_group_asks_to_be_called_in_time(self) -> None:
        group = self.talk.group
        next_ms = group._next_deadline_ms()
        assert next_ms is None or (group._wake_ms is not None and group._wake_ms <= next_ms)
        assert next_ms is None or next_ms > self.talk.now_ms - 1

    @invariant()
    def members_agree_on_a_protocol(self) -> None:
        group = self.talk.group
        if len(group._roster):
            assert group._roster.ballot.spoken_by(len(group._roster))


Members.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
test_whatever_members_do = Members.TestCase
