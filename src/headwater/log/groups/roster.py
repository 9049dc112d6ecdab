"""The members of a group, and their requests that wait for a response. Pure."""

from collections.abc import Iterator

from headwater import errors
from headwater.log.groups.ballot import Ballot
from headwater.log.groups.effects import Answer, Outcome
from headwater.log.groups.member import Join, Member, Ticket, size_of


class Roster:
    """The members of one group by the order of their joining, and all that is counted about them.

    Decides nothing about the group's state. What was answered collects in `answers`.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.leader_id: str | None = None
        self.ballot = Ballot()
        self.bytes = 0
        self.joins_waiting = 0
        self.answers: list[Answer] = []
        self._members: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}  # instance id -> member id
        self._ticket_holders: dict[Ticket, str] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    @property
    def has_static(self) -> bool:
        return bool(self._static_ids)

    def static(self, instance_id: str | None) -> Member | None:
        """The member with this instance id."""
        return self._members.get(self._static_ids.get(instance_id or "", ""))

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def known(self, member_id: str, instance_id: str | None) -> Member:
        """Returns the member that a request claims to be; raises FencedMember or UnknownMember if there is none."""
        if instance_id is not None and self._static_ids.get(instance_id, member_id) != member_id:
            raise errors.FencedMember(f'a newer instance "{instance_id}" has joined group "{self.group_id}"')
        member = self._members.get(member_id)
        if member is None or (instance_id is not None and instance_id not in self._static_ids):
            raise errors.UnknownMember(f'group "{self.group_id}" has no member "{member_id}"')
        return member

    def insert(self, member: Member) -> None:
        self._members[member.id] = member
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.id
        self.ballot.add(member.protocols)
        self.bytes += size_of(member.protocols)
        self.leader_id = self.leader_id or member.id

    def update(self, member: Member, request: Join) -> None:
        self.ballot.remove(member.protocols)
        self.bytes -= size_of(member.protocols)
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.ballot.add(member.protocols)
        self.bytes += size_of(member.protocols)

    def remove(self, member: Member, reason: errors.HeadwaterError) -> None:
        self.release(member, reason)
        del self._members[member.id]
        if member.instance_id is not None:
            del self._static_ids[member.instance_id]
        self.ballot.remove(member.protocols)
        self.bytes -= size_of(member.protocols)
        if self.leader_id == member.id:
            self.leader_id = next(iter(self._members), None)

    # Waiting requests

    def answer(self, ticket: Ticket, outcome: Outcome) -> None:
        self.answers.append(Answer(ticket, outcome))

    def wait_for_join(self, member: Member, ticket: Ticket) -> None:
        self.release(member, errors.RebalanceUnderWay("this request was overtaken by a newer one"))
        member.join_ticket = ticket
        self._ticket_holders[ticket] = member.id
        self.joins_waiting += 1

    def wait_for_sync(self, member: Member, ticket: Ticket) -> None:
        self.release(member, errors.RebalanceUnderWay("this request was overtaken by a newer one"))
        member.sync_ticket, member.sync_expected = ticket, False
        self._ticket_holders[ticket] = member.id

    def release(self, member: Member, outcome: Outcome) -> None:
        """Answer whatever the member is waiting for."""
        for ticket in (member.join_ticket, member.sync_ticket):
            if ticket is not None:
                self._forget(member, ticket)
                self.answer(ticket, outcome)

    def withdraw(self, ticket: Ticket) -> Member | None:
        """Removes a ticket whose connection is closed and returns its member."""
        member = self._members.get(self._ticket_holders.get(ticket, ""))
        if member is not None:
            self._forget(member, ticket)
        return member

    def _forget(self, member: Member, ticket: Ticket) -> None:
        del self._ticket_holders[ticket]
        if member.join_ticket == ticket:
            member.join_ticket = None
            self.joins_waiting -= 1
        else:
            member.sync_ticket = None
