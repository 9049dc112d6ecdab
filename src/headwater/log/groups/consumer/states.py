"""The states of a member and of a group of the consumer protocol (KIP-848), and the table of a member's moves."""

from enum import IntEnum, StrEnum


class MemberState(IntEnum):
    """The numbers are those that Kafka saves."""

    STABLE = 0
    """It has what its epoch assigns to it."""
    UNREVOKED = 1
    """It has been asked to give partitions up, and has not confirmed it. Its epoch stays until it has."""
    UNRELEASED = 2
    """It waits for partitions that other members have not given up yet."""


class Event(StrEnum):
    REVOCATION_ASKED = "owns partitions that the target gives to others"
    PARTITIONS_WITHHELD = "the target names partitions that others own"
    TARGET_REACHED = "has all that the target gives to it"


# Everything that can move a member stands here and nowhere else. An unrevoked member moves only by a heartbeat that
# shows the revoked partitions given up; without it there is no event.
NEXT_STATE: dict[tuple[MemberState, Event], MemberState] = {
    (MemberState.STABLE, Event.TARGET_REACHED): MemberState.STABLE,
    (MemberState.STABLE, Event.REVOCATION_ASKED): MemberState.UNREVOKED,
    (MemberState.STABLE, Event.PARTITIONS_WITHHELD): MemberState.UNRELEASED,
    (MemberState.UNREVOKED, Event.TARGET_REACHED): MemberState.STABLE,
    (MemberState.UNREVOKED, Event.REVOCATION_ASKED): MemberState.UNREVOKED,
    (MemberState.UNREVOKED, Event.PARTITIONS_WITHHELD): MemberState.UNRELEASED,
    (MemberState.UNRELEASED, Event.TARGET_REACHED): MemberState.STABLE,
    (MemberState.UNRELEASED, Event.REVOCATION_ASKED): MemberState.UNREVOKED,
    (MemberState.UNRELEASED, Event.PARTITIONS_WITHHELD): MemberState.UNRELEASED,
}


class GroupState(StrEnum):
    """Derived from the members and epochs, so nothing moves it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
