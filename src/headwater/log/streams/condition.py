"""What an append of events depends on. Pure.

The version of a stream is that of its newest event; 0 if it has none. What may be expected of it:

    ANY       whatever it is
    NONE      the stream has no event
    EXISTS    it has at least one
    a number  exactly this version

A dynamic consistency boundary asks for no event that matches a query after an offset: what the writer read before it
decided is then still all there is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headwater.errors import UsageError
from headwater.log.streams.event import NewEvent, check_event, stream_key

ANY: Literal["any"] = "any"
NONE: Literal["none"] = "none"
EXISTS: Literal["exists"] = "exists"
Expected = int | Literal["any", "none", "exists"]
BEFORE_ALL = -1


def meets(expected: Expected, version: int) -> bool:
    """
    >>> [meets(expected, 3) for expected in (ANY, NONE, EXISTS, 2, 3)]
    [True, False, True, False, True]
    """
    if expected == ANY:
        return True
    if expected == EXISTS:
        return version > 0
    return version == (0 if expected == NONE else expected)


def check_expected(expected: Expected) -> Expected:
    if expected in (ANY, NONE, EXISTS) or (type(expected) is int and expected >= 0):
        return expected
    raise UsageError(f'{expected!r} is no expected version: say "any", "none", "exists" or a number from 0 on')


@dataclass(frozen=True, slots=True)
class StreamWrite:
    """Events for one stream, in their order, if the stream is as expected."""

    stream: str
    events: Sequence[NewEvent]
    expected: Expected = ANY

    def check(self) -> None:
        stream_key(self.stream)
        check_expected(self.expected)
        if not self.events:
            raise UsageError(f'nothing was given to append to stream "{self.stream[:200]}"')
        for event in self.events:
            check_event(event)


@dataclass(frozen=True, slots=True)
class Match:
    """Events of any of these types (of all, if none is named) that have every one of these tags."""

    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def covers(self, type: str, tags: Sequence[str]) -> bool:
        """
        >>> Match(("Paid",), ("seat:7",)).covers("Paid", ["seat:7", "user:ada"])
        True
        """
        return (not self.types or type in self.types) and set(self.tags) <= set(tags)


@dataclass(frozen=True, slots=True)
class Unless:
    """The append is refused if an event that any of these matches lies after an offset; -1 is before all events.

    `after` is what a page of these events answered: where plain producers write transactions into the topic, an event
    may be decided later than one with a larger offset, and only pages stop in front of what is undecided.
    """

    matches: tuple[Match, ...]
    after: int = BEFORE_ALL

    def covers(self, type: str, tags: Sequence[str]) -> bool:
        return any(match.covers(type, tags) for match in self.matches)


@dataclass(frozen=True, slots=True)
class Append:
    """One append: every stream is written, or none is.

    An append with a request id is stored once, however often it comes.
    """

    writes: tuple[StreamWrite, ...]
    request: str = ""
    unless: Unless | None = None

    def check(self) -> None:
        """UsageError if it could never be stored."""
        streams = [write.stream for write in self.writes]
        if not streams:
            raise UsageError("an append needs events for at least one stream")
        if len(set(streams)) < len(streams):
            raise UsageError("an append names each stream once, with all its events")
        if len(self.request) > 200:
            raise UsageError("a request id has at most 200 characters")
        for write in self.writes:
            write.check()
