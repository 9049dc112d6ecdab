"""What state a job is in, and what becomes of it when it fails. Pure.

    stopped ──started──► running ──failed──► retrying ──healed──► running
       ▲                    │                 │  ▲  │
       │                    └───refused───────┤  │  └─failed, and retries are left─► retrying
       │                                      ▼  │
       └──stopped── (all)                   failed ──restarted─► retrying
                                              ▲
                                              └── refused: another attempt would fail the same way, or none is left

A job that is paused has not failed. One whose process was killed has: it did not note that it stopped.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from headwater import errors
from headwater.errors import (
    InvalidDeclaration,
    JobRefused,
    JobTakenOver,
    LogTruncated,
    NumberOverflow,
    StateMismatch,
    TopicRecreated,
    UnstorableValue,
)
from headwater.flow.declare.retries import Retries

# All of it fits into the room of a file (health.py), also where each sign takes twelve of JSON's.
REASON_MAX = 1_200
WARNING_MAX = 500
WARNINGS_MAX = 4


class State(StrEnum):
    RUNNING = "running"
    RETRYING = "retrying"
    FAILED = "failed"
    PAUSED = "paused"
    STOPPED = "stopped"


class Event(StrEnum):
    STARTED = "started"
    FAILED = "failed"
    REFUSED = "refused"
    HEALED = "healed"
    RESTARTED = "restarted"
    PAUSED = "paused"
    STOPPED = "stopped"


# Everything that can happen to a job stands here and nowhere else.
NEXT: dict[tuple[State, Event], State] = {
    (State.STOPPED, Event.STARTED): State.RUNNING,
    (State.PAUSED, Event.STARTED): State.RUNNING,
    (State.RUNNING, Event.STARTED): State.RUNNING,
    (State.RUNNING, Event.FAILED): State.RETRYING,
    (State.RUNNING, Event.REFUSED): State.FAILED,
    (State.RETRYING, Event.FAILED): State.RETRYING,
    (State.RETRYING, Event.REFUSED): State.FAILED,
    (State.RETRYING, Event.HEALED): State.RUNNING,
    (State.RETRYING, Event.RESTARTED): State.RETRYING,
    (State.FAILED, Event.RESTARTED): State.RETRYING,
    (State.PAUSED, Event.RESTARTED): State.RETRYING,
    (State.STOPPED, Event.RESTARTED): State.RETRYING,
    **{(state, Event.PAUSED): State.PAUSED for state in State},
    (State.RUNNING, Event.STOPPED): State.STOPPED,
    (State.RETRYING, Event.STOPPED): State.STOPPED,
    (State.PAUSED, Event.STOPPED): State.PAUSED,
    (State.FAILED, Event.STOPPED): State.FAILED,
    (State.STOPPED, Event.STOPPED): State.STOPPED,
}

TROUBLED = (State.RETRYING, State.FAILED)
"""What people are notified of at once."""

NEVER_AGAIN = (
    InvalidDeclaration,
    JobRefused,
    JobTakenOver,
    LogTruncated,
    NumberOverflow,
    StateMismatch,
    TopicRecreated,
    UnstorableValue,
)
"""The code, the state or the log has to be changed first: the same attempt ends the same way."""


@dataclass(frozen=True)
class Failure:
    """Why a job stopped: the name of the error's class, and a sentence."""

    error: str
    reason: str

    @property
    def hopeless(self) -> bool:
        """
        >>> [Failure(error, "").hopeless for error in ("JobRefused", "StoreUnavailable", "KeyError")]
        [True, False, False]
        """
        kind = getattr(errors, self.error, None)
        return isinstance(kind, type) and issubclass(kind, NEVER_AGAIN)


@dataclass(frozen=True)
class Trouble:
    """Failures in a row: from the first one to a batch that succeeds."""

    error: str
    reason: str
    first_ms: int
    last_ms: int
    count: int = 1
    healed_ms: int | None = None


@dataclass(frozen=True)
class Warned:
    """Something that works, and probably not as it was meant."""

    kind: str
    text: str
    at_ms: int


@dataclass(frozen=True)
class Health:
    """How a job is, as its folder keeps it (health.py)."""

    state: State = State.STOPPED
    trouble: Trouble | None = None
    """The last one, also when it is over."""
    next_ms: int | None = None
    """When it is tried again; None: now, or never."""
    attempts: int = 0
    """Failures in a row since this run began, or the user asked for another attempt."""
    failures: int = 0
    """All there ever were."""
    warnings: tuple[Warned, ...] = ()
    process: int = 0
    namespace: str = ""
    """In which process numbers and locks mean what they say."""

    @property
    def ails(self) -> bool:
        return self.trouble is not None and self.trouble.healed_ms is None

    def after(self, event: Event) -> "Health":
        return replace(self, state=NEXT[self.state, event], next_ms=None)

    def begun(self) -> "Health":
        """A run begins with the job. Warnings are those of a run; a trouble is over when a batch succeeds."""
        fresh = replace(self, state=State.STOPPED, warnings=(), next_ms=None, attempts=0)
        return fresh.after(Event.RESTARTED if self.ails else Event.STARTED)

    def failed(self, failure: Failure, retries: Retries, now_ms: int) -> "Health":
        before = self.trouble if self.ails else None
        trouble = Trouble(
            failure.error, failure.reason[:REASON_MAX], before.first_ms if before else now_ms, now_ms,
            before.count + 1 if before else 1,
        )  # fmt: skip
        attempts = self.attempts + 1
        over = failure.hopeless or retries.exhausted(attempts)
        return replace(
            self, trouble=trouble, failures=self.failures + 1, attempts=attempts,
            state=NEXT[self.state, Event.REFUSED if over else Event.FAILED],
            next_ms=None if over else now_ms + retries.pause_ms(attempts),
        )  # fmt: skip

    def healed(self, now_ms: int) -> "Health":
        trouble = self.trouble if self.trouble is None else replace(self.trouble, healed_ms=now_ms)
        return replace(self.after(Event.HEALED), trouble=trouble, attempts=0)

    def resumed(self) -> "Health":
        """A user asked for it: a job that was failing has yet to show that it works."""
        return replace(self.after(Event.RESTARTED if self.ails else Event.STARTED), attempts=0)

    def warned(self, warning: Warned) -> "Health":
        warning = replace(warning, text=warning.text[:WARNING_MAX])
        others = tuple(one for one in self.warnings if (one.kind, one.text) != (warning.kind, warning.text))
        return replace(self, warnings=(*others, warning)[-WARNINGS_MAX:])

    def without_warning(self, kind: str) -> "Health":
        return replace(self, warnings=tuple(one for one in self.warnings if one.kind != kind))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Health":
        """
        >>> health = Health(trouble=Trouble("KeyError", "no such page", 1, 2), warnings=(Warned("topic", "made", 3),))
        >>> Health.from_json(health.to_json()) == health
        True
        """
        trouble = None if row["trouble"] is None else Trouble(**row["trouble"])
        warnings = tuple(Warned(**one) for one in row["warnings"])
        return cls(**{**row, "state": State(row["state"]), "trouble": trouble, "warnings": warnings})


@dataclass(frozen=True)
class Condition:
    """How a job is, as it is shown: what its folder says, and whether a process still runs it."""

    state: State
    reason: str = ""
    """Of its trouble, if that is not over; also of one that was stopped before it was."""
    health: Health = Health()

    @property
    def troubled(self) -> bool:
        return self.state in TROUBLED

    def to_json(self) -> dict[str, Any]:
        trouble = self.health.trouble
        return {
            "state": str(self.state),
            "reason": self.reason,
            "error": trouble.error if trouble and self.reason else "",
            "failed_first_ms": trouble.first_ms if trouble else None,
            "failed_last_ms": trouble.last_ms if trouble else None,
            "failed_count": trouble.count if trouble else 0,
            "healed_ms": trouble.healed_ms if trouble else None,
            "next_attempt_ms": self.health.next_ms,
            "failures_total": self.health.failures,
            "warnings": [asdict(one) for one in self.health.warnings],
        }


def condition(health: Health | None, *, alive: bool, paused: bool) -> Condition:
    """`alive`: a process holds the job; `paused`: the user asked it to pause.

    >>> condition(Health(State.RUNNING, process=4711), alive=False, paused=False).state
    <State.FAILED: 'failed'>
    """
    if health is None:  # made by a release that did not keep it, or damaged
        return Condition(State.PAUSED if paused else State.RUNNING if alive else State.STOPPED)
    reason = health.trouble.reason if health.trouble and health.ails else ""
    if paused:
        return Condition(State.PAUSED, reason, health)
    if alive:
        state = State.RUNNING if health.state in (State.STOPPED, State.PAUSED) else health.state
        return Condition(state, reason, health)
    if health.state in (State.RUNNING, State.RETRYING):
        return Condition(State.FAILED, _gone(health.process, reason), health)
    return Condition(State.STOPPED if health.state == State.PAUSED else health.state, reason, health)


def _gone(process: int, reason: str) -> str:
    before = f" Before that it failed: {reason}" if reason else ""
    return (
        f"process {process} that ran it ended without stopping it: it was killed, or the machine went down. "
        f"Run the app again; it resumes where it was.{before}"
    )
