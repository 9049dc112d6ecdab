"""The operators of a job: what each is in a batch, the tasks that run a level of them, the commit of their state."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import FlowError
from headwater.flow.declare.topology.nodes import Compared, Dedupe, Join, Node, Recognized, multiplies
from headwater.flow.declare.topology.stored_queries import PERCOLATES
from headwater.flow.exchange.blocks import Address
from headwater.flow.operate.deduplicator import Deduplicator
from headwater.flow.operate.grouping.group_operator import GroupOperator, GroupWork
from headwater.flow.operate.join_operators import JoinOperator, StreamJoinOperator, TableJoinOperator
from headwater.flow.operate.join_works import Named, StreamJoinWork, TableJoinWork
from headwater.flow.operate.level import Emit, Level
from headwater.flow.operate.level_blocks import LevelBlocks, LevelInputs
from headwater.flow.operate.patterns.pattern_operator import PatternOperator, PatternWork
from headwater.flow.operate.reports import NO_SHARD, Operator, ShardReport, store_name
from headwater.flow.operate.shard_task import ShardWork
from headwater.flow.operate.tables.table_inputs import sides_frame
from headwater.flow.operate.tables.table_operator import KeptTable, KeptTableWork
from headwater.flow.operate.window_comparison import CompareOperator
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operate.works import DedupeWork, KeyedWork, StateWork, WindowWork
from headwater.flow.operators.changes import BEFORE
from headwater.flow.operators.joins import splitting
from headwater.flow.operators.joins.emission import PATH
from headwater.flow.operators.joins.splitting import may_split
from headwater.flow.plan.batch_context import BatchContext
from headwater.flow.plan.delays import Passed, arriving, reached_us
from headwater.flow.plan.watermarks import FOREVER_US
from headwater.flow.prepare.inputs import AnyPrepare, KeyedOperator, input_of, window_rows_of
from headwater.flow.prepare.join_inputs import side_frame, side_preparations
from headwater.flow.prepare.late_bounds import MarkLate
from headwater.flow.prepare.pattern_inputs import pattern_preparation
from headwater.flow.rows.row_batch import POSITION
from headwater.flow.state.job_state import JobState
from headwater.flow.state.manifest import RunInfo
from headwater.flow.state.store import StateStore

AnyOperator = KeyedOperator | JoinOperator | GroupOperator | KeptTable[Any] | PatternOperator
SeveralStores = JoinOperator | GroupOperator | KeptTable[Any] | PatternOperator


@dataclass(frozen=True)
class OperatorInput:
    """How the rows of one input are prepared for an operator, and its frame if Spark evaluates it."""

    prepare: AnyPrepare
    frame: DataFrame | None = None


@dataclass(frozen=True)
class Operators:
    """The operators of a job as they were declared, the names that the plan gives them, and their state. What differs
    from batch to batch is in the batch's context."""

    declared: Mapping[Node, AnyOperator]
    names: Mapping[Node, str]
    state: JobState

    @property
    def _shards(self) -> int:
        return self.state.shards

    def at(self, node: Node, context: BatchContext) -> AnyOperator:
        """An operator in a batch: with its watermarks, and with the keys that are split."""
        declared, times = self.declared[node], context.times
        if isinstance(declared, WindowOperator | StreamJoinOperator | PatternOperator):
            return declared.at(*times.reached(node))
        if isinstance(declared, CompareOperator):
            assert isinstance(node, Compared)
            return declared.at(times.reached(node.windowed)[1])
        if isinstance(declared, TableJoinOperator):
            hot = [one for one in context.hot.get(declared.name, ()) if may_split(declared.work, one.side)]
            return replace(declared, hot=tuple(hot) if self._shards > 1 else (), hot_rows=splitting.HOT_ROWS)
        return declared

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def level(
        self, session: SparkSession, context: BatchContext, inputs: LevelInputs, *, framed: Collection[Node],
        emit: Emit | None = None,
    ) -> Level:  # fmt: skip
        """The exchange of some operators. The results of `framed` are used by steps of Spark's, or by other operators;
        those of others go to the driver alone, which does not look at values before a change."""
        works: dict[Node, ShardWork] = {}
        blocks = LevelBlocks(session, inputs, inputs.exchange)
        for node in inputs.nodes:
            operator = self.at(node, context)
            given = self._inputs(node, operator, context, inputs)
            for number, one in enumerate(given):
                blocks.add((node, number), self.names[node], one.prepare, Address(len(works), number), one.frame)
            schemas = [one.prepare.schema for one in given]
            works[node] = self._work(node, operator, schemas, context, inputs, paired=node not in framed)
        names = frozenset(self.names[node] for node in inputs.nodes)
        unshuffled = blocks.co_partitioned(min(names)) if names <= context.co_partitioned else None
        wanted = {node: work.results if node in framed else _for_driver(work) for node, work in works.items()}
        run = blocks.in_driver() or unshuffled or blocks.gathered() or blocks.shuffled
        level = Level.of(session, works, run, wanted=wanted, exchange=inputs.exchange, kept=bool(framed), emit=emit)
        return replace(level, co_partitioned=names) if run is unshuffled else level

    def _inputs(
        self, node: Node, operator: AnyOperator, context: BatchContext, inputs: LevelInputs
    ) -> list[OperatorInput]:
        if isinstance(node, Join):
            assert isinstance(operator, StreamJoinOperator | TableJoinOperator)
            frames = [inputs.frames.get((node, number)) for number in range(2)]
            chosen = [None if one is None else side_frame(node, number, one) for number, one in enumerate(frames)]
            prepares = side_preparations(node, operator, shards=self._shards)
            return [OperatorInput(prepare, frame) for prepare, frame in zip(prepares, chosen, strict=True)]
        if isinstance(operator, KeptTable):
            frames = [inputs.frames.get((node, number)) for number in range(len(operator.prepares))]
            chosen = [None if one is None else sides_frame(one) for one in frames]
            return [OperatorInput(prepare, frame) for prepare, frame in zip(operator.prepares, chosen, strict=True)]
        if (node, 0) not in inputs.frames:
            return [OperatorInput(self._prepare(node, operator, inputs.steps[node, 0].prepare, context, inputs))]
        given = input_of(node, inputs.frames[node, 0], self.names[node])
        return [OperatorInput(self._prepare(node, operator, given.prepare, context, inputs), given.frame)]

    def _prepare(
        self, node: Node, operator: AnyOperator, prepare: AnyPrepare, context: BatchContext, inputs: LevelInputs
    ) -> AnyPrepare:
        times = context.times
        if isinstance(prepare, MarkLate):
            return replace(prepare, bounds=times.late_bounds(node))
        if isinstance(operator, PatternOperator):
            assert isinstance(node, Recognized)
            return pattern_preparation(node, operator)
        if not isinstance(operator, WindowOperator):
            return prepare
        if node in inputs.absorbed:  # late rows that are replayed: their time has passed, and they are counted as late
            return window_rows_of(operator.at(None, None), times.processed_us, counted=False)
        return window_rows_of(operator, times.processed_us)

    def _work(
        self, node: Node, operator: AnyOperator, schemas: list[pa.Schema], context: BatchContext, inputs: LevelInputs,
        *, paired: bool,
    ) -> ShardWork:  # fmt: skip
        """The work of an operator on blocks of some schemas. `paired`: both sides of a change are put together."""
        if isinstance(operator, StreamJoinOperator | TableJoinOperator):
            return self._join_work(node, operator, schemas, context, inputs, paired=paired)
        if isinstance(operator, KeptTable):
            return KeptTableWork(operator, self._handles(operator, context), paired)
        if isinstance(operator, PatternOperator):
            topics = tuple(source.topic for source in context.times.sources)
            return PatternWork(
                operator, self._handles(operator, context), schemas[0], topics, multiplies(node.inputs[0])
            )  # fmt: skip
        if isinstance(operator, GroupOperator):
            return GroupWork(operator, self._handles(operator, context), schemas[0])
        work = self._keyed_work(node, operator, schemas[0], context, absorbed=node in inputs.absorbed)
        # Blocks carry no schema of their own: read with another than they were written with, they are garbage.
        if not work.inputs[0].equals(schemas[0]):
            raise FlowError(
                f"operator {operator.name} would read {work.inputs[0]} where {schemas[0]} is written",
                "This is a bug in headwater; nothing of the batch was written. Please report it with this sentence.",
            )
        return work

    def _join_work(
        self, node: Node, operator: JoinOperator, schemas: list[pa.Schema], context: BatchContext, inputs: LevelInputs,
        *, paired: bool,
    ) -> ShardWork:  # fmt: skip
        handles = self._handles(operator, context)
        if isinstance(operator, TableJoinOperator):  # copies of rows that are split look like the rows themselves
            return TableJoinWork(operator, handles, [*schemas, *schemas], self._shards, paired=paired)
        topics = tuple(source.topic for source in context.times.sources)
        named = Named(topics, (multiplies(node.inputs[0]), multiplies(node.inputs[1])))
        logged = all(inputs.is_logged(node, number) for number in range(2))
        copied = schemas if isinstance(node, PERCOLATES) else []
        return StreamJoinWork(
            operator,
            handles,
            [*schemas, *copied],
            named,
            self._shards,
            counts_misplaced=logged and operator.by_partition,
        )

    def _handles(self, operator: SeveralStores, context: BatchContext) -> dict[str, str]:
        base = context.batch - 1
        return {part: self.state.handle(store_name(operator.name, part), base) for part in self.stores(operator)}

    def _keyed_work(
        self, node: Node, operator: KeyedOperator, schema: pa.Schema, context: BatchContext, *, absorbed: bool
    ) -> ShardWork:
        self.store(operator)
        handle = self.state.handle(operator.name, context.batch - 1)
        if isinstance(operator, WindowOperator):
            return WindowWork(operator.at(None, None) if absorbed else operator, handle)
        if isinstance(operator, Operator):
            return KeyedWork(operator, handle, schema)
        if isinstance(operator, Deduplicator):
            assert isinstance(node, Dedupe)
            return DedupeWork(operator, handle, context.batch, context.times.expired_us(node, node.within_us))
        return StateWork(operator, handle, schema)

    # -- state ---------------------------------------------------------------------------------------------------------

    def store(self, operator: KeyedOperator) -> StateStore:
        return self.state.store(operator.name, operator.state, operator.fingerprint)

    def stores(self, operator: SeveralStores) -> dict[str, StateStore]:
        """One for each part of its state."""
        return {
            part: self.state.store(store_name(operator.name, part), schema, operator.fingerprint)
            for part, schema in operator.parts.items()
        }

    def commit(self, context: BatchContext, reports: Sequence[ShardReport]) -> None:
        """Make what the tasks wrote the state after the batch, and drop what no later batch needs."""
        runs = runs_by_store(reports)
        drop_below: dict[str, int | None] = {}
        for operator in (self.at(node, context) for node in self.declared):
            if isinstance(operator, WindowOperator | StreamJoinOperator | PatternOperator):
                parts = ("",) if isinstance(operator, WindowOperator) else operator.parts
                for shards in filter(None, (runs.get(store_name(operator.name, part)) for part in parts)):
                    operator.check_visited(shards.keys(), self._shards)
            drop_below |= _drop_below(operator)
        self.state.commit(context.batch, runs, drop_below)

    def pending(self, version: int, passed: Passed, then: Passed) -> bool:
        """Would batches without rows change or emit anything after a version, as the job's watermarks advance?"""
        for node, operator in self.declared.items():
            bounds = arriving(node)
            moved = reached_us(bounds, passed), reached_us(bounds, then)
            waits = False
            if isinstance(operator, StreamJoinOperator | PatternOperator):
                handles = {part: store.begin(version) for part, store in self.stores(operator).items()}
                waits = operator.at(*moved).pending(handles)
            elif isinstance(operator, WindowOperator) and not operator.processing:
                waits = operator.at(*moved).pending(self.store(operator).begin(version))
            if waits:
                return True
        return False

    def wakes_us(self, version: int, processed_us: int) -> int | None:
        """When windows by processing time next have something to emit after a version; None: never."""
        waiting = [
            operator.work.window.next_end_us(processed_us)
            for operator in self.declared.values()
            if isinstance(operator, WindowOperator)
            and operator.processing
            and operator.at(processed_us, FOREVER_US).pending(self.store(operator).begin(version))
        ]
        return min((one for one in waiting if one is not None), default=None)


def runs_by_store(reports: Sequence[ShardReport]) -> dict[str, dict[int, tuple[RunInfo, ...]]]:
    """FlowError if two tasks have worked on the same shard."""
    runs: dict[str, dict[int, tuple[RunInfo, ...]]] = {}
    for one in (one for one in reports if one.shard != NO_SHARD):
        own = runs.setdefault(one.store, {})
        if one.shard in own:
            raise FlowError(
                f"two tasks have worked on shard {one.shard} of {one.operator}: its rows were torn apart",
                "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
            )
        own[one.shard] = one.runs
    return runs


def _drop_below(operator: AnyOperator) -> Mapping[str, int | None]:
    """By store, before which time its state is not needed any more."""
    match operator:
        case WindowOperator():
            return {operator.name: operator.work.drop_below(operator.clock)}
        case CompareOperator():
            return {operator.name: operator.drop_below}
        case StreamJoinOperator() | PatternOperator():
            below = operator.work.drop_below(operator.clock).items()
            return {store_name(operator.name, part): until for part, until in below}
    return {}


def _for_driver(work: ShardWork) -> pa.Schema:
    """What of a work's results the driver wants, where nothing else does."""
    dropped = {BEFORE, PATH}
    if isinstance(work, StreamJoinWork) and not work.operator.may_miss:
        dropped |= {*POSITION}
    return pa.schema([one for one in work.results if one.name not in dropped])
