"""A group and the members that talk to it, for tests: tickets are kept, answers remembered."""

from dataclasses import dataclass, field
from itertools import count

from headwater.log.groups.effects import Effects, Outcome, Save
from headwater.log.groups.group_state import State
from headwater.log.groups.member import Claim, Join, Joined, Limits, Protocol, SavedGroup, Sync, Synced, Ticket
from headwater.log.groups.membership import Group

SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 300
FORMING_MS = 3 * DELAY_MS


def subscription(*topics: str, version: int = 1) -> bytes:
    """Metadata of a consumer, as the Java client writes it."""
    names = b"".join(len(topic).to_bytes(2) + topic.encode() for topic in topics)
    return version.to_bytes(2) + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"


def group_in(save: Save) -> SavedGroup:
    """The group that a save writes down."""
    ((_, saved),) = save.entries
    assert isinstance(saved, SavedGroup)
    return saved


@dataclass
class Conversation:
    """Time passes when it is told to; what the group asks to be saved is saved at once, unless `saving` is off."""

    limits: Limits = field(default_factory=lambda: Limits(initial_delay_ms=DELAY_MS))
    now_ms: int = 1_000
    saving: bool = True

    def __post_init__(self) -> None:
        self.group = Group("orders", self.limits)
        self.answers: dict[Ticket, Outcome] = {}
        self.answered_in: dict[Ticket, tuple[State, int]] = {}
        self.saves: list[Save] = []
        self.wake_ms: int | None = None
        self._tickets = count(1)
        self._ids = count(1)

    def took(self, effects: Effects) -> None:
        for ticket, outcome in effects.answers:
            assert ticket not in self.answers, "a ticket is answered once"
            self.answers[ticket] = outcome
            self.answered_in[ticket] = (self.group.state, self.group.generation)
        self.saves += effects.saves
        self.wake_ms = effects.wake_ms
        if self.saving:
            for save in effects.saves:
                self.took(self.group.saved(save.number, None, self.now_ms))

    def pass_time(self, ms: int) -> None:
        """Let time pass, and the group be called whenever it asked to be."""
        end_ms = self.now_ms + ms
        while self.wake_ms is not None and self.wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.wake_ms)
            self.took(self.group.tick(self.now_ms))
        self.now_ms = end_ms

    def ask_to_join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[Protocol, ...] = (Protocol("range", b"r"),),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        id_required: bool = False,
        can_skip_assignment: bool = True,
    ) -> Ticket:
        ticket = next(self._tickets)
        request = Join(
            protocol_type=protocol_type,
            protocols=protocols,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            fresh_id=f"{instance_id or 'member'}-{next(self._ids)}",
            member_id=member_id,
            instance_id=instance_id,
            client_id="test",
            client_host="/127.0.0.1",
            id_required=id_required,
            can_skip_assignment=can_skip_assignment,
        )
        self.took(self.group.join(request, ticket, self.now_ms))
        return ticket

    def ask_to_sync(self, joined: Joined, assignments: dict[str, bytes] | None = None, **claims: str) -> Ticket:
        ticket = next(self._tickets)
        claim = Claim(joined.member_id, joined.generation, claims.get("instance_id"))
        request = Sync(claim, assignments or {}, claims.get("protocol_type"), claims.get("protocol_name"))
        self.took(self.group.sync(request, ticket, self.now_ms))
        return ticket

    def leave(self, member_id: str, instance_id: str | None = None) -> None:
        self.took(self.group.leave(member_id, instance_id, self.now_ms))

    def heartbeat(self, joined: Joined, instance_id: str | None = None) -> None:
        self.group.heartbeat(Claim(joined.member_id, joined.generation, instance_id), self.now_ms)

    def joined(self, ticket: Ticket) -> Joined:
        outcome = self.answers[ticket]
        assert isinstance(outcome, Joined), outcome
        return outcome

    def share(self, ticket: Ticket) -> bytes:
        outcome = self.answers[ticket]
        assert isinstance(outcome, Synced), outcome
        return outcome.assignment

    # Several steps at once

    def formed(self, members: int, **join: object) -> list[Joined]:
        """A stable group of so many dynamic members, the leader first; member number i has the share b"i"."""
        tickets = [self.ask_to_join(**join) for _ in range(members)]  # type: ignore[arg-type]
        self.pass_time(FORMING_MS)
        return self.shared_out(tickets)

    def shared_out(self, tickets: list[Ticket]) -> list[Joined]:
        """All who joined ask for their share; the leader brings them."""
        everybody = sorted((self.joined(ticket) for ticket in tickets), key=lambda one: one.leader_id != one.member_id)
        leader = everybody[0]
        shares = {member.id: str(index).encode() for index, member in enumerate(leader.members)}
        for member in everybody:
            self.ask_to_sync(member, shares if member is leader else None)
        return everybody
