"""Where events are: the embedded log, or a node over HTTP. A small contract that both keep (tests/contracts)."""

from collections.abc import Iterator
from typing import Protocol

from headwater.log.streams.condition import Append, Match
from headwater.log.streams.event import StoredEvent
from headwater.log.streams.event_topic import CaughtUp, Offsets, Page, Stored


class EventStorage(Protocol):
    """One topic of events; EventTopic (log/streams/event_topic.py) says what each method promises."""

    name: str

    def append(self, append: Append) -> Stored: ...

    def find_request(self, stream: str, request: str) -> Stored | None: ...

    def version(self, stream: str) -> int: ...

    def streams(self) -> list[str]: ...

    def read(
        self, stream: str, *, after: int = 0, until: int = 2**62, backwards: bool = False
    ) -> Iterator[StoredEvent]: ...

    def page(self, offsets: Offsets | None = None, match: Match | None = None, *, limit: int = 500) -> Page: ...

    def subscribe(
        self, offsets: Offsets | None = None, match: Match | None = None, *, timeout: float | None = None
    ) -> Iterator[StoredEvent | CaughtUp]: ...

    def close(self) -> None: ...
