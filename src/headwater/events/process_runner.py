"""Runs a process: each event is reacted to once, whatever is killed in between.

A reaction is: commands, each under a request id that the event and the command's number give, so that one that is sent
again does nothing more; then one record in the topic `<events>-<process>`, under a request id that the event gives,
with the state and the time-outs that the instance has now. A crash before this record runs the reaction again on the
same state. That a command was rejected is recorded before it has consequences, so that it is not decided another way
the second time.

Time is the time of events: a time-out is due when an event of its time or later comes, or when there are no more events
and the clock, which gives events their times, has passed it.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from headwater.clock import Clock
from headwater.errors import Rejected, UsageError
from headwater.events.codec import to_json
from headwater.events.process import Do, Effect, Instance, Process, TimedOut, Trigger, reacted, reactions
from headwater.events.storage import EventStorage
from headwater.log.streams.condition import Append, Expected, StreamWrite
from headwater.log.streams.event import NewEvent, Origin, StoredEvent
from headwater.log.streams.event_topic import CaughtUp

if TYPE_CHECKING:
    from headwater.events.store import EventStore

REACTED, COMMAND_REJECTED = "Reacted", "CommandRejected"
COMMANDS_MAX = 1000
IDLE_SECONDS = 0.2


class ProcessRunner:
    """One at a time for a process; a second one does no harm, and nothing that the first has not done."""

    def __init__(self, store: "EventStore", process: type[Process], storage: EventStorage, clock: Clock) -> None:
        self._store, self._process, self._storage, self._clock = store, process, storage, clock
        self._reactions = reactions(process)
        self._definitions = {one._definition.name: one._definition for one in process.follows}
        self._offsets: dict[int, int] = {}
        self._timers: dict[tuple[str, str], int] = {}
        for event in _all(storage):
            if event.type == REACTED:
                self._note(event.stream, json.loads(event.data))

    def run(self) -> int:
        """React to all that has happened, and to time-outs that are due now; returns how many events were read."""
        count = 0
        while not (page := self._store.events.page(self._offsets)).caught_up or page.events:
            for event in page.events:
                self._see(event)
                count += 1
            self._offsets = dict(page.offsets)
        self.advance(self._clock.now_ms())
        return count

    def follow(self, stopping: threading.Event) -> None:
        """React to all that happens, until `stopping` is set."""
        while not stopping.is_set():
            for event in self._store.events.subscribe(self._offsets, timeout=IDLE_SECONDS):
                if isinstance(event, CaughtUp):
                    self._offsets = dict(event.offsets)
                    self.advance(self._clock.now_ms())
                else:
                    self._see(event)
                if stopping.is_set():
                    return
            self.advance(self._clock.now_ms())

    def advance(self, time_ms: int) -> None:
        """Time has come so far: react to the time-outs that are due, the earliest first."""
        while due := sorted((at, *which) for which, at in self._timers.items() if at <= time_ms):
            at, instance, name = due[0]
            about = Trigger(instance, instance, at)
            self._react(instance, TimedOut(name), about, f"{self._process.__name__}!{name}@{at}")
            self._timers.pop((instance, name), None)

    def _see(self, stored: StoredEvent) -> None:
        self.advance(stored.time_ms)
        name, _, key = stored.stream.partition("-")
        definition = self._definitions.get(name)
        if definition is not None and definition.kind(stored.type) in self._reactions:
            event = definition.decoded(stored.type, stored.schema, json.loads(stored.data))
            about = Trigger(key, stored.origin.correlation, stored.time_ms, stored)
            instance = self._process.instance(event, about)
            if instance:
                _, partition, offset = stored.position
                self._react(instance, event, about, f"{self._process.__name__}@{partition}.{offset}")
        self._offsets[stored.position.partition] = stored.position.offset

    # -- one reaction ------------------------------------------------------------------------------------------------

    def _react(self, id: str, event: object, about: Trigger, request: str) -> None:
        if self._storage.find_request(id, request) is not None or type(event) not in self._reactions:
            return
        _, begun, before = self._instance(id)
        process = before.restore(self._process, id)
        effects = list(self._reactions[type(event)](process, event, about) or ())
        effects += self._do_all(process, effects, about, request)
        timers = dict(before.timers)
        if isinstance(event, TimedOut):
            timers.pop(event.name, None)
        after = reacted(process, timers, effects, about.time_ms)
        said = {"state": after.state, "timers": after.timers, "at": _place(about)}
        version, newest, _ = self._instance(id)  # rejections may have been recorded since
        if newest != begun:
            return  # another runner has reacted to this event, and maybe to later ones
        self._append(id, REACTED, said, request, version)
        self._note(id, said)

    def _do_all(self, process: Process, effects: Iterable[Effect], about: Trigger, request: str) -> list[Effect]:
        """Handle the commands of a reaction; returns the effects of those that were rejected."""
        waiting, more, number = [one for one in effects if isinstance(one, Do)], list[Effect](), 0
        while waiting:
            if number == COMMANDS_MAX:
                raise UsageError(f"{self._process.__name__} answers one event with more than {COMMANDS_MAX} commands")
            command = waiting.pop(0)
            why = self._do(process.id, command, about, f"{request}#{number}")
            if why is not None:
                consequences = list(process.rejected(command, why))
                more += consequences
                waiting += [one for one in consequences if isinstance(one, Do)]
            number += 1
        return more

    def _do(self, id: str, command: Do, about: Trigger, request: str) -> Rejected | None:
        known = self._storage.find_request(id, request)
        if known is not None:
            return Rejected(str(json.loads(known.events[0].data)["why"]))
        causation = about.stored.id if about.stored is not None else request
        origin = Origin(correlation=about.correlation or id, causation=causation, user=self._process.__name__)
        try:
            self._store.handle(
                command.aggregate, command.key, command.command, id=request, origin=origin, **command.arguments
            )
        except Rejected as rejected:
            self._append(id, COMMAND_REJECTED, {"why": str(rejected)}, request, "any")
            return rejected
        return None

    def _append(self, id: str, type: str, said: object, request: str, expected: Expected) -> None:
        write = StreamWrite(id, [NewEvent(type, to_json(said))], expected)
        self._storage.append(Append((write,), request))

    def _instance(self, id: str) -> tuple[int, int, Instance]:
        """The version of its stream, that of its last reaction, and the instance as this left it."""
        version = 0
        for event in self._storage.read(id, backwards=True):
            version = version or event.version
            if event.type == REACTED:
                said = json.loads(event.data)
                return version, event.version, Instance(said["state"], said["timers"])
        return version, 0, Instance({}, {})

    def _note(self, id: str, said: Mapping[str, object]) -> None:
        """What a reaction says of time-outs, and of how far events were read."""
        timers, at = said["timers"], said["at"]
        assert isinstance(timers, dict)
        for which in [one for one in self._timers if one[0] == id]:
            del self._timers[which]
        self._timers.update({(id, name): due for name, due in timers.items()})
        if isinstance(at, list):
            partition, offset = at
            self._offsets[partition] = max(offset, self._offsets.get(partition, -1))


def _place(about: Trigger) -> list[int] | None:
    return None if about.stored is None else [about.stored.position.partition, about.stored.position.offset]


def _all(storage: EventStorage) -> Iterator[StoredEvent]:
    page = storage.page()
    yield from page.events
    while not page.caught_up:
        page = storage.page(page.offsets)
        yield from page.events
