"""How far sources have come in time, and what is late for operators that remember for a limited time.

Each partition has a clock of its own: the newest time in it, before the batch at hand. A row is late if it lies further
behind the clock of its own partition than the stream's lateness allows. So a partition that is read ahead of others
makes nothing late in them. What may be forgotten is decided by the watermark, that is by the slowest of all that are
not idle; a row before it is late, too. After a join that holds rows back only the watermark counts, as it is there
(delays.py): rows come from it long after the clock of their partition has moved on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headwater.flow.commit.job_folder import BatchRecord
from headwater.flow.declare.topology.nodes import Node, Source, SourceStream, Windowed, source_id, sources_of
from headwater.flow.operators.windows.clock import NEVER_US
from headwater.flow.plan.delays import AT_ONCE, Passed, arriving, reached_us
from headwater.flow.plan.planned_batches import PlannedBatch, partition_offsets
from headwater.flow.plan.watermarks import Clocks, idle_partitions, streams_of, watermark
from headwater.flow.prepare.late_bounds import LateBounds
from headwater.record import TopicPartition


def times_of(sources: tuple[Source, ...], before: BatchRecord | None, planned: PlannedBatch) -> "Times":
    """The watermarks of a planned batch, from the clocks that the batch before it has left."""
    streams = streams_of(sources)
    clocks = before.clocks if before else Clocks()
    spans = planned.start, planned.end
    start, end = ({source_id(one): position.get(one.topic, {}) for one in sources} for position in spans)
    control = planned.control
    held, silent, ahead = (_by_source(parts, sources) for parts in (control.held, control.silent, control.ahead))
    ends = partition_offsets(end)
    read = frozenset(one for one, offset in ends.items() if offset > start.get(one.topic, {}).get(one.partition, 0))
    idle = idle_partitions(clocks, streams, ends, read=read, held=held | ahead, silent=silent)
    earlier = before.passed if before else ()
    known = clocks.come_to(ahead - read, 1000 * control.ahead_ms)
    reached = watermark(known, streams, ends, idle=idle, before_us=earlier[0] if earlier else None)
    return Times(clocks.newest_us, sources, idle, earlier, reached)


def _by_source(parts: frozenset[TopicPartition], sources: tuple[Source, ...]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(source_id(source), one.partition)
        for source in sources
        for one in parts
        if one.topic == source.topic
    )


@dataclass(frozen=True)
class Times:
    """How far time has come for a batch. `newest_us`: id of a source → partition → newest event time. `sources` are
    numbered as in `_at`."""

    newest_us: Mapping[str, Mapping[int, int]]
    sources: tuple[Source, ...] = ()
    idle: frozenset[TopicPartition] = frozenset()
    """Partitions that the batch does not wait for."""
    earlier: Passed = ()
    """The watermarks of the batch before, and of those before that."""
    watermark_us: int | None = None
    """That of this batch (watermarks.py): a row at or after it is never late. None: there is none yet."""
    still: bool = False
    """Time does not advance: for every operator the watermark is that of the batch before."""

    processed_before_us: int | None = None
    processed_us: int | None = None
    """When the batch before and this one were planned: the watermarks of windows by processing time."""

    @property
    def passed(self) -> Passed:
        """The watermark of this batch, and those before it."""
        return self.earlier if self.still else (self.watermark_us, *self.earlier)

    def reached(self, node: Node) -> tuple[int | None, int | None]:
        """The watermarks of what is given to an operator, in the batch before and in this one."""
        if isinstance(node, Windowed) and node.processing:
            return self.processed_before_us, self.processed_us
        bounds = arriving(node)
        return reached_us(bounds, self.earlier), reached_us(bounds, self.passed)

    def processed_at(self, planned_us: int, before_us: int | None) -> "Times":
        """With the time of processing. Clocks may be put back, but rows are not processed before earlier ones."""
        processed_us = planned_us if before_us is None else max(planned_us, before_us)
        return replace(self, processed_before_us=before_us, processed_us=processed_us)

    def stand_still(self) -> "Times":
        return replace(self, watermark_us=self.earlier[0] if self.earlier else None, still=True)

    def until(self, goal: Passed, *, reached: bool) -> "Times":
        """Those of a job that follows another one, to whose last watermarks its own have to come in the end.

        It is never ahead of any of them. `reached`: it has read all that the other one has, and then has the same
        watermarks one after the other.
        """
        if reached:
            return replace(self, watermark_us=next_towards(goal, self.earlier))
        known = [one for one in (goal[-1], self.watermark_us) if one is not None]
        return replace(self, watermark_us=min(known) if len(known) == 2 else None)

    def late_bounds(self, node: Node) -> LateBounds:
        """Before which times rows are late for an operator that remembers for a limited time."""
        forgotten_us = self.expired_us(node, 0)
        below_us = NEVER_US if forgotten_us is None else forgotten_us
        bounds: dict[tuple[int, int], int] = {}
        for source in self._streams(node) if arriving(node) == AT_ONCE else ():
            parts = self.newest_us.get(source_id(source), {}) if source.time else {}
            for partition, newest in parts.items():
                # A partition that was not waited for may lag behind what the others have let be forgotten.
                own_us = max(newest - source.lateness_us, below_us)
                bounds[self.sources.index(source), partition] = own_us
        return LateBounds(below_us, bounds)

    def expired_us(self, node: Node, within_us: int) -> int | None:
        """Nothing that is not late can lie within the time of what happened before this.

        None if nothing may be forgotten: as where rows say nothing of when they happened, for then none is late.
        """
        timed = all(source.time for source in self._streams(node))
        _, watermark_us = self.reached(node)
        return watermark_us - within_us if timed and watermark_us is not None else None

    def _streams(self, node: Node) -> list[SourceStream]:
        return [source for source in sources_of(node) if isinstance(source, SourceStream) and source in self.sources]

    def passed_us(self, source: int, partition: int) -> int:
        """What lies before it is late, in a partition."""
        stream = self.sources[source]
        assert isinstance(stream, SourceStream)
        return self.newest_us[source_id(stream)][partition] - stream.lateness_us

    def reason(self, source: int, partition: int, time_us: int) -> str:
        """Why a row is late, for a person."""
        stream = self.sources[source]
        assert isinstance(stream, SourceStream)
        said = f"{stream.time or 'its time'} lies"
        behind = self.newest_us.get(source_id(stream), {}).get(partition, NEVER_US) - time_us
        if behind > stream.lateness_us:
            allowed = f"lateness is {stream.lateness_us / 1e6:,.0f} s"
            return f"{said} {behind / 1e6:,.3f} s behind {stream.topic}/{partition}; {allowed}"
        passed = (self.watermark_us or time_us) - time_us
        return f"{said} {passed / 1e6:,.3f} s before the watermark, which did not wait for {stream.topic}/{partition}"


def next_towards(goal: Passed, earlier: Passed) -> int | None:
    """The watermark that follows some, so that in the end the last are those of `goal`; both with the newest first.

    >>> next_towards((9, 7, 7), (7, 4)), next_towards((9, 7, 7), (7, 7)), next_towards((9, 7, 7), (5, 4))
    (7, 9, 7)
    """
    wanted = goal[::-1]
    done = max(known for known in range(len(goal)) if earlier[:known] == wanted[:known][::-1])
    return wanted[done]
