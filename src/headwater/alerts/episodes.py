"""The state machine of a key that meets the condition of an alert. Pure.

    quiet ──holds──► pending ──held for long enough──► raised ──still, every so often──► raised (repeated)
      ▲                 │                                │
      ├────cleared──────┘                                │
      └────resolved──────────────────────────────────────┘

From the first moment in which a condition holds to the one in which it no longer does is an episode. Its id is the same
all the time, and each notification of it has an id of its own, by which a receiver recognizes a duplicate.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Held(NamedTuple):
    """A key whose condition holds, and its row, both as JSON has them."""

    key: Row
    row: Row


class State(StrEnum):
    """The state of an episode, and the name of the event that led to it."""

    PENDING = "pending"
    RAISED = "raised"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    CLEARED = "cleared"


HOLDS, DUE, ENDS = "holds", "due", "ends"

# Everything that can happen to a key stands here and nowhere else. None: nothing is under way.
NEXT: dict[tuple[State | None, str], State] = {
    (None, HOLDS): State.PENDING,
    (State.PENDING, DUE): State.RAISED,
    (State.RAISED, DUE): State.REPEATED,
    (State.REPEATED, DUE): State.REPEATED,
    (State.PENDING, ENDS): State.CLEARED,
    (State.RAISED, ENDS): State.RESOLVED,
    (State.REPEATED, ENDS): State.RESOLVED,
}
OVER = (State.RESOLVED, State.CLEARED)
NOTIFIED = (State.RAISED, State.REPEATED, State.RESOLVED)
"""States that targets are notified of; the others are only recorded."""
BRIEF = "it held only for a moment, between two looks: its row is not known"
INTERRUPTED = "it did not hold for a moment, and holds again"


@dataclass(frozen=True)
class Rule:
    hold_ms: int = 0
    """How long a condition must hold before targets are notified."""
    repeat_ms: int | None = None
    """How often targets are notified again while it holds; None: never."""


@dataclass(frozen=True)
class Episode:
    id: str
    key: Row
    state: State
    since_ms: int
    at_ms: int
    """When it came to its state."""
    raised_ms: int | None = None
    number: int = 0
    """How often targets were notified that it holds."""
    row: Row = field(default_factory=dict)
    """As it was when the state was reached."""
    why: str = ""

    @property
    def notification(self) -> str:
        """Returns the id of the notification: the same however often it is sent.

        >>> Episode("a1", {}, State.REPEATED, 0, 0, 0, number=3).notification
        'a1-3'
        >>> Episode("a1", {}, State.RESOLVED, 0, 0, 0, number=3).notification
        'a1-resolved'
        """
        return f"{self.id}-{self.number}" if self.state in (State.RAISED, State.REPEATED) else f"{self.id}-{self.state}"


def step(
    rule: Rule,
    known: Mapping[str, Episode],
    holding: Mapping[str, Held],
    *,
    now_ms: int,
    seen: str,
    passed: Mapping[str, Row] | None = None,
) -> list[Episode]:
    """Returns the events of one evaluation, from all open episodes and every key whose condition holds, by its text.

    `passed` are keys whose condition has ended since the last look, whether or not it holds again. One of which nothing
    is known came and went, and is notified once, however often it did. `seen` is different whenever something else was
    seen: two episodes of a key never have the same id. One that holds but is not worth a word yet makes no event.
    """
    events: list[Episode] = []
    passed = passed or {}
    for text, held in holding.items():
        episode = known.get(text)
        if episode is not None and text in passed:
            events.append(end(episode, now_ms, INTERRUPTED))
            episode = None
        if episode is None:
            episode = _begin(text, held, now_ms, seen)
            if rule.hold_ms > 0:
                events.append(episode)
                continue
        events += _due(rule, replace(episode, row=held.row), now_ms)
    for text, episode in known.items():
        if text not in holding:
            events.append(end(episode, now_ms))
    for text, key in passed.items():
        if text not in holding and text not in known:
            episode = replace(_begin(text, Held(key, {}), now_ms, seen), why=BRIEF)
            begun = [episode] if rule.hold_ms > 0 else list(_due(rule, episode, now_ms))
            events += [*begun, end(begun[-1], now_ms, BRIEF)]
    return events


def end(episode: Episode, now_ms: int, why: str = "") -> Episode:
    return replace(episode, state=NEXT[episode.state, ENDS], at_ms=now_ms, why=why)


def _begin(text: str, held: Held, now_ms: int, seen: str) -> Episode:
    id = hashlib.sha256(f"{text}\n{now_ms}\n{seen}".encode()).hexdigest()[:20]
    return Episode(id, held.key, NEXT[None, HOLDS], now_ms, now_ms, row=held.row)


def _due(rule: Rule, episode: Episode, now_ms: int) -> Iterator[Episode]:
    """Notified once, however long no evaluation ran."""
    if episode.state == State.PENDING:
        due_ms: int | None = episode.since_ms + rule.hold_ms
    else:
        due_ms = None if rule.repeat_ms is None else episode.at_ms + rule.repeat_ms
    if due_ms is not None and now_ms >= due_ms:
        yield replace(
            episode, state=NEXT[episode.state, DUE], at_ms=now_ms, number=episode.number + 1,
            raised_ms=now_ms if episode.raised_ms is None else episode.raised_ms,
        )  # fmt: skip
