"""Operators that are given their rows by the tasks that read them.

Where no step of Spark's stands between a source and a join, there is nothing for Spark to do but to hand rows on, one
by one: from Arrow to its rows, to Arrow for Python, and again behind the shuffle. So tasks of our own read the log,
and what they give to Spark are pieces (packing.py) for each shard.

State, results and accounts are the same either way: a job goes on when a step is put before its join.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.flow.declare.graph import Job
from headwater.flow.declare.nodes import (
    AsOfJoin,
    IntervalJoin,
    Join,
    Node,
    SourceStream,
    SourceTable,
    SourceVersions,
    TableJoin,
    sources_of,
    walk,
)
from headwater.flow.job.arrow_types import spark_schema
from headwater.flow.job.at_home import by_home
from headwater.flow.job.direct_tables import ReadTable
from headwater.flow.job.joining import TableJoinOperator
from headwater.flow.job.lanes import EventLane, Lane, TableLane
from headwater.flow.job.packing import PIECES, dealt, in_shards
from headwater.flow.job.roots import readers_of
from headwater.flow.job.sources import source_options
from headwater.flow.job.stream_joining import StreamJoinOperator, StreamJoinTask
from headwater.flow.job.tombstones import can_be_read
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.source.options import SourceOptions, parse_options
from headwater.flow.source.ranges import read_ranges
from headwater.flow.source.splitting import Range, tasks_for
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import shard_of

Operators = Mapping[Node, object]


@dataclass(frozen=True)
class ReadingTask:
    """Reads ranges of the log and deals out their rows; the numbers of `tasks` come to it as rows."""

    options: SourceOptions
    tasks: Sequence[Sequence[Range]]
    lanes: Mapping[int, Lane]
    """By the number of their stream."""
    shards: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._task(number)

    def _task(self, number: int) -> Iterator[pa.RecordBatch]:
        for count, (lane, rows) in enumerate(self.rows(number)):
            yield dealt(rows, self.shards, (number << 32) + count, lane.which)

    def rows(self, number: int) -> Iterator[tuple[Lane, pa.RecordBatch]]:
        """What a task reads, as it is given on."""
        for stream, columns in read_ranges(self.options, self.tasks[number]):
            lane = self.lanes.get(stream)
            if lane is not None and len(columns["_offset"]):
                yield lane, lane.rows(columns)


@dataclass(frozen=True)
class HomeTask:
    """Reads the partitions of a shard, and joins them: nothing leaves it but results."""

    reading: ReadingTask
    join: StreamJoinTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                yield from self._shard(shard)

    def _shard(self, shard: int) -> Iterator[pa.RecordBatch]:
        parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        for lane, rows in self.reading.rows(shard):
            if astray := self._astray(shard, lane, rows):
                yield self.join.gives_up(shard, astray)
                return
            parts[lane.which].append(rows)
        left, right = (pa.concat_batches(part) if part else None for part in parts)
        yield from self.join.at_home(shard, (left, right))

    def _astray(self, shard: int, lane: Lane, rows: pa.RecordBatch) -> int:
        """How many rows are of other shards; where those are that can meet none does not matter."""
        assert isinstance(lane, EventLane)
        elsewhere = shard_of(rows.column(HASH).to_numpy(), self.reading.shards) != shard
        return int(np.count_nonzero(elsewhere & without_nulls(rows.select(list(lane.on))))) if elsewhere.any() else 0


@dataclass(frozen=True)
class Reading:
    """How a batch of a job is read by tasks of our own."""

    job: Job
    joins: Sequence[Node]
    where: Mapping[str, str]
    stage: str
    ranges: Sequence[Range]
    partitions: Mapping[str, int]
    shards: int

    def pieces(self, session: SparkSession, node: Join, lanes: Mapping[int, Lane]) -> DataFrame:
        """Rows of both sides of a join, in the partition of their shard."""
        options = self._options()
        tasks = tasks_for(self._own(node), cores=options.tasks)
        task = ReadingTask(options, tasks, lanes, self.shards)
        return in_shards(numbers(session, len(tasks)).mapInArrow(task, spark_schema(PIECES)), self.shards)

    def home_task(self, node: Join, lanes: Mapping[int, Lane], join: StreamJoinTask) -> HomeTask | None:
        """A task that needs nothing but the partitions of its shard, as many as shards; None if there is none."""
        counts = {source.topic: self.partitions.get(source.topic, 0) for source in sources_of(node)}
        tasks = by_home(self._own(node), counts, self.shards)
        return None if tasks is None else HomeTask(ReadingTask(self._options(), tasks, lanes, self.shards), join)

    def _options(self) -> SourceOptions:
        return parse_options({**source_options(self.job, self.where), "poisoned": "stage", "stage": self.stage})

    def _own(self, node: Node) -> list[Range]:
        others = self._of_others(node)
        return [one for one in self.ranges if one.topic not in others]

    def _of_others(self, node: Node) -> set[str]:
        """Topics that another join reads. What none reads, the first does: how far time has come there is asked too."""
        used = {one: {source.topic for source in sources_of(one)} for one in self.joins}
        spare = {source.topic for source in self.job.sources}.difference(*used.values())
        return {
            topic for one in self.joins if one is not node for topic in used[one]
        } | (spare if node is not self.joins[0] else set())  # fmt: skip


def numbers(session: SparkSession, count: int) -> DataFrame:
    """Of tasks, one each."""
    return session.range(0, count, 1, max(1, count))


def event_lanes(job: Job, node: Join, operator: StreamJoinOperator) -> dict[int, Lane]:
    """By the number of the source in the job."""
    lanes: dict[int, Lane] = {}
    for which, (source, events) in enumerate(zip(node.inputs, operator.sides, strict=True)):
        assert isinstance(source, SourceStream)
        number = job.sources.index(source)
        lane = EventLane(which, number, events.on, events.incoming, source.time)
        if isinstance(source, SourceVersions):
            lane = replace(
                lane, key=source.key, valid_from=source.valid_from, valid_to=source.valid_to,
                version_id=source.version_id, topic=source.topic,
            )  # fmt: skip
        lanes[number] = lane
    return lanes


def table_lanes(job: Job, node: Join, tables: Sequence[ReadTable]) -> dict[int, Lane]:
    lanes: dict[int, Lane] = {}
    for which, (source, table) in enumerate(zip(node.inputs, tables, strict=True)):
        assert isinstance(source, SourceTable)
        number = job.sources.index(source)
        lanes[number] = TableLane(which, source.key, table.given, source.version_id, source.topic)
    return lanes


def direct_joins(job: Job, operators: Operators) -> frozenset[Node]:
    """The joins of a job that can be given their rows by tasks that read them: all that read its sources, or none, for
    what Spark reads is all of them together."""
    nodes = {node for planned in job.outputs for node in walk(planned.node)}
    joins = {node for node in nodes if _can_read(node, operators)}
    readers = {root.node: root.stateful for planned in job.outputs for root in readers_of(planned)}
    uses = Counter(source for node in nodes for source in node.inputs)
    uses.update(planned.node for planned in job.outputs)
    own = [source for node in joins for source in node.inputs]
    topics = Counter(source.topic for node in joins for source in {*sources_of(node)})
    alone = all(uses[source] == 1 for source in own) and (len(joins) == 1 or max(topics.values(), default=1) == 1)
    covered = all(stateful and (node in joins or node in own) for node, stateful in readers.items())
    return frozenset(joins) if alone and covered else frozenset()


def _can_read(node: Node, operators: Operators) -> bool:
    operator = operators.get(node)
    if isinstance(node, IntervalJoin | AsOfJoin) and isinstance(operator, StreamJoinOperator):
        sources = [one for one in node.inputs if isinstance(one, SourceStream)]
        sides = [events.on for events in operator.sides]
        return len({*sources}) == 2 and all(map(_plain, sources, sides))
    if isinstance(node, TableJoin) and isinstance(operator, TableJoinOperator):
        tables = [one for one in node.inputs if isinstance(one, SourceTable)]
        sides = [operator.work.left.on, operator.work.right.on]
        # Results are put together by their key, and what tells rows apart is hashed.
        return len({*tables}) == 2 and all(map(_plain, tables, sides)) and can_hash_all(operator)
    return False


def can_hash_all(operator: TableJoinOperator) -> bool:
    return all(can_hash(operator.work.pairing.columns.field(name).type) for name in operator.key)


def _plain(source: SourceStream | SourceTable, on: tuple[str, ...]) -> bool:
    """Are the columns that matter of types that need no Spark?"""
    kinds = {field.name: field.type for field in source.schema.fields}
    times = [source.time] if isinstance(source, SourceStream) else []
    if isinstance(source, SourceVersions):
        times += [source.valid_from, source.valid_to]
    if isinstance(source, SourceVersions | SourceTable) and not all(can_be_read(kinds[name]) for name in source.key):
        return False
    told = [kinds[name] for name in times if name is not None]
    return all(kind == pa.timestamp("us", "UTC") for kind in told) and all(
        name in kinds and can_hash(kinds[name]) for name in on
    )
