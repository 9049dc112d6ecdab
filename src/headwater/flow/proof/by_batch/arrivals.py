"""In which batch each row was processed: the one thing that a log does not say, and that some results depend on.

A batch took a range of offsets of each partition, which the accounts of the job keep. So the batch of a row follows
from where it lies; this is looked up in the ends of the batches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from headwater.errors import FlowError
from headwater.flow.declare.topology.graph import Planned
from headwater.flow.declare.topology.nodes import (
    AsOfJoin,
    Changes,
    IntervalJoin,
    LatestJoin,
    Node,
    Source,
)
from headwater.flow.kafka.client import Client
from headwater.flow.operators.windows.clock import NEVER_US
from headwater.flow.plan.delays import arriving, reached_us
from headwater.flow.plan.planned_batches import partition_offsets
from headwater.flow.plan.processing_time import RecordedBatch
from headwater.flow.rows.event_positions import with_time
from headwater.flow.rows.row_batch import AT
from headwater.log.batch_table import RECORD_COUNT, find_batches

BATCH = "_batch"
FETCH_BYTES = 8 * 1024**2
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arrivals:
    """The batches that made an output, in their order, from the beginning of the log. Their numbers are their places in
    it: an output that was rebuilt was made by the batches of the rebuild, and then by those of the job."""

    sources: Sequence[Source]
    """As `_at` numbers them."""
    batches: Sequence[RecordedBatch]

    @property
    def processed_us(self) -> int | None:
        """When the last batch was processed."""
        return self.batches[-1].at_us

    @cached_property
    def _ends(self) -> Mapping[tuple[int, int], Numbers]:
        places = {
            (number, partition)
            for number, source in enumerate(self.sources)
            for partition in self.batches[-1].end.get(source.topic, {})
        }
        return {
            (number, partition): np.array(
                [one.end.get(self.sources[number].topic, {}).get(partition, 0) for one in self.batches], np.int64
            )
            for number, partition in places
        }

    def placed(self, node: Node, rows: DataFrame) -> DataFrame:
        """Rows of a stream, with the batch in which it gave them on. FlowError if that does not follow from where they
        lie."""
        if BATCH in rows.columns:
            return rows
        if holding := [one for one in _way(node) if _holds_back(one)]:
            kind = type(holding[0]).__name__.lower()
            raise FlowError(
                f"in which batch the {kind} at {holding[0].place} gave on a row is not known, and what follows it "
                "depends on that",
                "Verify the table it is made from, or a view of that join.",
            )
        return rows.withColumn(BATCH, _looked_up(self._ends))

    def watermarks(self, node: Node) -> Numbers:
        """Of what is given to an operator, by batch."""
        watermarks = [one.watermark_us for one in self.batches]
        behind = max(one.batches for one in arriving(node))
        passed = [tuple(watermarks[max(0, at - behind) : at + 1][::-1]) for at in range(len(watermarks))]
        found = [reached_us(arriving(node), each) for each in passed]
        return np.array([NEVER_US if one is None else one for one in found], np.int64)

    def as_processed(self, rows: DataFrame) -> DataFrame:
        """Rows as if each had happened when it was processed."""
        moments = np.array([one.at_us or 0 for one in self.batches], np.int64)
        processed = f.timestamp_micros(_looked_up(self._ends, moments))
        return with_time(rows, processed).select(*rows.columns)


def refuse_compacted(client: Client, planned: Planned, position: Mapping[str, Mapping[int, int]]) -> None:
    """FlowError if compaction has removed records that batches had. Every batch of records keeps the offsets it began
    with."""
    for place, end in partition_offsets(position).items():
        at = 0
        while at < end:
            table = find_batches(client.fetch(place, at, bytes_max=FETCH_BYTES).records)
            if not len(table.rows):
                break
            if table.next_offset <= end and int(table.column(RECORD_COUNT).sum()) < table.next_offset - at:
                raise FlowError(
                    f"view {planned.name} cannot be proved: compaction has removed records of "
                    f"{place.topic}/{place.partition} that were there when their batches ran, and it depends on them",
                    "Verify the table itself; or keep all of its records (cleanup.policy=delete).",
                )
            at = table.next_offset


def _way(node: Node) -> list[Node]:
    """The steps on the way of a stream's rows: not those that a table which they meet is made by."""
    return [node, *(step for one in node.inputs if not one.keyed for step in _way(one))]


def _holds_back(node: Node) -> bool:
    return isinstance(node, IntervalJoin | AsOfJoin | Changes) or (isinstance(node, LatestJoin) and node.wait_us > 0)


def _looked_up(ends: Mapping[tuple[int, int], Numbers], values: Numbers | None = None) -> Column:
    """The number of the batch that took each row, or of that batch a value; null: none has."""

    def look_up(source: pa.Array, partition: pa.Array, offset: pa.Array) -> pa.Array:
        sources, partitions, offsets = (one.to_numpy(zero_copy_only=False) for one in (source, partition, offset))
        found = np.full(len(offsets), -1, np.int64)
        for (number, own), until in ends.items():
            rows = (sources == number) & (partitions == own)
            at = np.searchsorted(until, offsets[rows], side="right")
            found[rows] = np.where(at < len(until), at, -1)
        none = found < 0
        return pa.array(found if values is None else values[found], mask=none)

    return _arrow(look_up, *(f.col(AT)[name] for name in ("source", "partition", "offset")))


def first_after(watermarks: Numbers, time_us: Column) -> Column:
    """The first batch whose watermark is later than a time; null: none was yet."""

    def look_up(times: pa.Array) -> pa.Array:
        at = np.searchsorted(watermarks, times.fill_null(0).to_numpy(zero_copy_only=False), side="right")
        return pa.array(at, mask=at >= len(watermarks))

    return _arrow(look_up, time_us)


def _arrow(function: Callable[..., pa.Array], *columns: Column) -> Column:
    """Numbers that a function finds for Arrow's columns of a batch."""
    found: Column = arrow_udf(function, "bigint")(*columns)  # type: ignore[call-overload]
    return found
