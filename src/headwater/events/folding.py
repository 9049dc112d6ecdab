"""From events to the state of an aggregate, and from what a command returned to events. Pure.

A tentative event counts until an Expired event names it; then the state is folded again without it. Time decides that
only once, when the Expired event is written, so that the same events always give the same state.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import UsageError
from headwater.events.aggregate import (
    OF_EVENT,
    SETTLING,
    Aggregate,
    Definition,
    Expired,
    Tentative,
    Unconfirmed,
    produced,
)
from headwater.events.codec import plain, to_json
from headwater.log.streams.event import NewEvent, Origin, StoredEvent
from headwater.settings import milliseconds


@dataclass
class Loaded:
    """An aggregate as some events left it."""

    definition: Definition
    state: Aggregate
    events: list[StoredEvent] = field(default_factory=list)
    """All of them, or those after the snapshot that `begin` restores."""
    begin: tuple[int, dict[str, Any]] = (0, {})
    last_id: str = ""
    """Of the newest event."""


def fold(
    definition: Definition,
    id: str,
    events: Sequence[StoredEvent],
    *,
    begin: tuple[int, dict[str, Any]] = (0, {}),
    without: Collection[str] = (),
) -> Loaded:
    """The state after these events, from a snapshot (version and state) or from nothing; `without` tentative events
    with these ids."""
    state = definition.restore(id, *begin)
    expired, settled = _settled(events)
    expired.update(without)
    unconfirmed = []
    for event in events:
        if event.version != state.version + 1:
            raise UsageError(
                f"{definition.name} {id} cannot be loaded: version {state.version} is followed by {event.version}; "
                "events between them were deleted or lost"
            )
        state.version = event.version
        if event.type in SETTLING or event.id in expired:
            continue
        happened = definition.decoded(event.type, event.schema, _data(event))
        definition.apply(state, happened)
        if event.until_ms and event.id not in settled:
            unconfirmed.append(Unconfirmed(event.id, happened, event.until_ms))
    state.unconfirmed = tuple(unconfirmed)
    last_id = events[-1].id if events else ""
    return Loaded(definition, state, list(events), begin, last_id)


def _settled(events: Sequence[StoredEvent]) -> tuple[set[str], set[str]]:
    """Tentative events that expired; and those that need no confirmation any more. What came first counts."""
    expired: set[str] = set()
    settled: set[str] = set()
    for event in events:
        if event.type in SETTLING:
            of = str(_data(event).get("of"))
            if of not in settled and event.type == Expired.__name__:
                expired.add(of)
            settled.add(of)
    return expired, settled


def _data(event: StoredEvent) -> dict[str, Any]:
    try:
        data = json.loads(event.data)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise UsageError(f"event {event.version} of {event.stream} is no JSON object")
    return data


def expire(loaded: Loaded, now_ms: int) -> tuple[Aggregate, list[object]]:
    """The state without the tentative events whose time is up, and the events that say so."""
    due = [one.id for one in loaded.state.unconfirmed if one.until_ms <= now_ms]
    if not due:
        return loaded.state, []
    state = fold(loaded.definition, loaded.state.id, loaded.events, begin=loaded.begin, without=due).state
    return state, [Expired(of=id) for id in due]


def decide(state: Aggregate, command: object, arguments: dict[str, Any]) -> list[object]:
    """What a command makes of a state: events. Rejected, or whatever else the command raises."""
    definition = state._definition
    method, given = definition.command_for(command)
    happened = list(produced(method(state, *given, **arguments)))
    for one in happened:
        definition.check_produced(one.event if isinstance(one, Tentative) else one)
    return happened


def to_store(
    definition: Definition, key: str, happened: Sequence[object], *, origin: Origin, now_ms: int
) -> list[NewEvent]:
    """The events of one aggregate as they are stored."""
    events = []
    for one in happened:
        event, until_ms = one, 0
        if isinstance(one, Tentative):
            event, until_ms = one.event, now_ms + milliseconds(one.within)
        name = type(event).__name__
        events.append(
            NewEvent(
                name,
                to_json({**plain(event), **dict(zip(OF_EVENT, (definition.name, key, name), strict=True))}),
                tuple(getattr(event, "event_tags", tuple)()),
                schema=definition.schema(name),
                until_ms=until_ms,
                origin=origin,
            )
        )
    return events
