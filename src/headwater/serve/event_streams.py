"""/events/TOPIC: streams of events over HTTP, with the conditions of appends.

    PUT  /events/TOPIC?partitions=1              make the topic, if it is not there; ?compact=true keeps the newest only
    POST /events/TOPIC                           append (log/streams/json_form.py draws the body)
    GET  /events/TOPIC?after=0:41&limit=500      events in their order; &match={"types": [...], "tags": [...]}
    GET  /events/TOPIC?names=true                names of streams
    GET  /events/TOPIC/STREAM?after=3&until=9    one stream; &backwards=true, &limit=500
    GET  /events/TOPIC/STREAM?request=r-77       what an append with this request stored there

New events are followed at /topics/TOPIC/live, as those of any topic.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from headwater.errors import (
    HeadwaterError,
    UnexpectedEvent,
    UnknownTopic,
    UsageError,
    WrongVersion,
)
from headwater.log.log import Log
from headwater.log.streams.event_topic import EventTopic
from headwater.log.streams.json_form import (
    append_of_json,
    event_to_json,
    match_of_json,
    stored_to_json,
)
from headwater.log.topic import INTERNAL, Topic
from headwater.serve.answers import status_of

LIMIT_MAX = 1000
Answer = tuple[int, Any]


class EventStreams:
    """A JsonService. Its topics are opened when they are first asked for; `close` writes their indexes down."""

    roots = ("events",)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._topics: dict[str, tuple[Topic, EventTopic]] = {}

    def answer(self, method: str, path: Sequence[str], query: Mapping[str, str], body: bytes) -> Answer:
        try:
            match method, *path[1:]:
                case "PUT", name:
                    return 200, self._make(name, query)
                case "POST", name:
                    return 200, stored_to_json(self._topic(name).append(append_of_json(_json(body))))
                case "GET", name:
                    return 200, self._page(self._topic(name), query)
                case "GET", name, stream:
                    return self._stream(self._topic(name), stream, query)
            return _failed(404, "NotFound", "there is nothing here; ask for /events/TOPIC or /events/TOPIC/STREAM")
        except HeadwaterError as error:
            return _failed(status_of(error), type(error).__name__, str(error), _facts(error))

    def _make(self, name: str, query: Mapping[str, str]) -> Any:
        _refuse_internal(name)
        compact = {"cleanup.policy": "compact"} if query.get("compact") == "true" else {}
        made = EventTopic.open(self._log, name, partitions=_whole(query, "partitions", 1), configs=compact)
        return {"topic": name, "partitions": made.partitions}

    def _topic(self, name: str) -> EventTopic:
        _refuse_internal(name)
        topic = self._log.topic(name)
        if not topic.settings.conditional:
            raise UsageError(f'topic "{name}" is no topic of events: its headwater.append.policy is not conditional')
        with self._lock:
            known = self._topics.get(name)
            if known is None or (known[0].id, known[0].partitions) != (topic.id, topic.partitions):
                known = self._topics[name] = topic, EventTopic(self._log, topic)
            return known[1]

    def _page(self, topic: EventTopic, query: Mapping[str, str]) -> Any:
        if query.get("names") == "true":
            return {"streams": topic.streams()}
        match = match_of_json(_json(query["match"].encode())) if "match" in query else None
        page = topic.page(_offsets(query.get("after", "")), match, limit=_whole(query, "limit", LIMIT_MAX))
        after = ",".join(f"{number}:{offset}" for number, offset in page.offsets.items())
        return {"events": [event_to_json(one) for one in page.events], "after": after, "caught_up": page.caught_up}

    def _stream(self, topic: EventTopic, stream: str, query: Mapping[str, str]) -> Answer:
        if "request" in query:
            found = topic.find_request(stream, query["request"])
            if found is None:
                return _failed(
                    404, "UnknownRequest", f"no append of {query['request']!r:.80} to {stream!r:.80} is known"
                )
            return 200, stored_to_json(found)
        limit, version = _whole(query, "limit", LIMIT_MAX), topic.version(stream)
        events = topic.read(
            stream, after=_whole(query, "after", 0), until=_whole(query, "until", version),
            backwards=query.get("backwards") == "true",
        )  # fmt: skip
        return 200, {"version": version, "events": [event_to_json(one) for one in islice(events, limit)]}

    def close(self) -> None:
        with self._lock:
            for _, topic in self._topics.values():
                try:
                    topic.close()
                except HeadwaterError:
                    continue  # deleted or offline: there is nothing to write down


def _refuse_internal(name: str) -> None:
    if name in INTERNAL:
        raise UnknownTopic(name)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("this is no JSON") from None


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    said = query.get(name, str(default))
    if (
        not said.isascii()
        or not said.isdecimal()
        or len(said) > 18
        or (name in ("limit", "partitions") and int(said) < 1)
    ):
        raise UsageError(f"{name} is {said[:80]!r}; say a whole number")
    return min(int(said), LIMIT_MAX) if name == "limit" else int(said)


def _offsets(said: str) -> dict[int, int]:
    try:
        pairs = [part.split(":") for part in said.split(",") if part]
        return {int(number): int(offset) for number, offset in pairs}
    except ValueError:
        raise UsageError(f"after is {said[:80]!r}; say what the page before answered, such as 0:41") from None


def _facts(error: HeadwaterError) -> dict[str, Any]:
    """What a client needs to raise the same error."""
    if isinstance(error, WrongVersion):
        return {"stream": error.stream, "expected": error.expected, "actual": error.actual}
    return {"offset": error.offset, "after": error.after} if isinstance(error, UnexpectedEvent) else {}


def _failed(status: int, name: str, message: str, facts: Mapping[str, Any] | None = None) -> Answer:
    return status, {"error_code": status, "error": name, "message": message, **(facts or {})}
