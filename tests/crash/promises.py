"""What a log has promised so far: the model that a log found after an accident is held against.

Every promise is a set of allowed states. A call that has been made and not answered, or that failed, adds what it may
have done; a call that succeeded leaves only its own outcome.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from headwater.record import TopicPartition


class Strength(IntEnum):
    """How firmly a batch was promised."""

    UNKNOWN = 0  # asked for; may be there or not
    WRITTEN = 1  # survives the process, not the machine
    DURABLE = 2


@dataclass(frozen=True)
class Producer:
    id: int
    epoch: int
    sequence: int


@dataclass
class Batch:
    base_offset: int
    records: tuple[tuple[bytes | None, bytes | None], ...]
    timestamp_ms: int
    producer: Producer | None = None
    compression: str = "none"
    strength: Strength = Strength.UNKNOWN

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.records)


@dataclass
class PartitionPromise:
    batches: list[Batch] = field(default_factory=list)
    start_low: int = 0
    """Nothing below is readable any more."""
    start_high: int = 0
    """Nothing from here on may be missing."""
    seen_to: int = 0
    """Readers were shown all offsets below, in partitions where all appends are durable."""

    def begin_append(self, batch: Batch) -> None:
        self.batches.append(batch)

    def end_append(self, batch: Batch, *, base_offset: int, durable: bool) -> None:
        batch.base_offset = base_offset
        batch.strength = Strength.WRITTEN
        # Until then something else may have failed at this place; now it is certain that it is not there.
        self.batches = [other for other in self.batches if other is batch or not _collide(other, batch)]
        if durable:
            self.made_durable(batch.next_offset)

    def made_durable(self, end: int) -> None:
        for batch in self.batches:
            if batch.strength == Strength.WRITTEN and batch.next_offset <= end:
                batch.strength = Strength.DURABLE

    def begin_start(self, offset: int) -> None:
        self.start_high = max(self.start_high, offset)

    def end_start(self, offset: int) -> None:
        self.start_low = self.start_high = max(offset, self.start_low)


def _collide(other: Batch, batch: Batch) -> bool:
    return other.strength == Strength.UNKNOWN and other.base_offset == batch.base_offset


@dataclass(frozen=True)
class TopicPromise:
    """One incarnation of a topic; without an id while its creation has not been answered."""

    incarnation: int
    id: uuid.UUID | None
    partitions: int
    configs: Mapping[str, str]


def _changed(state: TopicPromise, partitions: int | None, configs: Mapping[str, str] | None) -> TopicPromise:
    grown = state if partitions is None else replace(state, partitions=max(partitions, state.partitions))
    return grown if configs is None else replace(grown, configs={**state.configs, **configs})


@dataclass
class Promises:
    topics: dict[str, list[TopicPromise | None]] = field(default_factory=dict)
    partitions: dict[tuple[int, TopicPartition], PartitionPromise] = field(default_factory=dict)
    commits: dict[tuple[str, TopicPartition], set[int | None]] = field(default_factory=dict)
    producer_ids: int = 0
    _incarnations: int = 0
    _changed: dict[str, list[TopicPromise]] = field(default_factory=dict)

    # Topics

    def current(self, topic: str) -> TopicPromise | None:
        """What the running log should hold, by the last call that was answered."""
        return self.topics.get(topic, [None])[0]

    def begin_create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._incarnations += 1
        self._may_be(topic, TopicPromise(self._incarnations, None, partitions, dict(configs)))

    def end_create(self, topic: str, id: uuid.UUID) -> None:
        newest = self.topics[topic][-1]
        assert newest is not None
        self.topics[topic] = [replace(newest, id=id)]

    def begin_delete(self, topic: str) -> None:
        self._may_be(topic, None)
        for (_, partition), offsets in self.commits.items():
            if partition.topic == topic:
                offsets.add(None)

    def end_delete(self, topic: str) -> None:
        self.topics[topic] = [None]
        for (_, partition), offsets in self.commits.items():
            if partition.topic == topic:
                offsets.clear()
                offsets.add(None)

    def begin_change(
        self, topic: str, *, partitions: int | None = None, configs: Mapping[str, str] | None = None
    ) -> None:
        """Whatever the topic is by now, it may become the same with more partitions, or with other configs."""
        self._changed[topic] = [_changed(state, partitions, configs) for state in self.topics[topic] if state]
        self.topics[topic] = [*self.topics[topic], *self._changed[topic]]

    def end_change(self, topic: str) -> None:
        self.topics[topic] = [*self._changed[topic]]

    def _may_be(self, topic: str, state: TopicPromise | None) -> None:
        self.topics.setdefault(topic, [None]).append(state)

    def partition(self, topic: str, number: int) -> PartitionPromise:
        promise = self.current(topic)
        assert promise is not None
        return self.partition_of(promise, TopicPartition(topic, number))

    def partition_of(self, topic: TopicPromise, partition: TopicPartition) -> PartitionPromise:
        return self.partitions.setdefault((topic.incarnation, partition), PartitionPromise())

    def live_partitions(self) -> Iterator[tuple[TopicPartition, PartitionPromise]]:
        for name in self.topics:
            promise = self.current(name)
            for number in range(promise.partitions if promise else 0):
                yield TopicPartition(name, number), self.partition(name, number)

    # Group offsets

    def begin_commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        self.commits.setdefault((group, partition), {None}).add(offset)

    def end_commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        self.commits[group, partition] = {offset}
