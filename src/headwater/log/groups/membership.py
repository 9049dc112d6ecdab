"""One consumer group: who belongs to it, who leads, which generation, who has which share. Pure.

    Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲          (members join)      (the leader shares out)    │
      └────────────────◄───────────────────◄────────────────────┘

Nothing here waits, reads a clock or touches a disk. Every call is given the time and answers with Effects: which
waiting requests to answer, what to save, and when to call `tick` at the latest. Times are those of Clock.elapsed_ms,
so that a moved wall clock ends no session.

A generation becomes Stable only after the save it asked for was reported with `saved`: a member that received its
assignment finds the group unchanged after a restart of the broker.
"""

from typing import NamedTuple

from headwater import errors
from headwater.log.groups.admission import check_protocols, check_room, check_session_timeout
from headwater.log.groups.effects import Answer, Effects, Outcome, Save
from headwater.log.groups.entry import Entry
from headwater.log.groups.group_state import NEXT_STATE, Event, State
from headwater.log.groups.member import (
    Claim,
    DescribedGroup,
    DescribedMember,
    Join,
    Joined,
    JoinedMember,
    Limits,
    Member,
    Protocol,
    SavedGroup,
    SavedMember,
    Sync,
    Synced,
    Ticket,
)
from headwater.log.groups.records import GroupKey
from headwater.log.groups.roster import Roster
from headwater.log.groups.subscription import subscribed_topics

NEWCOMER_TIMEOUT_MS = 5 * 60_000
"""A new member cannot send heartbeats while it waits. After this time its client has given up and joined again."""


class _Window(NamedTuple):
    """How long a phase may last."""

    deadline_ms: int
    initial: bool = False
    """The first members of a group wait for each other even when all that are known have joined."""
    extension_ms: int = 0
    """How much longer the initial wait may become."""
    newcomers: bool = False
    """A member joined during the current part of the initial rebalance delay, so more may follow."""


class _OpenSave(NamedTuple):
    generation: int
    shares: bool
    answers: tuple[Answer, ...]


class Group:
    """Not thread-safe. Every ticket is answered exactly once, unless it is abandoned."""

    def __init__(self, group_id: str, limits: Limits) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self._limits = limits
        self._roster = Roster(group_id)
        self._pending: dict[str, int] = {}  # ids given out but not joined with yet -> deadline
        self._window: _Window | None = None
        self._proposed: dict[str, bytes] | None = None
        self._open_saves: dict[int, _OpenSave] = {}
        self._saves_begun = 0
        self._unsaved = False
        self._saves: list[Save] = []
        self._wake_ms: int | None = None

    @classmethod
    def restore(cls, saved: SavedGroup, limits: Limits, now_ms: int) -> "Group":
        """The group as it was saved. Its members have one session timeout from now to send a heartbeat."""
        group = cls(saved.id, limits)
        group.protocol_type, group.generation = saved.protocol_type, saved.generation
        if saved.protocol_name is None or not saved.members:
            return group
        group.state, group.protocol_name = State.STABLE, saved.protocol_name
        for row in saved.members:
            protocols = (Protocol(saved.protocol_name, row.metadata),)
            member = Member(
                row.id, row.instance_id, row.client_id, row.client_host, row.session_timeout_ms,
                row.rebalance_timeout_ms, protocols, 0, new=False, assignment=row.assignment,
            )  # fmt: skip
            group._roster.insert(member)
            group._touch(member, now_ms)
        if saved.leader_id in group._roster:
            group._roster.leader_id = saved.leader_id
        return group

    # What members ask

    def join(self, request: Join, ticket: Ticket, now_ms: int) -> Effects:
        """Answered with Joined when every member has joined, or with the reason for which this member may not."""
        try:
            self._join(request, ticket, now_ms)
        except errors.HeadwaterError as refusal:
            self._roster.answer(ticket, refusal)
        return self.effects()

    def sync(self, request: Sync, ticket: Ticket, now_ms: int) -> Effects:
        """Answered with Synced when the leader has shared out; the leader brings the shares with its own sync."""
        try:
            self._sync(request, ticket, now_ms)
        except errors.HeadwaterError as refusal:
            self._roster.answer(ticket, refusal)
        return self.effects()

    def heartbeat(self, claim: Claim, now_ms: int) -> None:
        """The member lives; raises what it must do about its membership, if anything."""
        self._touch(self._current(claim), now_ms)
        if self.state is State.PREPARING:
            raise errors.RebalanceUnderWay(f'group "{self.id}" is waiting for its members to join again')

    def check_commit(self, claim: Claim, now_ms: int) -> None:
        """May offsets be committed under this claim? Raises why not."""
        if self.state is State.EMPTY and claim.generation < 0:
            return  # a consumer that chooses its partitions itself, or an operator's tool
        if claim == Claim("", claim.generation) and claim.generation < 0:
            raise errors.UnknownMember(f'group "{self.id}" has members, and only they may commit to it')
        self._touch(self._current(claim), now_ms)
        if self.state is State.COMPLETING:
            raise errors.RebalanceUnderWay(f'group "{self.id}" is sharing out its partitions')

    def check_transaction(self, claim: Claim, now_ms: int) -> None:
        """As `check_commit`, for offsets of a transaction, which count also while the leader assigns partitions.

        A producer cannot wait for the end of a rebalance: it takes that error for a fatal one.
        """
        if self.state is State.EMPTY and claim.generation < 0:
            return
        self._touch(self._current(claim), now_ms)

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> Effects:
        """The member goes at once; UnknownMember, FencedMember. A static one may be named by its instance alone."""
        if instance_id is None and member_id in self._pending:
            del self._pending[member_id]
            self._close_if_complete(now_ms)
            return self.effects()
        static = self._roster.static(instance_id)
        if static is not None and not member_id:
            member_id = static.id
        self._roster.remove(self._roster.known(member_id, instance_id), self._removed("it left"))
        self._after_removal(now_ms)
        return self.effects()

    def abandon(self, ticket: Ticket, now_ms: int) -> Effects:
        """Discards the ticket of a response: the connection it belongs to is closed."""
        member = self._roster.withdraw(ticket)
        if member is None:
            return self.effects()
        if self.state is State.COMPLETING:
            member.sync_expected = True
        if member.new:  # it never received its member id
            self._roster.remove(member, self._removed("its client went away"))
            self._after_removal(now_ms)
        else:
            self._touch(member, now_ms)
        return self.effects()

    # What the surroundings report

    def saved(self, number: int, failure: errors.HeadwaterError | None, now_ms: int) -> Effects:
        """Save `number` is durable, or has failed."""
        save = self._open_saves.pop(number, None)
        if save is None:
            return self.effects()
        self._unsaved = failure is not None
        for ticket, outcome in save.answers:
            self._roster.answer(ticket, failure or outcome)
        if save.shares and self.state is State.COMPLETING and save.generation == self.generation:
            self._shares_saved(failure, now_ms)
        return self.effects()

    def tick(self, now_ms: int) -> Effects:
        """Applies all timeouts that are due."""
        expired = [member for member in self._roster if member.can_expire and member.deadline_ms <= now_ms]
        for member in expired:
            self._roster.remove(member, self._removed("it sent no heartbeat within its session timeout"))
        if expired:
            self._after_removal(now_ms)
        for member_id in [member_id for member_id, deadline in self._pending.items() if deadline <= now_ms]:
            del self._pending[member_id]
        self._close_if_complete(now_ms)
        if self._window is not None and self._window.deadline_ms <= now_ms:
            self._window_over(self._window, now_ms)
        self._wake_ms = self._next_deadline_ms()
        return self.effects()

    def rebalance(self, now_ms: int) -> Effects:
        """All members have to join again."""
        if self._roster:
            self._rebalance(now_ms)
        return self.effects()

    def remove(self) -> Effects:
        """The group ends; GroupNotEmpty if it has members."""
        if self.state is not State.EMPTY:
            raise errors.GroupNotEmpty(self.id)
        self._pending.clear()
        self._move(Event.REMOVED)
        return self.effects()

    # What others want to know

    @property
    def forgettable(self) -> bool:
        """Nothing would be lost by dropping this object: what counts is saved."""
        saved = not self._open_saves and not self._unsaved
        return self.state is State.DEAD or (self.state is State.EMPTY and not self._pending and saved)

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(self._roster)

    def subscribes(self, topic: str) -> bool:
        """Returns whether any member reads this topic; yes if the subscription cannot be decoded."""
        if self.protocol_type != "consumer":
            return len(self._roster) > 0
        for member in self._roster:
            topics = subscribed_topics(member.metadata_for(self.protocol_name or member.protocols[0].name))
            if topics is None or topic in topics:
                return True
        return False

    def describe(self) -> DescribedGroup:
        """Shares and metadata mean something only once the group is stable; until then they are left out."""
        name = (self.protocol_name or "") if self.state is State.STABLE else ""
        members = tuple(
            DescribedMember(
                member.id, member.instance_id, member.client_id, member.client_host,
                member.metadata_for(name), member.assignment,
            )
            for member in self._roster
        )  # fmt: skip
        return DescribedGroup(self.id, self.state, self.protocol_type, name, members)

    def effects(self) -> Effects:
        """Returns the effects since the last call."""
        effects = Effects(self._roster.answers, self._saves, self._wake_ms)
        self._roster.answers, self._saves = [], []
        return effects

    # Joining

    def _join(self, request: Join, ticket: Ticket, now_ms: int) -> None:
        roster = self._roster
        present = roster.get(request.member_id) if request.member_id else roster.static(request.instance_id)
        check_session_timeout(request, self._limits)
        check_room(request, roster, self._limits, present=present, ids_out=self._pending)
        check_protocols(request, roster, protocol_type=self.protocol_type, present=present)
        if request.member_id and (request.instance_id is not None or request.member_id not in self._pending):
            self._join_again(roster.known(request.member_id, request.instance_id), request, ticket, now_ms)
        elif request.member_id:
            del self._pending[request.member_id]
            self._admit(request.member_id, request, ticket, now_ms)
        elif present is not None:
            self._replace_static(present, request, ticket, now_ms)
        elif request.id_required and request.instance_id is None:
            self._pending[request.fresh_id] = now_ms + request.session_timeout_ms
            self._wake_by(self._pending[request.fresh_id])
            raise errors.MemberIdRequired(request.fresh_id)
        else:
            self._admit(request.fresh_id, request, ticket, now_ms)

    def _admit(self, member_id: str, request: Join, ticket: Ticket, now_ms: int) -> None:
        member = self._insert(member_id, request, now_ms + NEWCOMER_TIMEOUT_MS)
        self._wake_by(member.deadline_ms)
        if self._window is not None and self._window.initial:
            self._window = self._window._replace(newcomers=True)
        self._wait_for_rebalance(member, ticket, now_ms)

    def _insert(self, member_id: str, request: Join, deadline_ms: int) -> Member:
        member = Member(
            member_id, request.instance_id, request.client_id, request.client_host, request.session_timeout_ms,
            request.rebalance_timeout_ms, request.protocols, deadline_ms,
        )  # fmt: skip
        self._roster.insert(member)
        self.protocol_type = request.protocol_type
        return member

    def _join_again(self, member: Member, request: Join, ticket: Ticket, now_ms: int) -> None:
        follows = member.id != self._roster.leader_id
        answerable = self.state is State.COMPLETING or (self.state is State.STABLE and follows)
        # It may only have missed our answer. But a leader that comes back to a stable group wants a new assignment.
        if answerable and member.protocols == request.protocols:
            self._touch(member, now_ms)
            self._roster.answer(ticket, self._joined(member))
            return
        self._roster.update(member, request)
        self.protocol_type = request.protocol_type
        if member.new:
            member.deadline_ms = now_ms + NEWCOMER_TIMEOUT_MS
        self._wait_for_rebalance(member, ticket, now_ms)

    def _replace_static(self, former: Member, request: Join, ticket: Ticket, now_ms: int) -> None:
        """A static member has come back under a new id: it takes over what its former self had."""
        roster = self._roster
        leader_before = roster.leader_id or ""
        roster.remove(former, errors.FencedMember(f'a newer instance "{request.instance_id}" has joined'))
        member = self._insert(request.fresh_id, request, 0)
        member.new, member.assignment = False, former.assignment
        self._touch(member, now_ms)
        if leader_before == former.id:
            roster.leader_id = member.id
        if self.state is not State.STABLE or self._would_share_differently(former, member):
            self._wait_for_rebalance(member, ticket, now_ms)
            return
        joined = self._joined(member)._replace(skip_assignment=roster.leader_id == member.id)
        if not request.can_skip_assignment:
            # An older client that is named as leader would assign partitions again. So the response names a leader it
            # does not know.
            joined = joined._replace(members=(), leader_id=leader_before, skip_assignment=False)
        self._save(Answer(ticket, joined))

    def _would_share_differently(self, former: Member, member: Member) -> bool:
        if self._roster.ballot.choose(list(self._roster)) != self.protocol_name:
            return True
        before, after = (one.metadata_for(self.protocol_name) for one in (former, member))
        return self.protocol_type == "consumer" and subscribed_topics(before) != subscribed_topics(after)

    # Rebalancing

    def _wait_for_rebalance(self, member: Member, ticket: Ticket, now_ms: int) -> None:
        self._roster.wait_for_join(member, ticket)
        self._rebalance(now_ms)

    def _rebalance(self, now_ms: int) -> None:
        if self.state is not State.PREPARING:
            self._open_join_window(now_ms)
        self._close_if_complete(now_ms)

    def _open_join_window(self, now_ms: int) -> None:
        delay_ms = self._limits.initial_delay_ms
        initial = self.state is State.EMPTY and delay_ms > 0
        self._move(Event.REBALANCE_NEEDED)
        self._proposed = None
        for member in self._roster:
            member.assignment, member.sync_expected = b"", False
            if member.sync_ticket is not None:
                self._release(member, errors.RebalanceUnderWay(f'group "{self.id}" is rebalancing'), now_ms)
        longest_ms = self._rebalance_timeout_ms()
        if initial:
            self._set_window(_Window(now_ms + delay_ms, initial=True, extension_ms=max(longest_ms - delay_ms, 0)))
        else:
            self._set_window(_Window(now_ms + longest_ms))

    def _close_if_complete(self, now_ms: int) -> None:
        if self.state is not State.PREPARING or self._window is None or self._window.initial:
            return
        if self._roster.joins_waiting == len(self._roster) and not self._pending:
            self._close_join_window(now_ms)

    def _window_over(self, window: _Window, now_ms: int) -> None:
        if self.state is not State.PREPARING:
            self._sync_window_over(now_ms)
        elif window.initial and window.newcomers and window.extension_ms:
            stretch_ms = min(self._limits.initial_delay_ms, window.extension_ms)
            rest_ms = window.extension_ms - stretch_ms
            self._set_window(_Window(now_ms + stretch_ms, initial=True, extension_ms=rest_ms))
        else:
            self._close_join_window(now_ms)

    def _close_join_window(self, now_ms: int) -> None:
        """The members that joined form the next generation. Static members may be away until their session ends."""
        for member in list(self._roster):
            if member.join_ticket is None and member.instance_id is None:
                self._roster.remove(member, self._removed("it did not join again in time"))
        if not self._roster:
            self._become_empty()
        elif self._roster.joins_waiting:
            self._begin_generation(now_ms)
        else:
            self._set_window(_Window(now_ms + self._rebalance_timeout_ms()))

    def _begin_generation(self, now_ms: int) -> None:
        self._move(Event.JOIN_WINDOW_CLOSED)
        self.generation += 1
        self.protocol_name = self._roster.ballot.choose(list(self._roster))
        joined = [member for member in self._roster if member.join_ticket is not None]
        if all(member.id != self._roster.leader_id for member in joined):
            self._roster.leader_id = joined[0].id
        self._set_window(_Window(now_ms + self._rebalance_timeout_ms()))
        for member in joined:
            member.new, member.sync_expected = False, True
            self._release(member, self._joined(member), now_ms)

    def _become_empty(self) -> None:
        self._move(Event.LAST_MEMBER_LEFT)
        self._window = self._proposed = self.protocol_name = None
        if self.generation:
            self.generation += 1
            self._save()

    def _joined(self, member: Member) -> Joined:
        leader_id = self._roster.leader_id or ""
        members: tuple[JoinedMember, ...] = ()
        if member.id == leader_id:
            members = tuple(
                JoinedMember(one.id, one.instance_id, one.metadata_for(self.protocol_name)) for one in self._roster
            )
        return Joined(self.generation, self.protocol_type, self.protocol_name or "", leader_id, member.id, members)

    # Sharing out

    def _sync(self, request: Sync, ticket: Ticket, now_ms: int) -> None:
        member = self._current(request.claim)
        wanted = (request.protocol_type or self.protocol_type, request.protocol_name or self.protocol_name)
        if wanted != (self.protocol_type, self.protocol_name):
            raise errors.InconsistentProtocol(f'group "{self.id}" uses {self.protocol_type}/{self.protocol_name}')
        self._touch(member, now_ms)
        if self.state is State.PREPARING:
            raise errors.RebalanceUnderWay(f'group "{self.id}" is waiting for its members to join again')
        if self.state is State.STABLE:
            member.sync_expected = False
            self._roster.answer(ticket, self._synced(member))
            return
        if member.id == self._roster.leader_id and self._proposed is None:
            self._propose(request)
        self._roster.wait_for_sync(member, ticket)

    def _propose(self, request: Sync) -> None:
        shares = {member.id: request.assignments.get(member.id, b"") for member in self._roster}
        if self._roster.bytes + sum(map(len, shares.values())) > self._limits.bytes_max:
            raise errors.GroupFull(f'the assignments of group "{self.id}" are larger than a group may be')
        self._proposed = shares
        self._save()

    def _shares_saved(self, failure: errors.HeadwaterError | None, now_ms: int) -> None:
        # Without the save, members must join again after a restart of the broker: a pity, but safe, and no reason to
        # stop reading while the disk is full. A static member, though, would be fenced by its own former id.
        if failure is None or not self._roster.has_static:
            self._share_out(now_ms)
            return
        for member in self._roster:
            if member.sync_ticket is not None:
                self._release(member, failure, now_ms)
        self._rebalance(now_ms)

    def _share_out(self, now_ms: int) -> None:
        self._move(Event.SHARED_OUT)
        shares, self._proposed = self._proposed or {}, None
        for member in self._roster:
            member.assignment = shares.get(member.id, b"")
            if member.sync_ticket is not None:
                self._release(member, self._synced(member), now_ms)

    def _sync_window_over(self, now_ms: int) -> None:
        self._window = None
        absent = [member for member in self._roster if member.sync_expected]
        for member in absent:
            self._roster.remove(member, self._removed("it did not ask for its share in time"))
        if absent:
            self._after_removal(now_ms)
        elif self.state is State.COMPLETING:
            self._shares_saved(errors.UnavailableError(f'group "{self.id}" could not be saved in time'), now_ms)

    def _synced(self, member: Member) -> Synced:
        return Synced(self.protocol_type, self.protocol_name or "", member.assignment)

    def _save(self, *answers: Answer) -> None:
        """Ask for the group to be saved; `answers` are given once it is."""
        self._saves_begun += 1
        shares = self._proposed
        self._open_saves[self._saves_begun] = _OpenSave(self.generation, shares is not None, answers)
        members = tuple(
            SavedMember(
                member.id, member.instance_id, member.client_id, member.client_host,
                member.rebalance_timeout_ms, member.session_timeout_ms, member.metadata_for(self.protocol_name),
                member.assignment if shares is None else shares.get(member.id, b""),
            )
            for member in self._roster
        )  # fmt: skip
        saved = SavedGroup(
            self.id, self.protocol_type, self.generation, self.protocol_name, self._roster.leader_id, members
        )
        self._saves.append(Save(self._saves_begun, (Entry(GroupKey(self.id), saved),)))

    # Members and time

    def _current(self, claim: Claim) -> Member:
        member = self._roster.known(claim.member_id, claim.instance_id)
        if claim.generation != self.generation:
            raise errors.StaleGeneration(
                f'group "{self.id}" is at generation {self.generation}, not {claim.generation}'
            )
        return member

    def _after_removal(self, now_ms: int) -> None:
        if self._roster:
            self._rebalance(now_ms)
        else:
            self._become_empty()

    def _removed(self, why: str) -> errors.UnknownMember:
        return errors.UnknownMember(f'this member is no longer in group "{self.id}": {why}')

    def _release(self, member: Member, outcome: Outcome, now_ms: int) -> None:
        """Send the response that the member waits for; from now on it must send heartbeats."""
        self._roster.release(member, outcome)
        self._touch(member, now_ms)

    def _touch(self, member: Member, now_ms: int) -> None:
        member.deadline_ms = now_ms + member.session_timeout_ms
        self._wake_by(member.deadline_ms)

    def _set_window(self, window: _Window) -> None:
        self._window = window
        self._wake_by(window.deadline_ms)

    def _wake_by(self, deadline_ms: int) -> None:
        # Deadlines of living members only move away, so the earliest one seen stays a safe moment to look again.
        if self._wake_ms is None or deadline_ms < self._wake_ms:
            self._wake_ms = deadline_ms

    def _next_deadline_ms(self) -> int | None:
        deadlines = [member.deadline_ms for member in self._roster if member.can_expire]
        deadlines += self._pending.values()
        if self._window is not None:
            deadlines.append(self._window.deadline_ms)
        return min(deadlines, default=None)

    def _rebalance_timeout_ms(self) -> int:
        longest_ms = max((member.rebalance_timeout_ms for member in self._roster), default=0)
        return max(longest_ms, self._limits.session_timeout_ms_min)

    def _move(self, event: Event) -> None:
        self.state = NEXT_STATE[self.state, event]
