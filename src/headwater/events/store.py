"""The store of aggregates: commands in, events on the log, state back."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from headwater.clock import Clock, SystemClock
from headwater.errors import HeadwaterError, Rejected, UsageError, WrongVersion
from headwater.events.aggregate import Aggregate, Confirmed
from headwater.events.folding import Loaded, decide, expire, fold, to_store
from headwater.events.process import Process
from headwater.events.process_runner import ProcessRunner
from headwater.events.projection import Declares, stream_of
from headwater.events.snapshots import CONFIGS, TOPIC_ENDING, Snapshots
from headwater.events.storage import EventStorage
from headwater.log.log import Log
from headwater.log.streams.condition import Append, StreamWrite
from headwater.log.streams.event import Origin, StoredEvent
from headwater.log.streams.event_topic import EventTopic

logger = logging.getLogger("headwater.events")

ATTEMPTS = 20
"""How often a command is decided again because other writers were quicker."""

LOCKS = 64
Kind = TypeVar("Kind", bound=Aggregate)


@dataclass(frozen=True)
class Done:
    """What became of a command. `position` is for `at_least` of a read; "" if nothing happened."""

    version: int
    position: str = ""
    events: tuple[StoredEvent, ...] = ()
    repeated: bool = False
    """A command with this id was handled before; this is what it did then."""


@dataclass(frozen=True)
class Step:
    """One event of an aggregate, and the state after it."""

    event: StoredEvent
    state: dict[str, Any]


def open(path: str | Path, *, topic: str = "events", clock: Clock | None = None) -> "EventStore":
    """The store in a data directory, in this process. DataDirectoryLocked if a node runs there: connect to it."""
    log = Log.open(path, clock=clock)
    try:
        return EventStore.on(log, topic, closing=log.close)
    except BaseException:
        log.close()
        raise


class EventStore:
    """Safe to use from many threads."""

    @classmethod
    def on(cls, log: Log, topic: str = "events", *, closing: Callable[[], None] | None = None) -> "EventStore":
        """The store in a log that is open already."""

        def storage_of(name: str, configs: Mapping[str, str]) -> EventStorage:
            return EventTopic.open(log, name, configs=configs)

        return cls(topic, storage_of, clock=log.clock, closing=closing)

    def __init__(
        self,
        topic: str,
        storage_of: Callable[[str, Mapping[str, str]], EventStorage],
        *,
        clock: Clock | None = None,
        closing: Callable[[], None] | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self._storage_of, self._closing = storage_of, ExitStack()
        if closing is not None:
            self._closing.callback(closing)
        self.events = self._opened(topic)
        self._snapshots = Snapshots(self._opened(topic + TOPIC_ENDING, CONFIGS))
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    def _opened(self, name: str, configs: Mapping[str, str] | None = None) -> EventStorage:
        storage = self._storage_of(name, configs or {})
        self._closing.callback(storage.close)
        return storage

    def process(self, process: type[Process]) -> ProcessRunner:
        """What runs a process on the events of this store."""
        storage = self._opened(f"{self.events.name}-{process.__name__}")
        return ProcessRunner(self, process, storage, self.clock)

    # -- commands ----------------------------------------------------------------------------------------------------

    def handle(
        self,
        aggregate: type[Aggregate],
        key: str,
        command: object,
        /,
        *,
        id: str = "",
        origin: Origin | None = None,
        **arguments: Any,
    ) -> Done:
        """Decide a command on the state as it is now, and store what it returns, durably.

        `command` is the name of a method, with its arguments, or the object that is its one argument. With an `id`
        what it does is stored once, however often it is sent. Rejected if the command says so; WrongVersion if other
        writers were quicker ATTEMPTS times.
        """
        stream = aggregate._definition.stream(key)
        with self._locks[
            crc32(stream.encode()) % LOCKS
        ]:  # or the threads of one process would be each other's conflicts
            for attempt in range(1, ATTEMPTS + 1):
                if (before := self._handled(stream, id)) is not None:
                    return before
                try:
                    return self._attempt(aggregate, key, command, id, origin or Origin(), arguments)
                except WrongVersion:
                    if attempt == ATTEMPTS:
                        raise
                except Rejected:
                    # Rejected by what it did itself, when it was sent for the first time?
                    if (before := self._handled(stream, id)) is not None:
                        return before
                    raise
        raise UsageError("ATTEMPTS has to be 1 at least")

    def _handled(self, stream: str, id: str) -> Done | None:
        found = self.events.find_request(stream, id) if id else None
        return None if found is None else Done(found.version(stream), found.position, found.events, repeated=True)

    def _attempt(
        self, aggregate: type[Aggregate], key: str, command: object, id: str, origin: Origin, arguments: dict[str, Any]
    ) -> Done:
        definition = aggregate._definition
        loaded = self._load(aggregate, key)
        now_ms, version = self.clock.now_ms(), loaded.state.version
        state, happened = expire(loaded, now_ms)
        happened += decide(state, command, arguments)
        if not happened:
            return Done(version)
        causes = Origin(correlation=origin.correlation or id, causation=origin.causation or id, user=origin.user)
        events = to_store(definition, key, happened, origin=causes, now_ms=now_ms)
        stream = definition.stream(key)
        stored = self.events.append(Append((StreamWrite(stream, events, version),), id))
        every = aggregate.snapshot_every
        if every and stored.version(stream) // every > version // every:
            self._keep_snapshot(aggregate, key)
        return Done(stored.version(stream), stored.position, stored.events, stored.repeated)

    def _keep_snapshot(self, aggregate: type[Aggregate], key: str) -> None:
        """The events are stored by now: that a shortcut could not be, must not look as if they were not."""
        try:
            self._snapshots.save(aggregate._definition.stream(key), self._load(aggregate, key))
        except HeadwaterError as error:
            logger.warning("no snapshot of %s %s could be kept: %s", aggregate.__name__, key, error)

    def confirm(self, aggregate: type[Aggregate], key: str, event_id: str, *, id: str = "") -> Done:
        """A tentative event stays. Rejected if it is not there, or not any more: its time may be up."""
        stream = aggregate._definition.stream(key)
        with self._locks[crc32(stream.encode()) % LOCKS]:
            for _ in range(ATTEMPTS):
                if (before := self._handled(stream, id)) is not None:
                    return before
                state = self.load(aggregate, key)
                now_ms = self.clock.now_ms()
                if not any(one.id == event_id and one.until_ms > now_ms for one in state.unconfirmed):
                    raise Rejected(f"{stream} has no event {event_id} that waits to be confirmed")
                events = to_store(
                    aggregate._definition, key, [Confirmed(event_id)], origin=Origin(causation=id), now_ms=now_ms
                )
                try:
                    stored = self.events.append(Append((StreamWrite(stream, events, state.version),), id))
                except WrongVersion:
                    continue
                return Done(stored.version(stream), stored.position, stored.events, stored.repeated)
        raise WrongVersion(stream, expected=state.version, actual=self.events.version(stream))

    # -- state -------------------------------------------------------------------------------------------------------

    def load(self, aggregate: type[Kind], key: str, *, version: int | None = None, time_ms: int | None = None) -> Kind:
        """The aggregate as it is now, or as it was at a version or a time. Without events it is as the class begins."""
        if version is None and time_ms is None:
            state = self._load(aggregate, key).state
        else:
            events = self.events.read(aggregate._definition.stream(key), until=2**62 if version is None else version)
            kept = [event for event in events if time_ms is None or event.time_ms <= time_ms]
            state = fold(aggregate._definition, key, kept).state
        assert isinstance(state, aggregate)
        return state

    def _load(self, aggregate: type[Aggregate], key: str) -> Loaded:
        definition = aggregate._definition
        stream = definition.stream(key)
        snapshot = self._snapshots.newest(stream, definition.fingerprint) if aggregate.snapshot_every else None
        if snapshot is not None:
            events = list(self.events.read(stream, after=snapshot.version - 1))
            if events and (events[0].version, events[0].id) == (snapshot.version, snapshot.event_id):
                loaded = fold(definition, key, events[1:], begin=(snapshot.version, snapshot.state))
                loaded.last_id = events[-1].id
                return loaded
        return fold(definition, key, list(self.events.read(stream)))

    def history(self, aggregate: type[Aggregate], key: str) -> Iterator[Step]:
        """Every event of an aggregate, and the state after it as it was believed then: tentative events count."""
        definition = aggregate._definition
        events = list(self.events.read(definition.stream(key)))
        for end, event in enumerate(events, start=1):
            yield Step(event, definition.state(fold(definition, key, events[:end]).state))

    def story(self, correlation: str) -> Iterator[StoredEvent]:
        """Events of all aggregates that belong to one correlation, in their order. Reads the whole topic."""
        page, ended = self.events.page(), False
        while not ended:
            yield from (one for one in page.events if one.origin.correlation == correlation)
            ended = page.caught_up
            page = page if ended else self.events.page(page.offsets)

    def stream(self, app: Declares, aggregate: type[Aggregate]) -> Any:
        """The events of all aggregates of a class as a stream of an app (hw.App), for views and topics: the fields of
        its events, `event_key` and `event_type`."""
        return stream_of(app, self.events.name, aggregate._definition)

    def keys(self, aggregate: type[Aggregate]) -> list[str]:
        """Of all aggregates of a class that have events."""
        begin = aggregate._definition.stream("")
        return [stream.removeprefix(begin) for stream in self.events.streams() if stream.startswith(begin)]

    def close(self) -> None:
        """Write the indexes down, and let go of the log if this store opened it."""
        self._closing.close()

    def __enter__(self) -> "EventStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
