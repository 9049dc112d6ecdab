"""How far sources have come in time, and what is too late for operators that remember for a limited time.

Each partition has a clock of its own: the newest time in it, before the batch at hand. A row is late if it lies further
behind the clock of its own partition than the stream's lateness allows. So a partition that is read ahead of others
makes nothing late in them. What may be forgotten is decided by the slowest of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.declare.nodes import Node, Source, SourceStream, sources_of

NEVER_US = -(2**62)


@dataclass(frozen=True)
class Times:
    """Topic → partition → newest event time in microseconds. `sources` are numbered as in `_at`."""

    newest_us: Mapping[str, Mapping[int, int]]
    sources: tuple[Source, ...] = ()

    def is_late(self, node: Node) -> Column:
        """Of a row with `_at`: is it too late for an operator behind this node?"""
        position = f.col("_at")
        threshold = f.lit(NEVER_US).cast("long")
        for source in self._streams(node):
            for partition, newest in self.newest_us.get(source.topic, {}).items():
                own = (position["source"] == self.sources.index(source)) & (position["partition"] == partition)
                threshold = f.when(own, f.lit(newest - source.lateness_us).cast("long")).otherwise(threshold)
        return f.unix_micros(position["time"]) < threshold

    def expired_us(self, node: Node, within_us: int) -> int | None:
        """Nothing that is not late can lie within the time of what happened before this."""
        slowest = [
            newest - source.lateness_us
            for source in self._streams(node)
            for newest in self.newest_us.get(source.topic, {}).values()
        ]
        return min(slowest) - within_us if slowest else None

    def _streams(self, node: Node) -> list[SourceStream]:
        return [source for source in sources_of(node) if isinstance(source, SourceStream) and source in self.sources]

    def reason(self, source: int, partition: int, time_us: int) -> str:
        """Why a row is late, for a person."""
        stream = self.sources[source]
        assert isinstance(stream, SourceStream)
        behind = self.newest_us[stream.topic][partition] - time_us
        return (
            f"{stream.time or 'its time'} lies {behind / 1e6:,.3f} s behind {stream.topic}/{partition}; "
            f"lateness is {stream.lateness_us / 1e6:,.0f} s"
        )
