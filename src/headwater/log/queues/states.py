"""The states of a message in a queue, and the one table of what moves it from one to the next. Pure.

                   acquire                    accept
    Available ─────────────────► Acquired ───────────► Acknowledged
      │    ▲   release, expire   │ │   ▲ │
      │    └─────────────────────┘ │   └─┘ renew
      │                    give up │ reject
      │ expire unread              ▼        bury
      └──────────────────────►  Failed ──────────────► Archived
      └──────────────────────────────── drop ──────────► (also from Acquired: there is no such message)

Failed messages wait until their copy is durable in the dead-letter topic. Where there is none, they are archived at
once.
"""

from enum import StrEnum


class State(StrEnum):
    AVAILABLE = "available"
    ACQUIRED = "acquired"
    FAILED = "failed"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVED = "archived"

    @property
    def final(self) -> bool:
        return self in (State.ACKNOWLEDGED, State.ARCHIVED)


class Event(StrEnum):
    ACQUIRE = "a consumer takes it"
    ACCEPT = "its consumer has processed it"
    RELEASE = "its consumer gives it back"
    EXPIRE = "its lock ends"
    RENEW = "its consumer needs longer"
    REJECT = "its consumer can never process it"
    GIVE_UP = "it was given back, and all attempts are used up"
    OUTLIVE = "its time to live is over before it was taken"
    BURY = "its copy is in the dead-letter topic"
    DROP = "there is no such message, or not any more"


# Everything that can move a message stands here and nowhere else.
NEXT_STATE: dict[tuple[State, Event], State] = {
    (State.AVAILABLE, Event.ACQUIRE): State.ACQUIRED,
    (State.AVAILABLE, Event.OUTLIVE): State.FAILED,
    (State.AVAILABLE, Event.DROP): State.ARCHIVED,
    (State.ACQUIRED, Event.ACCEPT): State.ACKNOWLEDGED,
    (State.ACQUIRED, Event.RELEASE): State.AVAILABLE,
    (State.ACQUIRED, Event.EXPIRE): State.AVAILABLE,
    (State.ACQUIRED, Event.RENEW): State.ACQUIRED,
    (State.ACQUIRED, Event.REJECT): State.FAILED,
    (State.ACQUIRED, Event.GIVE_UP): State.FAILED,
    (State.ACQUIRED, Event.DROP): State.ARCHIVED,
    (State.FAILED, Event.BURY): State.ARCHIVED,
    (State.FAILED, Event.DROP): State.ARCHIVED,
}
