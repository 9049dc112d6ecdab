"""The states of a group, and the one table of what moves it from one to the next."""

from enum import StrEnum


class State(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(StrEnum):
    REBALANCE_NEEDED = "rebalance needed"
    JOIN_WINDOW_CLOSED = "join window closed"
    SHARED_OUT = "shared out"
    LAST_MEMBER_LEFT = "last member left"
    REMOVED = "removed"


# Everything that can move a group stands here and nowhere else.
NEXT_STATE: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.REBALANCE_NEEDED): State.PREPARING,
    (State.EMPTY, Event.REMOVED): State.DEAD,
    (State.PREPARING, Event.JOIN_WINDOW_CLOSED): State.COMPLETING,
    (State.PREPARING, Event.LAST_MEMBER_LEFT): State.EMPTY,
    (State.COMPLETING, Event.SHARED_OUT): State.STABLE,
    (State.COMPLETING, Event.REBALANCE_NEEDED): State.PREPARING,
    (State.COMPLETING, Event.LAST_MEMBER_LEFT): State.EMPTY,
    (State.STABLE, Event.REBALANCE_NEEDED): State.PREPARING,
    (State.STABLE, Event.LAST_MEMBER_LEFT): State.EMPTY,
}
