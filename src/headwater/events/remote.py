"""Events of a node, over HTTP: the same contract as the embedded log's (tests/contracts/event_storage.py)."""

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from threading import Event
from typing import Any
from urllib.parse import quote

from headwater.client import RemoteNode
from headwater.errors import (
    RequestRefused,
    UnavailableError,
    UndecidedStream,
    UnexpectedEvent,
    UsageError,
    WrongVersion,
)
from headwater.events.store import EventStore
from headwater.log.streams.condition import Append, Match
from headwater.log.streams.event import StoredEvent
from headwater.log.streams.event_topic import PAGE, CaughtUp, Offsets, Page, Stored
from headwater.log.streams.json_form import (
    append_to_json,
    event_of_json,
    match_to_json,
    stored_of_json,
)

NOT_FOUND = 404
PAUSES = (0.1, 0.5, 1.0, 2.0)
POLL_SECONDS = 0.1
FOREVER = 2**53


def connect(url: str, *, topic: str = "events", token: str = "") -> EventStore:
    """The store on a node, from another process or machine."""
    node = RemoteNode(url, token)
    return EventStore(topic, lambda name, configs: RemoteEvents(node, name, configs))


class RemoteEvents:
    """Every call is a connection of its own, so that it may be used from several threads."""

    def __init__(self, node: RemoteNode, name: str, configs: Mapping[str, str] | None = None) -> None:
        self._node, self.name, self._path = node, name, f"/events/{quote(name, safe='')}"
        compact = "compact" in (configs or {}).get("cleanup.policy", "")
        self._asked("PUT", f"{self._path}?compact={'true' if compact else 'false'}")

    def append(self, append: Append) -> Stored:
        """As EventTopic.append. One with a request is sent again where the connection breaks; of another it is not
        known then whether it was stored, and UnavailableError says so."""
        append.check()
        body = json.dumps(append_to_json(append)).encode()
        for pause in (*PAUSES, None):
            try:
                return stored_of_json(self._asked("POST", self._path, body))
            except (OSError, HTTPException) as error:
                if pause is None or not append.request:
                    raise UnavailableError(
                        f"the node did not answer, and may have stored the events: {error}"
                    ) from None
                Event().wait(pause)
        raise UnavailableError("the node did not answer")

    def find_request(self, stream: str, request: str) -> Stored | None:
        try:
            return stored_of_json(self._node.get(self._stream(stream), {"request": request}))
        except RequestRefused as refusal:
            if refusal.status == NOT_FOUND:
                return None
            raise

    def version(self, stream: str) -> int:
        return int(self._node.get(self._stream(stream), {"limit": 1, "backwards": "true"})["version"])

    def streams(self) -> list[str]:
        found: list[str] = self._node.get(self._path, {"names": "true"})["streams"]
        return found

    def read(
        self, stream: str, *, after: int = 0, until: int = 2**62, backwards: bool = False
    ) -> Iterator[StoredEvent]:
        limit = 1 if backwards else PAGE  # often only the newest is wanted
        until = min(until, FOREVER)
        while True:
            query = {"after": after, "until": until, "limit": limit, **({"backwards": "true"} if backwards else {})}
            events = [event_of_json(one) for one in self._node.get(self._stream(stream), query)["events"]]
            yield from events
            if len(events) < limit:
                return
            after, until = (after, events[-1].version - 1) if backwards else (events[-1].version, until)
            limit = PAGE

    def page(self, offsets: Offsets | None = None, match: Match | None = None, *, limit: int = PAGE) -> Page:
        query: dict[str, object] = {
            "after": ",".join(f"{one}:{at}" for one, at in (offsets or {}).items()),
            "limit": limit,
        }
        if match is not None:
            query["match"] = json.dumps(match_to_json(match))
        said = self._node.get(self._path, query)
        reached = {int(one): int(at) for one, at in (part.split(":") for part in said["after"].split(","))}
        return Page(tuple(event_of_json(one) for one in said["events"]), reached, said["caught_up"])

    def subscribe(
        self, offsets: Offsets | None = None, match: Match | None = None, *, timeout: float | None = None
    ) -> Iterator[StoredEvent | CaughtUp]:
        """As EventTopic.subscribe; the node is asked for more every POLL_SECONDS."""
        reached, announced, silent = offsets, False, 0.0
        while True:
            page = self.page(reached, match)
            yield from page.events
            reached, silent = page.offsets, 0.0 if page.events else silent
            if page.caught_up and (page.events or not announced):
                announced = True
                yield CaughtUp(page.offsets)
            if page.caught_up and not page.events:
                if timeout is not None and silent >= timeout:
                    return
                Event().wait(POLL_SECONDS)
                silent += POLL_SECONDS

    def close(self) -> None:
        """Nothing is held."""

    def _stream(self, stream: str) -> str:
        return f"{self._path}/{quote(stream, safe='')}"

    def _asked(self, method: str, path: str, body: bytes = b"") -> Any:
        try:
            return self._node.send(method, path, body)
        except RequestRefused as refusal:
            raise _same(refusal) from None


def _same(refusal: RequestRefused) -> Exception:
    """The error that the node raised."""
    facts, (message, *_) = refusal.facts, refusal.args
    if refusal.name == "WrongVersion":
        return WrongVersion(facts["stream"], expected=facts["expected"], actual=facts["actual"])
    if refusal.name == "UnexpectedEvent":
        return UnexpectedEvent("events", offset=facts["offset"], after=facts["after"])
    if refusal.name == "UndecidedStream":
        return UndecidedStream(str(message))
    return UsageError(message) if refusal.name == "UsageError" else refusal
