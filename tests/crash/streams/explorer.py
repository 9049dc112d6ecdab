"""Crash a topic of events at every call to its disk, open what is left, and hold it against what was answered.

A seeded life of appends under conditions: to one stream and to several, in one partition and over two, with requests;
indexes are saved and the log is opened again in between. At each crash point, by a power cut or `kill -9`:

    every append that was answered is there, in its stream, at its version
    the append under way is there as a whole or not at all, in all of its streams
    sent again under its request, it is there once
    what the index says, read from its file and continued, is what an index made from the log says
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from headwater.clock import ManualClock
from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.log.streams import index_file
from headwater.log.streams.condition import Append, Expected, StreamWrite
from headwater.log.streams.event import NewEvent
from headwater.log.streams.event_topic import EventTopic
from headwater.log.streams.partition_streams import PartitionStreams

TOPICS = {"near": 1, "far": 2}
STREAMS = 4
KILLS = 0.3
Held = dict[tuple[str, str], list[str]]
"""Of each stream of a topic: what its events are called, in their order."""


@dataclass
class Life:
    disk: SimulatedDisk
    random: Random
    held: Held = field(default_factory=dict)
    under_way: tuple[str, Append] | None = None
    anomalies: list[str] = field(default_factory=list)
    points: int = 0
    steps: int = 0

    def run(self, steps: int) -> None:
        self._open()
        for _ in range(steps):
            self.random.choices([self._append, self._save, self._restart], weights=[20, 2, 1])[0]()

    def _open(self) -> None:
        self.log, self.topics = opened(self.disk)

    def _append(self) -> None:
        self.steps += 1
        topic = self.random.choice(list(TOPICS))
        streams = self.random.sample(range(STREAMS), self.random.choice((1, 1, 1, 2, 3)))
        writes = []
        for stream in sorted(f"s{number}" for number in streams):
            names = [f"{self.steps}.{row}" for row in range(self.random.randint(1, 3))]
            version = len(self.held.get((topic, stream), []))
            expected: Expected = self.random.choice([version, "any", "exists" if version else "none"])
            writes.append(StreamWrite(stream, [NewEvent(name, b"{}", (f"t{len(name)}",)) for name in names], expected))
        append = Append(tuple(writes), f"r{self.steps}")
        self.under_way = topic, append
        self.topics[topic].append(append)
        self.under_way = None
        add(self.held, topic, append)

    def _save(self) -> None:
        for topic in self.topics.values():
            topic.close()

    def _restart(self) -> None:
        self._save()
        self.log.close()
        self._open()

    # -- accidents ---------------------------------------------------------------------------------------------------

    def crash(self, call: Call) -> None:
        killed = self.random.random() < KILLS
        found = self.disk.kill() if killed else self.disk.crash(self.random)
        self.points += 1
        where = f"call {call.number} ({call.operation} {call.path}), {'kill -9' if killed else 'power cut'}"
        try:
            self.anomalies += [f"{where}: {one}" for one in self._examined(found)]
        except HeadwaterError as error:
            self.anomalies.append(f"{where}: {type(error).__name__}: {error}")

    def _examined(self, disk: SimulatedDisk) -> Iterator[str]:
        log, topics = opened(disk)
        found = contents(topics)
        later = {key: list(names) for key, names in self.held.items()}
        if self.under_way is not None:
            add(later, *self.under_way)
        if found not in (self.held, later):
            yield f"{found} was found where {self.held} was answered, and {self.under_way} was under way"
            return
        if self.under_way is not None:
            topic, append = self.under_way
            repeated = topics[topic].append(append).repeated
            if repeated != (found == later) or contents(topics) != later:
                yield f"sent again, repeated={repeated}, it left {contents(topics)} and not {later}"
        for one in topics.values():
            for streams in one._partitions:
                streams.catch_up()
                if image(streams) != image(rebuilt(log, streams)):
                    yield f"the index of {streams.partition.directory} is not what the log says"
        log.close()


def opened(disk: SimulatedDisk) -> tuple[Log, dict[str, EventTopic]]:
    log = Log.open("simulated", storage=disk, clock=disk.clock)
    return log, {name: EventTopic.open(log, name, partitions=count) for name, count in TOPICS.items()}


def contents(topics: dict[str, EventTopic]) -> Held:
    found = {(name, stream): topic.read(stream) for name, topic in topics.items() for stream in topic.streams()}
    listed = {key: list(events) for key, events in found.items()}
    for key, events in listed.items():
        if [event.version for event in events] != [*range(1, len(events) + 1)]:
            raise HeadwaterError(f"versions of {key} have gaps")
    return {key: [event.type for event in events] for key, events in listed.items() if events}


def add(held: Held, topic: str, append: Append) -> None:
    for write in append.writes:
        held.setdefault((topic, write.stream), []).extend(event.type for event in write.events)


def rebuilt(log: Log, streams: PartitionStreams) -> PartitionStreams:
    disk = log.storage
    path = f"{streams.partition.directory}/{index_file.NAME}"
    if disk.exists(path):
        disk.delete(path)
    made = PartitionStreams(log, log.topic(streams.partition.topic), streams.partition.number)
    made.catch_up()
    return made


def image(streams: PartitionStreams) -> object:
    index = streams._index
    return (
        index.end,
        {name: (list(one.versions), list(one.offsets)) for name, one in index.streams.items()},
        {name: list(one) for name, one in index.types.items()},
        {name: list(one) for name, one in index.tags.items()},
        index.requests,
    )


def explore(seed: int, *, steps: int, every: int) -> Life:
    disk = SimulatedDisk(ManualClock(), seed=seed)
    life = Life(disk, Random(seed))
    chosen = Random(seed + 1)
    watching = Life(disk, Random(seed + 2), life.held)  # what crashes must not change what comes next

    def before(call: Call) -> None:
        if call.changing and chosen.randrange(every) == 0:
            watching.under_way = life.under_way
            watching.crash(call)

    disk.on_call = before
    life.run(steps)
    life.anomalies += [f"seed {seed}: {one}" for one in watching.anomalies]
    life.points = watching.points
    return life
