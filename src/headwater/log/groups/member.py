"""Requests and responses between a group and its members."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

Ticket = int
"""A waiting request: the group answers it once, by this number."""


class Protocol(NamedTuple):
    """One way of sharing out partitions that a member can take part in. The metadata is the members' own affair."""

    name: str
    metadata: bytes


def size_of(protocols: Iterable[Protocol]) -> int:
    """Bytes that a member's protocols take, roughly."""
    return sum(len(name) + len(metadata) + 64 for name, metadata in protocols)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a group for its members."""

    members_max: int = 10_000
    initial_delay_ms: int = 300
    session_timeout_ms_min: int = 1_000
    session_timeout_ms_max: int = 30 * 60_000
    consumer_session_timeout_ms: int = 45_000
    """Of members of the consumer protocol, which do not choose it."""
    bytes_max: int = 32 * 1024**2
    """Metadata and assignments of all members together: what a group may cost in memory and in its saved form."""


@dataclass(frozen=True, kw_only=True)
class Join:
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    fresh_id: str
    """The id this member gets if it has none yet; the caller makes it, since this module is deterministic."""
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    id_required: bool = False
    """Whether a newcomer is first sent back with an id, so that a lost response leaves no orphaned member."""
    can_skip_assignment: bool = False
    """Whether this client, when it rejoins as leader, understands a response that keeps the assignment."""


class Claim(NamedTuple):
    """The member id, instance id and generation that a request claims."""

    member_id: str
    generation: int = -1
    instance_id: str | None = None


class Sync(NamedTuple):
    claim: Claim
    assignments: Mapping[str, bytes]
    protocol_type: str | None = None
    protocol_name: str | None = None


class JoinedMember(NamedTuple):
    id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    member_id: str
    members: tuple[JoinedMember, ...] = ()
    """All members, for the leader to assign partitions to; empty in the response of a follower."""
    skip_assignment: bool = False


class Synced(NamedTuple):
    protocol_type: str
    protocol_name: str
    assignment: bytes


class SavedMember(NamedTuple):
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    metadata: bytes
    assignment: bytes


class SavedGroup(NamedTuple):
    """A group as it outlives a restart: with members it is stable, without it is empty."""

    id: str
    protocol_type: str = ""
    generation: int = 0
    protocol_name: str | None = None
    leader_id: str | None = None
    members: tuple[SavedMember, ...] = ()


class DescribedMember(NamedTuple):
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...] = ()
    kind: str = "classic"
    """Of the protocol that the members speak with the coordinator: "classic" or "consumer"."""


@dataclass(slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    deadline_ms: int
    """When the session expires, unless a request of the member arrives before."""
    new: bool = True
    """It has never had an answer."""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    sync_expected: bool = False
    """The member has its JoinGroup response and has not sent SyncGroup yet."""
    assignment: bytes = b""

    @property
    def can_expire(self) -> bool:
        """A member that waits for a response cannot send heartbeats; but a new member's client may have timed out."""
        return self.new or (self.join_ticket is None and self.sync_ticket is None)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")
