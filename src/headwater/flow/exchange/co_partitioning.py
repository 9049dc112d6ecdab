"""Co-partitioned inputs: joins whose inputs lie in partitions as their state lies in shards are not shuffled.

Where producers partition records by the very text that a join is on, a partition holds rows of one shard only, and a
task that reads the partitions of a shard, of both topics, has all that the shard needs. No topic promises that, and no
producer has to keep to it. So it is counted in every batch: after one in which no row was misplaced, tasks read the
partitions of their shards; where they find a misplaced row, the batch is run again, with a shuffle. State and
results are the same either way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import FlowError
from headwater.flow.exchange.blocks import SHARD, Task, visit
from headwater.flow.operate.reports import ShardReport
from headwater.flow.operate.shard_task import RESULTS, ShardTask, result_row
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.log_rows import ReadTask
from headwater.flow.source.splitting import Range

UNEVEN = 1.5
"""A shard that has so many times its share of a batch is not read by a single task."""


class MisplacedRow(FlowError):
    """A row lies in a partition of another shard, whose task has not looked for it there."""


@dataclass(frozen=True)
class CoPartitionedTask:
    """Reads the partitions of a shard and runs its operators: nothing leaves it but results. Where a row belongs to
    another shard, it emits nothing but a report of that."""

    read: ReadTask
    operate: ShardTask
    operator: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                yield from self._shard(shard)

    def _shard(self, shard: int) -> Iterator[pa.RecordBatch]:
        blocks = [visit(shard), *self.read.blocks(shard)]
        elsewhere = sum(other != shard for block in blocks for other in block.column(SHARD).to_pylist())
        if elsewhere:
            yield result_row(0, ShardReport(self.operator, shard, 0, (), misplaced=elsewhere).to_json(), None)
        else:
            yield from self.operate(iter(blocks))


def co_partitioned(session: SparkSession, task: Task, shards: int) -> DataFrame:
    """The results of operators that need no exchange."""
    return session.range(0, shards, 1, shards).mapInArrow(task, spark_schema(RESULTS))


def check_co_partitioned(used: frozenset[str], reports: Iterable[ShardReport]) -> None:
    """MisplacedRow if a join was run as if its inputs were co-partitioned, and they were not."""
    for one in reports:
        if one.operator in used and one.misplaced:
            raise MisplacedRow(f"rows of {one.operator} lie in partitions of other shards")


def co_partitioned_after(known: frozenset[str], reports: Iterable[ShardReport]) -> frozenset[str]:
    """The joins that had no misplaced row in this batch. Those that had no rows stay what they were.

    >>> found = ("one", 0, 0), ("two", 0, 0), ("two", 1, 1)
    >>> reports = [ShardReport(name, shard, 5, (), misplaced=rows) for name, shard, rows in found]
    >>> sorted(co_partitioned_after(frozenset({"two", "three"}), reports))
    ['one', 'three']
    """
    several = list(reports)
    counted = {one.operator for one in several if one.misplaced is not None and one.rows}
    misplaced = {one.operator for one in several if one.misplaced}
    return (known | counted) - misplaced


def ranges_by_shard(ranges: Sequence[Range], partitions: Mapping[str, int], shards: int) -> list[list[Range]] | None:
    """What the task of each shard reads; None if partitions are not a multiple of shards, or rows lie unevenly.

    >>> ranges = [Range("a", 0, 0, 10), Range("a", 1, 0, 12), Range("b", 1, 5, 7)]
    >>> [[(one.topic, one.partition) for one in task] for task in ranges_by_shard(ranges, {"a": 4, "b": 2}, 2)]
    [[('a', 0)], [('a', 1), ('b', 1)]]
    >>> ranges_by_shard(ranges, {"a": 3, "b": 2}, 2)
    """
    if shards == 1 or any(count % shards for count in partitions.values()):
        return None
    tasks = [[one for one in ranges if one.partition % shards == shard] for shard in range(shards)]
    rows = [sum(one.rows for one in task) for task in tasks]
    return tasks if max(rows) * shards <= UNEVEN * sum(rows) else None
