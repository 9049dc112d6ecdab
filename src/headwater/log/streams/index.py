"""Which events each stream of a partition has, and which events a type or a tag has. Pure.

In memory: for each event 16 bytes under its stream (version and offset) and 8 under its type and each of its tags; for
each stream, type and tag some 400 bytes; for each of the last REQUESTS_MAX appends that had a request id, some 200. It
says nothing that is not in the log: it is made again from the records, or read from a file that has a checksum
(index_file.py) and continued from there.

Events of a transaction count when its marker is there. Until then their streams are held: nobody else's events may come
between, since their versions are given out already.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from heapq import merge
from typing import NamedTuple

from headwater.log.streams.condition import Match, Unless
from headwater.log.streams.event import REQUEST, TYPE, VERSION, number_in, said_of, tags_of
from headwater.record import Record

REQUESTS_MAX = 100_000
"""Appends that a partition recognises when they come again; the oldest is forgotten first."""

DECIDED = -1


class Entry(NamedTuple):
    """What the index keeps of an event."""

    offset: int
    stream: bytes
    type: str
    tags: tuple[str, ...]
    request: str
    version: int
    """As the record says; 0 if it does not."""


def entry_of(record: Record) -> Entry:
    said = said_of(record)
    return Entry(
        record.offset, bytes(record.key or b""), said.get(TYPE, ""), tags_of(record), said.get(REQUEST, ""),
        number_in(said, VERSION, 0),
    )  # fmt: skip


def request_digest(stream: bytes, request: str) -> bytes:
    """16 bytes for a request to a stream: two streams may use the same request ids."""
    return blake2b(b"%d:%s%s" % (len(stream), stream, request.encode()), digest_size=16).digest()


class Versions(NamedTuple):
    """The events of one stream in their order."""

    versions: "array[int]"
    offsets: "array[int]"

    @classmethod
    def none(cls) -> "Versions":
        return cls(array("q"), array("q"))

    @property
    def last(self) -> int:
        return self.versions[-1] if self.versions else 0


class _Waiting(NamedTuple):
    entry: Entry
    producer_id: int
    """Of the open transaction that it is in, or DECIDED: an event before it in its stream is not."""


class StreamIndex:
    """Not thread-safe; what owns it has a lock."""

    def __init__(self) -> None:
        self.end = 0
        """All records below it are counted."""
        self.streams: dict[bytes, Versions] = {}
        self.types: dict[str, array[int]] = {}
        self.tags: dict[str, array[int]] = {}
        self.requests: dict[bytes, int] = {}
        self._waiting: dict[bytes, list[_Waiting]] = {}

    # -- what is there -----------------------------------------------------------------------------------------------

    def version(self, stream: bytes) -> int:
        found = self.streams.get(stream)
        return 0 if found is None else found.last

    def version_at(self, stream: bytes, offset: int) -> int:
        """The version that the event at an offset brought; 0 if it is not one of the stream's events."""
        found = self.streams.get(stream)
        if found is None:
            return 0
        row = bisect_left(found.offsets, offset)
        return found.versions[row] if row < len(found.offsets) and found.offsets[row] == offset else 0

    def between(self, stream: bytes, after: int, until: int) -> list[tuple[int, int]]:
        """Version and offset of a stream's events after one version, up to another."""
        found = self.streams.get(stream)
        if found is None:
            return []
        rows = slice(bisect_right(found.versions, after), bisect_right(found.versions, until))
        return list(zip(found.versions[rows], found.offsets[rows], strict=True))

    def request(self, stream: bytes, request: str) -> int | None:
        """Offset of the first event that the request stored in the stream."""
        return self.requests.get(request_digest(stream, request)) if request else None

    def held(self, stream: bytes) -> bool:
        """Whether an open transaction has events of the stream."""
        return stream in self._waiting

    @property
    def undecided(self) -> set[int]:
        """Producers of open transactions that have events here."""
        return {one.producer_id for waiting in self._waiting.values() for one in waiting} - {DECIDED}

    def matching(self, match: Match, after: int) -> Iterator[int]:
        """Offsets of events that match, in their order."""
        types = [self.types.get(type, array("q")) for type in match.types] or list(self.types.values())
        tagged = sorted((self.tags.get(tag, array("q")) for tag in match.tags), key=len)
        if not tagged:
            yield from merge(*(one[bisect_right(one, after) :] for one in types))
            return
        first, *others = tagged
        for offset in first[bisect_right(first, after) :]:
            if all(_holds(one, offset) for one in others) and any(_holds(one, offset) for one in types):
                yield offset

    def first_excluded(self, unless: Unless) -> int | None:
        """Offset of an event that a condition excludes; one in an open transaction counts."""
        for match in unless.matches:
            for offset in self.matching(match, unless.after):
                return offset
        for waiting in self._waiting.values():
            for entry, _ in waiting:
                if entry.offset > unless.after and unless.covers(entry.type, entry.tags):
                    return entry.offset
        return None

    # -- what comes --------------------------------------------------------------------------------------------------

    def add(self, entries: Iterable[Entry]) -> None:
        """Events that are decided: each is counted, or waits for those before it in its stream."""
        for entry in entries:
            if entry.stream in self._waiting:
                self._waiting[entry.stream].append(_Waiting(entry, DECIDED))
            else:
                self._count(entry)

    def hold(self, producer_id: int, entries: Iterable[Entry]) -> None:
        """Events of a transaction that is open."""
        for entry in entries:
            self._waiting.setdefault(entry.stream, []).append(_Waiting(entry, producer_id))

    def decide(self, producer_id: int, *, committed: bool) -> None:
        """A marker ended a transaction: its events are counted, or forgotten."""
        for stream, waiting in list(self._waiting.items()):
            if any(one.producer_id == producer_id for one in waiting):
                rest = [
                    _Waiting(one.entry, DECIDED) if one.producer_id == producer_id else one
                    for one in waiting
                    if committed or one.producer_id != producer_id
                ]
                self._waiting[stream] = rest
                self._drain(stream)

    def _drain(self, stream: bytes) -> None:
        waiting = self._waiting[stream]
        while waiting and waiting[0].producer_id == DECIDED:
            self._count(waiting.pop(0).entry)
        if not waiting:
            del self._waiting[stream]

    def _count(self, entry: Entry) -> None:
        found = self.streams.get(entry.stream)
        if found is None:
            found = self.streams[entry.stream] = Versions.none()
        # A record may say more than is counted here: events before it were deleted or lost. Never less.
        found.versions.append(max(found.last + 1, entry.version))
        found.offsets.append(entry.offset)
        _insert(self.types, entry.type, entry.offset)
        for tag in set(entry.tags):
            _insert(self.tags, tag, entry.offset)
        if entry.request:
            self.requests.setdefault(request_digest(entry.stream, entry.request), entry.offset)
            while len(self.requests) > REQUESTS_MAX:
                del self.requests[next(iter(self.requests))]


def _insert(arrays: dict[str, "array[int]"], name: str, offset: int) -> None:
    """Nearly always at the end: the events of a transaction are counted when it has ended."""
    offsets = arrays.setdefault(name, array("q"))
    if offsets and offsets[-1] > offset:
        insort(offsets, offset)
    else:
        offsets.append(offset)


def _holds(offsets: "array[int]", offset: int) -> bool:
    row = bisect_left(offsets, offset)
    return row < len(offsets) and offsets[row] == offset
