"""The operators of a job and their state: what they are in a batch, which tasks work on them, what is committed."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain as chained
from itertools import groupby
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import FlowError
from headwater.flow.declare.chains import Chain
from headwater.flow.declare.nodes import (
    AsOfJoin,
    Dedupe,
    IntervalJoin,
    Join,
    LatestJoin,
    Node,
    TableJoin,
    Windowed,
    unchanged,
)
from headwater.flow.exchange.blocks import BLOCKS, RESULTS, Address, ResultTask, Task, in_shards
from headwater.flow.expressions.steps import Steps
from headwater.flow.joins.chain_inputs import lies_by_partition, rows_of_all, told_columns
from headwater.flow.joins.chain_tasks import StreamChainTask, chain_task
from headwater.flow.joins.direct_reading import Reading, event_builders, numbers, table_builders
from headwater.flow.joins.direct_tables import JoinedTablesTask, ReadTable, TablesTask
from headwater.flow.joins.join_blocks import given_schema, in_pieces
from headwater.flow.joins.join_inputs import (
    Counters,
    Prepared,
    PreparedTables,
    joined_as_of,
    joined_latest,
    joined_streams,
    joined_tables,
)
from headwater.flow.joins.join_results import results_of
from headwater.flow.joins.join_rows import flat
from headwater.flow.joins.stream_join_task import StreamJoinOperator, StreamJoinTask
from headwater.flow.joins.table_join_task import TableJoinOperator, TableJoinTask
from headwater.flow.late.late_rows import late_frame
from headwater.flow.operate.deduplicator import Deduplicator
from headwater.flow.operate.level import Emit, Level
from headwater.flow.operate.reports import NO_SHARD, Operator, ShardReport, store_name
from headwater.flow.operate.shard_operator import ShardOperator
from headwater.flow.operate.shard_task import ShardWork
from headwater.flow.operate.window_comparison import CompareOperator
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operate.works import DedupeWork, KeyedWork, StateWork, WindowWork
from headwater.flow.operators import latest
from headwater.flow.operators.changes import BEFORE
from headwater.flow.operators.joins import splitting, tables
from headwater.flow.operators.joins.hot_keys import Hot
from headwater.flow.plan.delays import Passed, arriving, reached_us
from headwater.flow.plan.lateness import Times
from headwater.flow.plan.processing_time import next_end_us
from headwater.flow.plan.watermarks import FOREVER_US
from headwater.flow.prepare.inputs import AnyPrepare, KeyedOperator, input_of, window_rows_of
from headwater.flow.prepare.late_bounds import MarkLate
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.rows.counters import Counter, Uncounted
from headwater.flow.rows.evaluation import paired
from headwater.flow.rows.log_rows import LogInput, ReadTask, log_blocks
from headwater.flow.rows.spark_rows import PrepareTask, spark_blocks
from headwater.flow.state.background import BackgroundMerger
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.store import StateStore

VERSIONS_KEPT = 10

JoinOperator = TableJoinOperator | StreamJoinOperator
AnyOperator = KeyedOperator | JoinOperator


@dataclass(frozen=True)
class LogSteps:
    """How an operator's input is made of a source, where tasks that read the log can do it: the number of the source,
    the columns of its rows, the steps, and how rows are prepared."""

    source: int
    read: pa.Schema
    steps: Steps
    prepare: AnyPrepare


@dataclass
class LevelInputs:
    """What the operators of a level are given: frames that Spark evaluates, or rows that tasks read."""

    frames: Mapping[Node, DataFrame]
    logged: Mapping[Node, LogSteps] = field(default_factory=dict)
    read: Callable[[Mapping[int, tuple[LogInput, ...]], Mapping[int, pa.Schema]], ReadTask] | None = None
    absorbed: Collection[Node] = ()
    """Operators whose frames are late rows that are replayed."""


class Operators:
    """The state of all operators of a job. `names` are those the plan gives them."""

    def __init__(self, folder: Path, names: Mapping[Node, str], *, shards: int) -> None:
        self._folder, self.names, self._shards = folder, names, shards
        self._stores: dict[str, StateStore] = {}
        self._mergers: dict[str, BackgroundMerger] = {}
        self.base = -1
        """The version that the batch being worked on starts from."""
        self.times = Times({})
        """How far the sources had come in time before it."""
        self.late: dict[Node, Callable[[], DataFrame]] = {}
        """Of joins: the rows that were late, should there be any."""
        self.hot: Hot = {}
        """Keys with so many rows that all tasks work on them."""
        self.quiet: frozenset[str] = frozenset()
        """Topics that it brings nothing of."""
        self.home: frozenset[str] = frozenset()
        """Joins all of whose rows lay in the partitions of their shards in the batch before."""
        self.straight: frozenset[Node] = frozenset()
        """Operators whose changes go to the driver as they are, and so packed."""
        self.packed: dict[Node, pa.Schema] = {}
        """What changes of the batch are packed, and in what form."""
        self.known: dict[str, AnyOperator] = {}
        """As they were declared, by name."""
        self.windows: dict[str, WindowOperator] = {}
        self.compared: dict[str, CompareOperator] = {}
        self.joins: dict[str, StreamJoinOperator] = {}

    @classmethod
    def describing(cls, names: Mapping[Node, str]) -> "Operators":
        """Only to ask what operators keep and tell; nothing is read or written."""
        return cls(Path(), names, shards=1)

    def know(self, operators: Iterable[AnyOperator]) -> None:
        """What time alone may have left to do is asked for also before the first batch."""
        known = list(operators)
        self.known |= {one.name: one for one in known}
        self.windows |= {one.name: one for one in known if isinstance(one, WindowOperator)}
        self.joins |= {one.name: one for one in known if isinstance(one, StreamJoinOperator)}

    def level(
        self, session: SparkSession, inputs: "LevelInputs", *, framed: Collection[Node], emit: Emit | None = None
    ) -> Level:
        """The exchange of some operators with one input. The results of `framed` are used by steps of Spark's, or by
        other operators; those of others go to the driver alone, which does not look at values before a change."""
        works: dict[Node, ShardWork] = {}
        blocks: list[DataFrame] = []
        logged: dict[int, tuple[LogInput, ...]] = {}
        for node, frame in inputs.frames.items():
            given = input_of(node, frame, self.names[node], self.times)
            task = PrepareTask(
                self.names[node],
                self._prepare(node, given.operator, given.prepare, inputs),
                Address(len(works)),
                self._shards,
            )
            works[node] = self._work(node, given.operator, given.prepare, inputs)
            blocks.append(spark_blocks(given.frame, task))
        for node, steps in inputs.logged.items():
            operator = self._current(node)
            prepare = self._prepare(node, operator, steps.prepare, inputs)
            logged[steps.source] = (
                *logged.get(steps.source, ()),
                LogInput(self.names[node], steps.steps, prepare, Address(len(works))),
            )
            works[node] = self._work(node, operator, prepare, inputs)
        if inputs.read is not None:
            blocks.append(
                log_blocks(session, inputs.read(logged, {one.source: one.read for one in inputs.logged.values()}))
            )
        wanted = {
            node: pa.schema([one for one in work.results if node in framed or one.name != BEFORE])
            for node, work in works.items()
        }
        return Level.of(works, blocks, wanted=wanted, shards=self._shards, kept=bool(framed), emit=emit)

    def _current(self, node: Node) -> KeyedOperator:
        """An operator as it was resolved, at the times of this batch."""
        known = self.known[self.names[node]]
        assert isinstance(known, Operator | Deduplicator | ShardOperator)
        return known.at(*self.times.reached(node)) if isinstance(known, WindowOperator) else known

    def _prepare(self, node: Node, operator: KeyedOperator, prepare: AnyPrepare, inputs: "LevelInputs") -> AnyPrepare:
        if isinstance(prepare, MarkLate):
            return replace(prepare, bounds=self.times.late_bounds(node))
        if not isinstance(operator, WindowOperator):
            return prepare
        if node in inputs.absorbed:  # late rows that are replayed: their time has passed, and they are counted as late
            return window_rows_of(operator.at(None, None), self.times.processed_us, counted=False)
        return window_rows_of(operator, self.times.processed_us)

    def _work(self, node: Node, operator: KeyedOperator, prepare: AnyPrepare, inputs: "LevelInputs") -> ShardWork:
        work = self._work_of(node, operator, prepare, inputs)
        # Blocks carry no schema of their own: read with another than they were written with, they are garbage.
        if not work.inputs[0].equals(prepare.schema):
            raise FlowError(
                f"operator {operator.name} would read {work.inputs[0]} where {prepare.schema} is written",
                "This is a bug in headwater; nothing of the batch was written. Please report it with this sentence.",
            )
        return work

    def _work_of(self, node: Node, operator: KeyedOperator, prepare: AnyPrepare, inputs: "LevelInputs") -> ShardWork:
        self.store(operator)
        handle = self._begun(operator.name)
        if isinstance(operator, WindowOperator):
            self.windows[operator.name] = operator
            return WindowWork(operator.at(None, None) if node in inputs.absorbed else operator, handle)
        if isinstance(operator, CompareOperator):
            self.compared[operator.name] = operator
        if isinstance(operator, Operator):
            return KeyedWork(operator, handle, prepare.schema)
        if isinstance(operator, Deduplicator):
            assert isinstance(node, Dedupe)
            return DedupeWork(operator, handle, self.base + 1, self.times.expired_us(node, node.within_us))
        return StateWork(operator, handle, prepare.schema)

    def late_windows(self, node: Windowed, frame: DataFrame) -> DataFrame:
        """Rows of a batch that came too late for windows."""
        return late_frame(node, frame, self.times.reached(node)[1])

    def operate(self, node: Join, left: DataFrame, right: DataFrame, counter: Counter) -> DataFrame:
        """The changes that a batch makes to what a join keeps."""
        prepared = self.prepared(node, left, right, (counter, counter))
        return self._joined(node, prepared.operator, prepared.rows(self._shards))

    def operate_direct(self, node: Join, session: SparkSession, reading: Reading) -> DataFrame:
        """The changes that a batch makes to what a join keeps whose rows come from tasks that read them."""
        known = self.known[self.names[node]]
        if isinstance(known, TableJoinOperator):
            return self._direct_tables(node, session, reading, replace(known, hot=(), hot_rows=splitting.HOT_ROWS))
        assert isinstance(known, StreamJoinOperator)
        operator = replace(known.at(*self.times.reached(node)), direct=True)
        lanes, join = event_builders(reading.job, node, operator, reading.steps), self._task(operator)
        assert isinstance(join, StreamJoinTask)
        home = reading.home_task(node, lanes, join) if operator.name in self.home else None
        given = reading.pieces(session, node, lanes) if home is None else numbers(session, self._shards)
        if node.keyed or node not in self.straight:
            return self._told(node, operator, given.mapInArrow(home or join, spark_schema(operator.told)))
        return self._packing(node, given, home or join, operator.straight)

    def _direct_tables(
        self, node: Join, session: SparkSession, reading: Reading, operator: TableJoinOperator
    ) -> DataFrame:
        pairing, work = operator.work.pairing, operator.work
        read = (
            self._read_table(node.left, work.left, keeps=pairing.keeps_left),
            self._read_table(node.right, work.right, keeps=pairing.keeps_right),
        )
        pieces = reading.pieces(session, node, table_builders(reading.job, node, read))
        changes = pieces.mapInArrow(TablesTask(read, self._shards), spark_schema(BLOCKS))
        join = self._task(operator)
        assert isinstance(join, TableJoinTask)
        task = JoinedTablesTask(join, straight=node in self.straight)
        dealt = in_shards(changes, self._shards)
        if task.straight:
            return self._packing(node, dealt, task, task.told)
        return self._told(node, operator, dealt.mapInArrow(task, spark_schema(task.told)))

    def _read_table(self, table: Node, side: tables.Side, *, keeps: bool) -> ReadTable:
        operator = self.known[self.names[table]]
        assert isinstance(operator, Operator)
        self.store(operator)
        return ReadTable(operator, self._begun(operator.name), side, keeps)

    def _packing(self, node: Node, rows: DataFrame, task: Task, told: pa.Schema) -> DataFrame:
        self.packed[node] = arrow_schema(spark_schema(told))
        return rows.mapInArrow(ResultTask(task, self.packed[node]), spark_schema(RESULTS))

    def late_of(self, node: Join, left: DataFrame, right: DataFrame) -> DataFrame:
        """Rows of a batch that came too late to a join."""
        prepared = self.prepared(node, left, right, (Uncounted(), Uncounted()))
        assert isinstance(prepared, Prepared)
        return prepared.late

    def operate_chain(
        self, chain: Chain, given: Sequence[Sequence[DataFrame]], counters: Sequence[Counter]
    ) -> DataFrame:
        """What the last of some joins tells, and what all of them report, done in one task. `given` are both inputs of
        the first and the right of each other."""
        prepared: list[Prepared | PreparedTables] = []
        for node, frames, counter in zip(chain, given, counters, strict=True):
            if prepared:
                left = told_columns(frames[-1], prepared[-1].operator, node)
                prepared.append(self.prepared(node, left, frames[-1], (Uncounted(), counter)))
            else:
                prepared.append(self.prepared(node, frames[0], frames[1], (counter, counter)))
        tasks = tuple(self._task(one.operator) for one in prepared)
        task, rows = chain_task(tasks), flat(rows_of_all(prepared, self._shards))
        if isinstance(task, StreamChainTask) and lies_by_partition(prepared[0].operator):
            task, rows = replace(task, dealt=given_schema(rows)), in_pieces(rows, self._shards)
        return self._told(chain[-1], prepared[-1].operator, rows.mapInArrow(task, spark_schema(task.told)))

    def done_at_once(self, chains: Iterable[Chain]) -> dict[Node, Chain]:
        """The joins that are done in one task in this batch, by the last of each. Not where rows need no shuffle, or
        are split: what decides it is the same if the batch comes again, and the state is the same in any case."""
        found: dict[Node, Chain] = {}
        for chain in chains:
            for alone, run in groupby(chain, self._done_alone):
                links = tuple(run)
                if len(links) > 1 and not alone:
                    found[links[-1]] = links
        return found

    def _done_alone(self, node: Node) -> bool:
        if isinstance(node, LatestJoin):
            return not node.wait_us and unchanged(node.right, self.quiet)
        return bool(self.hot.get(self.names[node]))

    def _joined(self, node: Node, operator: JoinOperator, rows: DataFrame) -> DataFrame:
        task, rows = self._task(operator), flat(rows)
        if isinstance(task, StreamJoinTask) and task.operator.by_partition and not task.operator.looks:
            task, rows = replace(task, dealt=given_schema(rows)), in_pieces(rows, self._shards)
        return self._told(node, operator, rows.mapInArrow(task, spark_schema(operator.told)))

    def _told(self, node: Node, operator: JoinOperator, told: DataFrame) -> DataFrame:
        if isinstance(operator, TableJoinOperator):
            return paired(told, operator.key)
        assert isinstance(node, Join)
        return results_of(told, operator, node, self.times.sources)

    def _task(self, operator: JoinOperator) -> TableJoinTask | StreamJoinTask:
        handles = {part: self._begun(store_name(operator.name, part)) for part in self.stores(operator)}
        if isinstance(operator, TableJoinOperator):
            return TableJoinTask(operator, handles)
        self.joins[operator.name] = operator
        return StreamJoinTask(operator, handles)

    def _begun(self, store: str) -> str:
        """What tasks need to work on a store."""
        reserved = self._mergers[store].reserved()
        return self._stores[store].begin(self.base, reserved=reserved).to_json()

    def prepared(self, node: Join, left: DataFrame, right: DataFrame, counters: Counters) -> Prepared | PreparedTables:
        name = self.names[node]
        if isinstance(node, TableJoin):
            return joined_tables(node, left, right, name, shards=self._shards, hot=self.hot.get(name, ()))
        reached = self.times.reached(node)
        if isinstance(node, LatestJoin):
            prepared = joined_latest(node, left, right, name, reached, quiet=unchanged(node.right, self.quiet))
        elif isinstance(node, IntervalJoin):
            prepared = joined_streams(node, left, right, name, reached, counters)
        else:
            assert isinstance(node, AsOfJoin)
            prepared = joined_as_of(node, left, right, name, reached, counters)
        self.late[node] = lambda: prepared.late
        return prepared

    def store(self, operator: KeyedOperator) -> StateStore:
        return self._opened(operator.name, operator.state, fingerprint(operator))

    def stores(self, operator: JoinOperator) -> dict[str, StateStore]:
        """One for each part of what it keeps."""
        parts = operator.parts.items()
        return {part: self._opened(store_name(operator.name, part), kept, operator.fingerprint) for part, kept in parts}

    def _opened(self, name: str, schema: StateSchema, meaning: str) -> StateStore:
        found = self._stores.get(name)
        if found is None:
            folder = self._folder / name
            folder.mkdir(parents=True, exist_ok=True)
            found = StateStore(str(folder), schema, shards=self._shards, fingerprint=meaning)
            self._stores[name] = found
            self._mergers[name] = BackgroundMerger(found)
        return found

    def commit(self, version: int, told: list[ShardReport]) -> None:
        """Make what the tasks wrote the next version. Operators that had no rows get a version too."""
        runs: dict[str, dict[int, tuple[RunInfo, ...]]] = {name: {} for name in self._stores}
        for one in (one for one in told if one.shard != NO_SHARD):
            if one.shard in runs[one.store]:
                raise FlowError(
                    f"two tasks have worked on shard {one.shard} of {one.operator}: its rows were torn apart",
                    "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
                )
            runs[one.store][one.shard] = one.runs
        for name, store in self._stores.items():
            window = self.windows.get(name)
            if window is not None and runs[name]:
                window.check_visited(runs[name].keys(), self._shards)
            drop_below = window.work.drop_below(window.clock) if window is not None else None
            if name in self.compared:
                drop_below = self.compared[name].drop_below
            for join in (join for join in self.joins.values() if name in store_names(join)):
                drop_below = self._below(join, name, runs[name].keys())
            merger = self._mergers[name]
            added = chained.from_iterable(runs[name].values())
            manifest = store.commit(version, self.base, added, merged=merger.finished(), drop_below=drop_below)
            merger.offer(manifest)

    def _below(self, join: StreamJoinOperator, store: str, told: Collection[int]) -> int | None:
        """Up to when a part of what a join keeps is not needed any more."""
        if told:
            join.check_visited(told, self._shards)
        below = {store_name(join.name, part): until for part, until in join.work.drop_below(join.clock).items()}
        return below.get(store)

    def pending(self, version: int, passed: Passed, then: Passed) -> bool:
        """Would batches without rows behind a version change or tell anything, as time goes on to other watermarks?"""
        bounds = {name: arriving(node) for node, name in self.names.items()}

        def moved(name: str) -> tuple[int | None, int | None]:
            return reached_us(bounds[name], passed), reached_us(bounds[name], then)

        windows = any(
            operator.at(*moved(name)).pending(self.store(operator).begin(version))
            for name, operator in self.windows.items()
            if not operator.processing
        )
        return windows or any(
            join.at(*moved(name)).pending({part: store.begin(version) for part, store in self.stores(join).items()})
            for name, join in self.joins.items()
        )

    def wakes_us(self, version: int, processed_us: int) -> int | None:
        """When windows by processing time have next something to tell behind a version; None: never."""
        waiting = [
            next_end_us(operator.work.window, processed_us)
            for operator in self.windows.values()
            if operator.processing
            and operator.at(processed_us, FOREVER_US).pending(self.store(operator).begin(version))
        ]
        return min((one for one in waiting if one is not None), default=None)

    def clean(self) -> None:
        for name, store in self._stores.items():
            store.clean(VERSIONS_KEPT, spare=self._mergers[name].spared())

    def close(self) -> None:
        for merger in self._mergers.values():
            merger.close()

    def size_bytes(self, version: int) -> int:
        return sum(
            run.bytes
            for store in self._stores.values()
            for shard in store.manifest(version).shards
            for run in shard.runs
        )


def store_names(operator: JoinOperator) -> list[str]:
    return [store_name(operator.name, part) for part in operator.parts]


def fingerprint(operator: KeyedOperator) -> str:
    """Tells operators apart that keep columns of the same names and types with another meaning."""
    if isinstance(operator, Deduplicator):
        return hashlib.sha256(f"{operator.key.names} dedupe".encode()).hexdigest()[:16]
    if isinstance(operator, ShardOperator):
        return operator.fingerprint
    work = operator.work
    said = repr(work) if isinstance(work, latest.Latest) else repr([spec.meaning for spec in work])
    return hashlib.sha256(f"{operator.key.names} {said}".encode()).hexdigest()[:16]
