"""How far sources have come in time, and up to when nothing more is to be waited for. Pure.

The watermark of a batch is known before it runs: the least time that any partition had come to, each less the lateness
of its stream, and never before the watermark of the batch before. A batch that runs again has the same one.

A partition of which rows are left has come to the time that the plan ends at, if the plan knows that they are no older
than the lateness allows (source/batch_plan/admission.py).

A partition is not waited for while it is idle: it has nothing in the batch, nothing of it is left, and

    the newest record of the job has come more than `idle` after its own newest one, or
    the source has watched it for longer than `idle` and nothing came (that is in the plan, batch_control.py), or
    there was never anything in it.

Times of records decide the first, so that a replay decides as the live run did. But none has come after its batch was
planned, whatever its producer's clock says: one that is fast would make all others idle. If all are idle nothing
says that time has passed: then it is as if none were. A stream whose `idle` is None waits for all of its partitions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from headwater.flow.declare.topology.nodes import Source, SourceStream, SourceVersions, source_id
from headwater.flow.source.staging import Staged
from headwater.record import TopicPartition

FOREVER_US = 2**62
"""No watermark comes to it."""

ByPartition = Mapping[str, Mapping[int, int]]


class ProducerClock(NamedTuple):
    """Of one producer."""

    newest_us: int
    """The newest event time, or the time before which it has said that nothing more comes, plus lateness."""
    arrived_ms: int
    """The newest timestamp of its records."""


@dataclass(frozen=True)
class Clocks:
    """How far sources have come in all batches up to one; id of a source → partition → …"""

    newest_us: ByPartition = field(default_factory=dict)
    """Where a partition has come to: its newest event time, or that of its slowest producer."""
    arrived_ms: ByPartition = field(default_factory=dict)
    """The newest timestamp of a partition's records."""
    producers: Mapping[str, Mapping[int, Mapping[str, ProducerClock]]] = field(default_factory=dict)
    """Those that are not idle; only of streams that name them."""

    def come_to(self, places: Iterable[TopicPartition], time_us: int) -> "Clocks":
        """As if a row of that time had been read of some partitions, whose rows that are left are no older."""
        newest = _copied(self.newest_us)
        for place in places:
            _raise(newest, place.topic, place.partition, time_us)
        return replace(self, newest_us=newest)

    def to_json(self) -> dict[str, Any]:
        return {"newest_us": self.newest_us, "arrived_ms": self.arrived_ms, "producers": self.producers}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Clocks":
        producers = {
            topic: {
                int(number): {name: ProducerClock(*one) for name, one in advance_clocks.items()}
                for number, advance_clocks in parts.items()
            }
            for topic, parts in row["producers"].items()
        }
        return cls(_numbered(row["newest_us"]), _numbered(row["arrived_ms"]), producers)


def _numbered(row: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {topic: {int(number): one for number, one in parts.items()} for topic, parts in row.items()}


def streams_of(sources: Iterable[Source]) -> list[SourceStream]:
    """Those whose rows say how far time has come. A table whose rows say themselves since when they hold says nothing
    of it, neither by their times nor by when they were written: a row may hold from any time, past or to come."""
    return [source for source in sources if isinstance(source, SourceStream) and not is_dated(source)]


def is_dated(source: Source) -> bool:
    """Versions that hold from what a column says."""
    return isinstance(source, SourceVersions) and source.valid_from is not None


def idle_ms(streams: Iterable[SourceStream]) -> dict[str, int]:
    """How long nothing must come of each topic before a job that reads these has to know it; of two the longer."""
    longest: dict[str, int] = {}
    for stream in streams:
        if stream.idle_us is not None:
            longest[stream.topic] = max(longest.get(stream.topic, 0), stream.idle_us // 1000)
    return longest


def advance_clocks(
    before: Clocks, staged: Iterable[Staged], streams: Sequence[SourceStream], planned_ms: int
) -> Clocks:
    """The clocks after a batch that was planned at a time."""
    by_topic = {source_id(stream): stream for stream in streams}
    newest, arrived = _copied(before.newest_us), _copied(before.arrived_ms)
    producers = {
        topic: {number: dict(own) for number, own in parts.items()}
        for topic, parts in before.producers.items()
        if topic in by_topic
    }
    for one in staged:
        topic, number, counts = one.range.topic, one.range.partition, one.counts
        stream = by_topic.get(topic)
        if stream is None:
            continue
        _raise(arrived, topic, number, _not_after(planned_ms, counts.timestamp_max_ms))
        _raise(newest, topic, number, _promised(stream, counts.no_more_before_us))
        if stream.clock.producer is None:
            _raise(newest, topic, number, counts.event_time_max_us)
        else:
            _advance(stream, producers.setdefault(topic, {}).setdefault(number, {}), counts.producers, planned_ms)
    for topic, parts in producers.items():
        for number in parts:
            parts[number] = _not_idle(by_topic[topic], parts[number], _latest(arrived))
            slowest = min((one.newest_us for one in parts[number].values()), default=None)
            _raise(newest, topic, number, slowest)
    return Clocks(newest, arrived, producers)


def idle_partitions(
    clocks: Clocks, streams: Sequence[SourceStream], partitions: Iterable[TopicPartition],
    *, read: frozenset[TopicPartition], held: frozenset[TopicPartition], silent: frozenset[TopicPartition],
) -> frozenset[TopicPartition]:  # fmt: skip
    """Of all `partitions`, those that a batch does not wait for.

    `read`: it has rows of them; `held`: they have older rows than others that it has, but there was no room for them;
    `silent`: the source has seen nothing come for long enough.
    """
    by_topic = {source_id(stream): stream for stream in streams}
    latest_ms = _latest(clocks.arrived_ms)
    idle = set()
    for partition in partitions:
        stream = by_topic.get(partition.topic)
        if stream is None or partition in read or partition in held:
            continue
        own_ms = clocks.arrived_ms.get(partition.topic, {}).get(partition.partition)
        if stream.idle_us is not None and (
            own_ms is None or partition in silent or _longer_than(stream.idle_us, own_ms, latest_ms)
        ):
            idle.add(partition)
    return frozenset(idle)


def watermark(
    clocks: Clocks, streams: Sequence[SourceStream], partitions: Iterable[TopicPartition],
    *, idle: frozenset[TopicPartition], before_us: int | None,
) -> int | None:  # fmt: skip
    """Nothing before it is waited for; None as long as there is no such time."""
    lateness = {source_id(stream): stream.lateness_us for stream in streams}
    own = [partition for partition in partitions if partition.topic in lateness]
    # One that has been read and has no time, for nothing in it could be decoded, has none to wait for.
    waited_for = [partition for partition in own if partition not in idle and not _timeless(clocks, partition)]
    if not waited_for:
        waited_for = [one for one in own if one.partition in clocks.newest_us.get(one.topic, {})]
    reached = []
    for partition in waited_for:
        newest = clocks.newest_us.get(partition.topic, {}).get(partition.partition)
        if newest is None:
            return before_us  # its first rows are in this batch, or still to come
        reached.append(newest - lateness[partition.topic])
    return max((one for one in (min(reached, default=None), before_us) if one is not None), default=None)


def _timeless(clocks: Clocks, partition: TopicPartition) -> bool:
    read = partition.partition in clocks.arrived_ms.get(partition.topic, {})
    return read and partition.partition not in clocks.newest_us.get(partition.topic, {})


def _advance(
    stream: SourceStream, known: dict[str, ProducerClock], counted: Mapping[str, Sequence[int | None]], planned_ms: int
) -> None:
    for name, (newest_us, claimed_ms, no_more_before_us) in counted.items():
        arrived_ms = _not_after(planned_ms, claimed_ms)
        newest = [one for one in (newest_us, _promised(stream, no_more_before_us)) if one is not None]
        if newest and arrived_ms is not None:
            old = known.get(name, ProducerClock(max(newest), arrived_ms))
            known[name] = ProducerClock(max(old.newest_us, *newest), max(old.arrived_ms, arrived_ms))


def _not_after(planned_ms: int, claimed_ms: int | None) -> int | None:
    return None if claimed_ms is None else min(claimed_ms, planned_ms)


def _promised(stream: SourceStream, no_more_before_us: int | None) -> int | None:
    """As if a row had come from as far ahead that only this much is left to wait for."""
    return None if no_more_before_us is None else no_more_before_us + stream.lateness_us


def _not_idle(
    stream: SourceStream, known: Mapping[str, ProducerClock], latest_ms: int | None
) -> dict[str, ProducerClock]:
    return {name: one for name, one in known.items() if not _longer_than(stream.idle_us, one.arrived_ms, latest_ms)}


def _longer_than(idle_us: int | None, own_ms: int, latest_ms: int | None) -> bool:
    return idle_us is not None and latest_ms is not None and (latest_ms - own_ms) * 1000 > idle_us


def _latest(arrived_ms: ByPartition) -> int | None:
    return max((one for parts in arrived_ms.values() for one in parts.values()), default=None)


def _copied(times: ByPartition) -> dict[str, dict[int, int]]:
    return {topic: dict(parts) for topic, parts in times.items()}


def _raise(times: dict[str, dict[int, int]], topic: str, number: int, to: int | None) -> None:
    if to is not None:
        own = times.setdefault(topic, {})
        own[number] = max(own.get(number, to), to)
