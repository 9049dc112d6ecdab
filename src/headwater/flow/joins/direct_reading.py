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
    Select,
    Source,
    SourceStream,
    SourceTable,
    SourceVersions,
    TableJoin,
    Where,
    WithColumns,
    generates,
    sources_of,
    walk,
)
from headwater.flow.exchange.blocks import BLOCKS, Address, in_shards, partitioned, report_block
from headwater.flow.expressions.steps import Steps
from headwater.flow.joins.co_partitioning import by_home
from headwater.flow.joins.direct_tables import ReadTable
from headwater.flow.joins.row_builders import EventRowBuilder, RowBuilder, StepCounts, TableRowBuilder
from headwater.flow.joins.stream_join_task import StreamJoinOperator, StreamJoinTask
from headwater.flow.joins.table_join_task import TableJoinOperator
from headwater.flow.operate.reports import NO_SHARD, ShardReport
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.plan.roots import readers_of
from headwater.flow.prepare.hashed_rows import HashByKey
from headwater.flow.prepare.inputs import AnyPrepare
from headwater.flow.prepare.reduced_rows import ReduceByWindow
from headwater.flow.rows.arrow_types import spark_schema
from headwater.flow.rows.deletion_keys import can_be_read as can_be_key
from headwater.flow.rows.log_rows import LogInput, ReadTask, SourceRows
from headwater.flow.rows.sources import source_options
from headwater.flow.source.options import SourceOptions, parse_options
from headwater.flow.source.ranges import read_ranges
from headwater.flow.source.splitting import Range, tasks_for
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import shard_of

Operators = Mapping[Node, object]


@dataclass(frozen=True)
class ReadSteps:
    """The steps between a source and a join as tasks that read do them, and the columns of what they read."""

    read: pa.Schema
    steps: Steps


Translated = Mapping[Node, ReadSteps]
"""By the node that is given to a join."""


@dataclass(frozen=True)
class ReadingTask:
    """Reads ranges of the log and deals out their rows; the numbers of `tasks` come to it as rows."""

    options: SourceOptions
    tasks: Sequence[Sequence[Range]]
    lanes: Mapping[int, RowBuilder]
    """By the number of their stream."""
    shards: int
    operator: str
    """The join that it reads for."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._task(number)

    def _task(self, number: int) -> Iterator[pa.RecordBatch]:
        counts, count = StepCounts(), 0
        for count, (lane, rows) in enumerate(self.rows(number, counts), 1):
            yield partitioned(rows, self.shards, (number << 32) + count, Address(input=lane.which))
        if counts.filtered:
            yield report_block(self.report(counts), number % self.shards, (number << 32) + count + 1)

    def report(self, counts: StepCounts) -> ShardReport:
        return ShardReport(self.operator, NO_SHARD, 0, (), filtered=counts.filtered)

    def rows(self, number: int, counts: StepCounts) -> Iterator[tuple[RowBuilder, pa.RecordBatch]]:
        """What a task reads, as it is given on; `counts` is added to."""
        for stream, columns in read_ranges(self.options, self.tasks[number]):
            lane = self.lanes.get(stream)
            if lane is not None and len(columns["_offset"]):
                rows = lane.rows(columns, counts)
                if rows.num_rows:
                    yield lane, rows


@dataclass(frozen=True)
class CoPartitionedTask:
    """Reads the partitions of a shard, and joins them: nothing leaves it but results."""

    reading: ReadingTask
    join: StreamJoinTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                yield from self._shard(shard)

    def _shard(self, shard: int) -> Iterator[pa.RecordBatch]:
        parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        counts = StepCounts()
        for lane, rows in self.reading.rows(shard, counts):
            if astray := self._astray(shard, lane, rows):
                yield self.join.gives_up(shard, astray)
                return
            parts[lane.which].append(rows)
        left, right = (pa.concat_batches(part) if part else None for part in parts)
        yield from self.join.at_home(shard, (left, right))
        if counts.filtered:
            yield self.join.handed_on([self.reading.report(counts).to_json()])

    def _astray(self, shard: int, lane: RowBuilder, rows: pa.RecordBatch) -> int:
        """How many rows are of other shards; where those are that can meet none does not matter."""
        assert isinstance(lane, EventRowBuilder)
        elsewhere = shard_of(rows.column(HASH).to_numpy(), self.reading.shards) != shard
        return int(np.count_nonzero(elsewhere & without_nulls(rows.select(list(lane.on))))) if elsewhere.any() else 0


@dataclass(frozen=True)
class Reading:
    """How a batch of a job is read by tasks of our own."""

    job: Job
    joins: Sequence[Join]
    where: Mapping[str, str]
    stage: str
    ranges: Sequence[Range]
    partitions: Mapping[str, int]
    shards: int
    steps: Translated
    spare_is_read: bool = False
    """Topics that no join wants are read for other operators."""

    def task(self, inputs: Mapping[int, tuple[LogInput, ...]], schemas: Mapping[int, pa.Schema]) -> ReadTask:
        """Reads what no join reads, for operators with one input; `schemas` are those of the sources' rows."""
        joined = {source.topic for node in self.joins for source in sources_of(node)}
        own = [one for one in self.ranges if one.topic not in joined]
        options = self._options()
        sources = {number: source_rows(self.job.sources[number], number, schemas[number]) for number in inputs}
        return ReadTask(options, tasks_for(own, cores=options.tasks) or [[]], sources, inputs, self.shards)

    def pieces(self, session: SparkSession, node: Join, lanes: Mapping[int, RowBuilder]) -> DataFrame:
        """Rows of both sides of a join, in the partition of their shard."""
        options = self._options()
        tasks = tasks_for(self._own(node), cores=options.tasks) or [[]]
        task = ReadingTask(options, tasks, lanes, self.shards, self.job.operators[node])
        return in_shards(numbers(session, len(tasks)).mapInArrow(task, spark_schema(BLOCKS)), self.shards)

    def home_task(self, node: Join, lanes: Mapping[int, RowBuilder], join: StreamJoinTask) -> CoPartitionedTask | None:
        """A task that needs nothing but the partitions of its shard, as many as shards; None if there is none."""
        counts = {source.topic: self.partitions.get(source.topic, 0) for source in sources_of(node)}
        tasks = by_home(self._own(node), counts, self.shards)
        if tasks is None:
            return None
        return CoPartitionedTask(
            ReadingTask(self._options(), tasks, lanes, self.shards, self.job.operators[node]), join
        )

    def _options(self) -> SourceOptions:
        return parse_options({**source_options(self.job, self.where), "poisoned": "stage", "stage": self.stage})

    def _own(self, node: Node) -> list[Range]:
        others = self._of_others(node)
        return [one for one in self.ranges if one.topic not in others]

    def _of_others(self, node: Node) -> set[str]:
        """Topics that another join reads. What none reads, the first does: how far time has come there is asked too."""
        used = {one: {source.topic for source in sources_of(one)} for one in self.joins}
        spare = {source.topic for source in self.job.sources}.difference(*used.values())
        if self.spare_is_read:
            return {topic for one in self.joins if one is not node for topic in used[one]} | spare
        return {
            topic for one in self.joins if one is not node for topic in used[one]
        } | (spare if node is not self.joins[0] else set())  # fmt: skip


def numbers(session: SparkSession, count: int) -> DataFrame:
    """Of tasks, one each; there is at least one, without which Spark would run none for any shard."""
    return session.range(0, count, 1, count)


def event_builders(job: Job, node: Join, operator: StreamJoinOperator, steps: Translated) -> dict[int, RowBuilder]:
    """By the number of the source in the job."""
    lanes: dict[int, RowBuilder] = {}
    for which, (start, events) in enumerate(zip(node.inputs, operator.sides, strict=True)):
        source = source_below(start)
        assert source is not None
        number, own = job.sources.index(source), steps.get(start)
        lane = EventRowBuilder(which, number, events.on, events.incoming, source.time, topic=source.topic)
        if start is not source:
            assert own is not None
            lane = replace(lane, read=own.read, steps=own.steps)
        if isinstance(source, SourceVersions):
            lane = replace(
                lane, key=source.key, valid_from=source.valid_from, valid_to=source.valid_to,
                version_id=source.version_id,
            )  # fmt: skip
        lanes[number] = lane
    return lanes


def table_builders(job: Job, node: Join, tables: Sequence[ReadTable]) -> dict[int, RowBuilder]:
    lanes: dict[int, RowBuilder] = {}
    for which, (source, table) in enumerate(zip(node.inputs, tables, strict=True)):
        assert isinstance(source, SourceTable)
        number = job.sources.index(source)
        lanes[number] = TableRowBuilder(which, source.key, table.given, source.version_id, source.topic)
    return lanes


def source_below(node: Node) -> SourceStream | None:
    """The stream that a node is, or is but for steps that look at one row and make at most one of it."""
    while isinstance(node, Where | Select | WithColumns) and not generates(node):
        node = node.input
    return node if isinstance(node, SourceStream) else None


def source_rows(source: Source, number: int, schema: pa.Schema) -> SourceRows:
    """How rows of a schema are made of what is read of a source."""
    rows = SourceRows(number, source.topic, schema, source.time if isinstance(source, SourceStream) else None)
    if isinstance(source, SourceTable | SourceVersions):
        return replace(rows, key=source.key, version_id=source.version_id)
    return rows


def can_be_read(source: Source, prepare: AnyPrepare) -> bool:
    """Whether tasks that read a source can give its rows to an operator: its times and keys need no Spark."""
    if isinstance(prepare, HashByKey):  # of tables, or of rows whose position is among their columns
        return False
    key = prepare.by if isinstance(prepare, ReduceByWindow) else prepare.key
    return all(can_hash(field.type) for field in key) and _plain(source, ())


def direct_nodes(job: Job, operators: Operators, steps: Translated, inputs: Mapping[Node, object]) -> frozenset[Node]:
    """The operators of a job that can be given their rows by tasks that read them: all that read its sources, or none,
    for what Spark reads is all of them together. `inputs` are operators with one input whose steps are translated."""
    nodes = {node for planned in job.outputs for node in walk(planned.node)}
    joins = {node for node in nodes if _can_read(node, operators, steps)}
    readers = {root.node: root.stateful for planned in job.outputs for root in readers_of(planned)}
    uses = Counter(source for node in nodes for source in node.inputs)
    uses.update(planned.node for planned in job.outputs)
    own = [source for node in joins for start in node.inputs for source in walk(start)]
    topics = Counter(source.topic for node in joins for source in {*sources_of(node)})
    if any(uses[source] != 1 for source in own) or (len(joins) > 1 and max(topics.values(), default=1) > 1):
        joins, own = set(), []
    single = inputs.keys() & readers.keys() - {*own}
    covered = all(stateful and (node in joins or node in own or node in single) for node, stateful in readers.items())
    return frozenset(joins | single) if covered else frozenset()


def _can_read(node: Node, operators: Operators, steps: Translated) -> bool:
    operator = operators.get(node)
    if isinstance(node, IntervalJoin | AsOfJoin) and isinstance(operator, StreamJoinOperator):
        starts = [(one, source_below(one)) for one in node.inputs]
        sources = [source for start, source in starts if source is not None and (start is source or start in steps)]
        on = all(can_hash(events.incoming.field(name).type) for events in operator.sides for name in events.on)
        return len({*sources}) == 2 and on and all(_plain(source, ()) for source in sources)
    if isinstance(node, TableJoin) and isinstance(operator, TableJoinOperator):
        tables = [one for one in node.inputs if isinstance(one, SourceTable)]
        sides = [operator.work.left.on, operator.work.right.on]
        # Results are put together by their key, and what tells rows apart is hashed.
        return len({*tables}) == 2 and all(map(_plain, tables, sides)) and can_hash_all(operator)
    return False


def can_hash_all(operator: TableJoinOperator) -> bool:
    return all(can_hash(operator.work.pairing.columns.field(name).type) for name in operator.key)


def _plain(source: Source, on: tuple[str, ...]) -> bool:
    """Are the columns that matter of types that need no Spark?"""
    kinds = {field.name: field.type for field in source.schema.fields}
    times = [source.time] if isinstance(source, SourceStream) else []
    if isinstance(source, SourceVersions):
        times += [source.valid_from, source.valid_to]
    if isinstance(source, SourceVersions | SourceTable) and not all(can_be_key(kinds[name]) for name in source.key):
        return False
    told = [kinds[name] for name in times if name is not None]
    return all(kind == pa.timestamp("us", "UTC") for kind in told) and all(
        name in kinds and can_hash(kinds[name]) for name in on
    )
