"""Appends and events as JSON, for HTTP: both sides read and write them here. Pure.

    append   {"writes": [{"stream": "Seat-12A", "expected": 3, "events": [EVENT, ...]}, ...], "request": "r-77",
              "unless": {"matches": [{"types": ["Reserved"], "tags": ["seat:12A"]}], "after": 41}}
    EVENT    {"type": "Reserved", "data": {"user": "ada"}, "tags": [], "id": "", "schema": 1, "until_ms": 0,
              "correlation": "", "causation": "", "user": ""}

What an event carries is `data`, any JSON; or `text`, exactly these characters; or `base64`. Answers have `text`, or
`base64` where it is no text.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from headwater.errors import UsageError
from headwater.log.streams.condition import ANY, BEFORE_ALL, Append, Match, StreamWrite, Unless
from headwater.log.streams.event import NewEvent, Origin, StoredEvent
from headwater.log.streams.event_topic import Stored
from headwater.record import Position

Json = dict[str, Any]


def append_to_json(append: Append) -> Json:
    unless: Json = {}
    if append.unless is not None:
        matches = [match_to_json(one) for one in append.unless.matches]
        unless = {"unless": {"matches": matches, "after": append.unless.after}}
    return {
        "writes": [
            {"stream": write.stream, "expected": write.expected, "events": [_new_to_json(one) for one in write.events]}
            for write in append.writes
        ],
        "request": append.request,
        **unless,
    }  # fmt: skip


def append_of_json(said: Any) -> Append:
    """UsageError says what is wrong with it."""
    try:
        writes = tuple(
            StreamWrite(
                _text(write["stream"]), [_new_of_json(one) for one in write["events"]], write.get("expected", ANY)
            )
            for write in said["writes"]
        )
        unless = said.get("unless")
        return Append(
            writes,
            _text(said.get("request", "")),
            None if unless is None else Unless(
                tuple(match_of_json(one) for one in unless["matches"]), _whole(unless.get("after", BEFORE_ALL))
            ),
        )  # fmt: skip
    except KeyError as error:
        raise UsageError(f"the append lacks {error.args[0]!r}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"this is no append: {error}") from None


def match_to_json(match: Match) -> Json:
    return {"types": list(match.types), "tags": list(match.tags)}


def match_of_json(said: Any) -> Match:
    """UsageError if it is none.

    >>> match_of_json({"types": ["Paid"]})
    Match(types=('Paid',), tags=())
    """
    try:
        return Match(tuple(map(_text, said.get("types", ()))), tuple(map(_text, said.get("tags", ()))))
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"this matches no events: {error}") from None


def stored_to_json(stored: Stored) -> Json:
    events = [event_to_json(one) for one in stored.events]
    return {"events": events, "position": stored.position, "repeated": stored.repeated}


def stored_of_json(said: Json) -> Stored:
    return Stored(tuple(event_of_json(one) for one in said["events"]), said["repeated"])


def event_to_json(event: StoredEvent) -> Json:
    topic, partition, offset = event.position
    return {
        "stream": event.stream, "version": event.version, "type": event.type, **_data_to_json(event.data),
        "topic": topic, "partition": partition, "offset": offset, "time_ms": event.time_ms, "id": event.id,
        "tags": list(event.tags), "schema": event.schema, "until_ms": event.until_ms, "request": event.request,
        **_origin_to_json(event.origin),
    }  # fmt: skip


def event_of_json(said: Json) -> StoredEvent:
    return StoredEvent(
        said["stream"], said["version"], said["type"], _data_of_json(said),
        Position(said["topic"], said["partition"], said["offset"]), said["time_ms"], said["id"], tuple(said["tags"]),
        said["schema"], said["until_ms"], said["request"], _origin_of_json(said),
    )  # fmt: skip


def _new_to_json(event: NewEvent) -> Json:
    return {
        "type": event.type, **_data_to_json(event.data), "tags": list(event.tags), "id": event.id,
        "schema": event.schema, "until_ms": event.until_ms, **_origin_to_json(event.origin),
    }  # fmt: skip


def _new_of_json(said: Any) -> NewEvent:
    return NewEvent(
        _text(said["type"]), _data_of_json(said), tuple(map(_text, said.get("tags", ()))), _text(said.get("id", "")),
        _whole(said.get("schema", 1)), _whole(said.get("until_ms", 0)), _origin_of_json(said),
    )  # fmt: skip


def _origin_to_json(origin: Origin) -> Json:
    return {"correlation": origin.correlation, "causation": origin.causation, "user": origin.user}


def _origin_of_json(said: Mapping[str, Any]) -> Origin:
    return Origin(
        correlation=_text(said.get("correlation", "")), causation=_text(said.get("causation", "")),
        user=_text(said.get("user", "")),
    )  # fmt: skip


def _data_to_json(data: bytes) -> Json:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _data_of_json(said: Mapping[str, Any]) -> bytes:
    if "text" in said:
        return _text(said["text"]).encode()
    if "base64" in said:
        return b64decode(said["base64"], validate=True)
    return json.dumps(said["data"], separators=(",", ":"), ensure_ascii=False).encode()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} should be a text")
    value.encode()  # a lone surrogate is no text
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not -1 <= value < 2**62:
        raise TypeError(f"{value!r:.80} should be a whole number")
    return value
