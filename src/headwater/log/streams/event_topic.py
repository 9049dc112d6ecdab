"""A topic of events: streams that are appended under a condition, and one order over all of them.

>>> from headwater.log.log import Log
>>> from headwater.log.streams.event import NewEvent
>>> from headwater.log.storage import MemoryStorage
>>> log = Log.open("data", storage=MemoryStorage())
>>> seats = EventTopic.open(log, "seats")
>>> stored = seats.append(Append((StreamWrite("12A", [NewEvent("Reserved", b"{}")], expected="none"),)))
>>> stored.position, [event.version for event in seats.read("12A")]
('seats/0@0', [1])

A stream is in the partition that its name gives, as the key of a record. With one partition, which is the default, the
offsets are one order over all events of the topic, and conditions may span streams at will. With several, an append
to more than one of them is a transaction, and each has an order of its own.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import TopicExists, UndecidedStream, UnknownTopic, UsageError
from headwater.log.log import Log
from headwater.log.partitioner import partition_of
from headwater.log.streams.condition import Append, Match, StreamWrite
from headwater.log.streams.event import StoredEvent, stream_key
from headwater.log.streams.partition_streams import PartitionStreams
from headwater.log.topic import Topic

CONFIGS = {
    "headwater.append.policy": "conditional",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""Nothing that was stored goes, and nobody appends past a condition."""

PAGE = 500
TURNS_MAX, TURN_SECONDS = 100, 0.1
"""How long an append waits for a transaction of another to end."""

Offsets = Mapping[int, int]
"""For each partition the offset of the last event that was read; what is not named is read from its start."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What an append stored; `repeated` if an earlier one with the same request did."""

    events: tuple[StoredEvent, ...]
    repeated: bool = False

    @property
    def position(self) -> str:
        """For `at_least` of a read: every event of the append is included there."""
        last: dict[tuple[str, int], int] = {}
        for event in self.events:
            topic, partition, offset = event.position
            last[topic, partition] = max(offset, last.get((topic, partition), 0))
        return ",".join(f"{topic}/{partition}@{offset}" for (topic, partition), offset in sorted(last.items()))

    def version(self, stream: str) -> int:
        """Of a stream after the append; 0 if it wrote nothing there."""
        return max((event.version for event in self.events if event.stream == stream), default=0)


@dataclass(frozen=True, slots=True)
class Page:
    """Some events in the order of a partition, and where to read on. `caught_up`: there are no more now."""

    events: tuple[StoredEvent, ...]
    offsets: Offsets
    caught_up: bool


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything up to these offsets was given; what follows is new."""

    offsets: Offsets


class EventTopic:
    """Safe to use from many threads."""

    @classmethod
    def open(
        cls, log: Log, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> "EventTopic":
        """The topic, made if it is not there. One that plain producers may write to has to be made beforehand."""
        wanted = {**CONFIGS, **(configs or {})}
        try:
            topic = log.topic(name)
        except UnknownTopic:
            try:
                topic = log.create_topic(name, partitions=partitions, configs=wanted)
            except TopicExists:
                topic = log.topic(name)
        if topic.settings.compacted and "compact" not in wanted["cleanup.policy"]:
            raise UsageError(f'topic "{name}" is compacted, and would keep only the last event of each stream')
        return cls(log, topic)

    def __init__(self, log: Log, topic: Topic) -> None:
        self._log, self.name = log, topic.name
        self._partitions = [PartitionStreams(log, topic, number) for number in range(topic.partitions)]
        self._transactional_id = f"headwater-events-{topic.name}"
        self._transaction_lock = threading.Lock()
        if any(one.undecided for one in self._partitions):
            # Left open by a process that was killed: nobody else can end it before its time is up.
            log.transactions.register(self._transactional_id, timeout_ms=60_000)

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    def _of(self, stream: str) -> PartitionStreams:
        return self._partitions[partition_of(stream_key(stream), len(self._partitions))]

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(self, append: Append) -> Stored:
        """Durable when this returns, all of it or nothing.

        WrongVersion or UnexpectedEvent if the condition does not hold; then nothing was stored. An append whose request
        was stored before answers as that one did.
        """
        append.check()
        groups: dict[int, list[StreamWrite]] = {}
        for write in append.writes:
            groups.setdefault(partition_of(stream_key(write.stream), len(self._partitions)), []).append(write)
        if append.unless is not None and len(self._partitions) > 1:
            raise UsageError(
                f'a condition on events of all streams needs one partition, and "{self.name}" has '
                f"{len(self._partitions)}; each has an order of its own"
            )
        for turn in range(TURNS_MAX):
            try:
                return self._append(append, groups)
            except UndecidedStream as undecided:
                if turn == TURNS_MAX - 1:
                    raise
                self._wait(self._of(undecided.stream))
        raise UndecidedStream(append.writes[0].stream)

    def _append(self, append: Append, groups: Mapping[int, Sequence[StreamWrite]]) -> Stored:
        parts = [
            (self._partitions[number], Append(tuple(writes), append.request, append.unless))
            for number, writes in sorted(groups.items())
        ]
        if len(parts) == 1:
            events, repeated = parts[0][0].append(parts[0][1])
            return Stored(tuple(events), repeated)
        with self._transaction_lock:
            for streams, _ in parts:
                streams.catch_up()
            if any(streams.repeated(part) for streams, part in parts):
                return Stored(tuple(event for streams, part in parts for event in streams.stored_by(part)), True)
            with self._log.transaction(self._transactional_id) as transaction:
                written = [event for streams, part in parts for event in streams.append_within(transaction, part)]
        return Stored(tuple(written))

    def _wait(self, streams: PartitionStreams) -> None:
        changed = threading.Event()
        unsubscribe = streams.partition.subscribe(changed.set)
        try:
            changed.wait(TURN_SECONDS)
        finally:
            unsubscribe()

    def find_request(self, stream: str, request: str) -> Stored | None:
        """What an append with this request stored in a stream; None if it is not known."""
        streams = self._of(stream)
        streams.catch_up()
        asked = Append((StreamWrite(stream, ()),), request)
        return Stored(tuple(streams.stored_by(asked)), True) if streams.repeated(asked) else None

    # -- reading -----------------------------------------------------------------------------------------------------

    def version(self, stream: str) -> int:
        """Of the newest event of a stream; 0 if it has none."""
        return self._of(stream).version(stream)

    def streams(self) -> list[str]:
        """Names of all streams that have events, sorted."""
        return sorted(name for one in self._partitions for name in one.names())

    def read(
        self, stream: str, *, after: int = 0, until: int = 2**62, backwards: bool = False
    ) -> Iterator[StoredEvent]:
        """Events of a stream after a version, up to another; with `backwards` the newest first."""
        return self._of(stream).read(stream, after=after, until=until, backwards=backwards)

    def page(self, offsets: Offsets | None = None, match: Match | None = None, *, limit: int = PAGE) -> Page:
        """The next events of the topic that match, partition after partition, and where to read on.

        Within a partition they come in the order of their offsets, and none appears later among those that were
        passed: events of an open transaction, and all after the first of them, are given when it has ended.
        """
        reached = dict.fromkeys(range(len(self._partitions)), -1) | dict(offsets or {})
        events: list[StoredEvent] = []
        for number, streams in enumerate(self._partitions):
            found, reached[number], done = streams.matching(match or Match(), reached[number], limit - len(events))
            events += found
            if not done or (len(events) == limit and number < len(self._partitions) - 1):
                return Page(tuple(events), reached, caught_up=False)
        return Page(tuple(events), reached, caught_up=True)

    def subscribe(
        self, offsets: Offsets | None = None, match: Match | None = None, *, timeout: float | None = None
    ) -> Iterator[StoredEvent | CaughtUp]:
        """Events from the start or after some offsets, then every new one; a CaughtUp each time there are no more.

        Ends after `timeout` seconds without a new event.
        """
        reached: Offsets = dict(offsets or {})
        grown = threading.Event()
        leaving = [one.partition.subscribe(grown.set) for one in self._partitions]
        announced: Offsets | None = None
        try:
            while True:
                grown.clear()
                page = self.page(reached, match)
                yield from page.events
                moved, reached = page.offsets != reached, page.offsets
                if not page.caught_up:
                    continue
                if page.events or announced is None:
                    announced = reached
                    yield CaughtUp(reached)
                if not moved and not grown.wait(timeout):
                    return
        finally:
            for leave in leaving:
                leave()

    def close(self) -> None:
        """Write the indexes down, so that the next opening reads little. The log stays open."""
        for streams in self._partitions:
            streams.save()
