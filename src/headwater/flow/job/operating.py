"""Operators that keep state, in one batch: Spark reduces it to a row per key, tasks merge that with their shards."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain as chained
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.errors import FlowError, InvalidDeclaration
from headwater.flow.declare.chains import Chain
from headwater.flow.declare.nodes import (
    Aggregate,
    AsOfJoin,
    Compared,
    Dedupe,
    History,
    IntervalJoin,
    Join,
    KMeans,
    Latest,
    LatestJoin,
    Newest,
    Node,
    SourceTable,
    TableJoin,
    Windowed,
    unchanged,
)
from headwater.flow.job.aggregates import read_aggregates
from headwater.flow.job.arrow_types import arrow_schema, arrow_type, spark_schema
from headwater.flow.job.chaining import StreamChainTask, chain_task
from headwater.flow.job.comparing import CompareOperator, reduced_to_windows
from headwater.flow.job.counting import Counter, Uncounted
from headwater.flow.job.deduping import APART, LATE, DedupeTask, Deduplicator
from headwater.flow.job.delays import Passed, arriving, reached_us
from headwater.flow.job.direct import Reading, event_lanes, numbers, table_lanes
from headwater.flow.job.direct_tables import JoinedTablesTask, ReadTable, TablesTask
from headwater.flow.job.evaluating import paired
from headwater.flow.job.hashing import shard_hash
from headwater.flow.job.history_rows import versioned_rows
from headwater.flow.job.join_pieces import given_schema, in_pieces
from headwater.flow.job.join_results import results_of
from headwater.flow.job.join_rows import flat
from headwater.flow.job.joining import TableJoinOperator, TableJoinTask
from headwater.flow.job.lateness import Times
from headwater.flow.job.merging import NO_SHARD, ROWS, MergeTask, Operator, Told, store_name
from headwater.flow.job.modelling import reduced_to_points
from headwater.flow.job.newest_rows import grouped_rows
from headwater.flow.job.packing import PIECES, RESULTS, PackingTask, Task, in_shards
from headwater.flow.job.processing_time import at_processing_time, next_end_us
from headwater.flow.job.reducing_chains import lies_by_partition, rows_of_all, told_columns
from headwater.flow.job.reducing_joins import (
    Counters,
    Prepared,
    PreparedTables,
    joined_as_of,
    joined_latest,
    joined_streams,
    joined_tables,
)
from headwater.flow.job.reducing_windows import late_frame, reduced_windows
from headwater.flow.job.sharding import ShardOperator, ShardTask
from headwater.flow.job.sources import AT, DELETED
from headwater.flow.job.stateless import PATH, quoted, visible
from headwater.flow.job.stream_joining import StreamJoinOperator, StreamJoinTask
from headwater.flow.job.telling_apart import path_order
from headwater.flow.job.watermarks import FOREVER_US
from headwater.flow.job.windowing import WindowOperator, WindowTask
from headwater.flow.operators import latest
from headwater.flow.operators.aggregates import partials
from headwater.flow.operators.changes import BEFORE
from headwater.flow.operators.joins import splitting, tables
from headwater.flow.operators.joins.hot_keys import Hot
from headwater.flow.state.background import BackgroundMerger
from headwater.flow.state.manifest import HASH, RunInfo, StateSchema
from headwater.flow.state.store import StateStore

ORDER = {"_at_time": "time", "_at_source": "source", "_at_partition": "partition", "_at_offset": "offset"}
ORDER_OF_CHANGELOGS = {"_at_partition": "partition", "_at_offset": "offset"}
"""Where a record lies says what replaced what, as it does for compaction; clocks of producers may go back."""
VERSIONS_KEPT = 10

KeyedOperator = Operator | Deduplicator | ShardOperator[Any]
JoinOperator = TableJoinOperator | StreamJoinOperator
AnyOperator = KeyedOperator | JoinOperator


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
        """Of operators of windows: the rows that came too late, should there be any."""
        self.hot: Hot = {}
        """Keys with so many rows that all tasks work on them."""
        self.quiet: frozenset[str] = frozenset()
        """Topics that it brings nothing of."""
        self.many = False
        """It has so many rows that those of windows are given to their shards singly, but for"""
        self.repeating: frozenset[str] = frozenset()
        """operators whose rows repeat."""
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

    def operate(self, node: Node, frame: DataFrame, counter: Counter, *others: DataFrame) -> DataFrame:
        """The changes that a batch makes to what an operator keeps."""
        operator, reduced = self.reduced(node, frame, counter, *others)
        if isinstance(operator, TableJoinOperator | StreamJoinOperator):
            return self._joined(node, operator, reduced)
        self.store(operator)
        handle = self._begun(operator.name)
        if isinstance(operator, WindowOperator):
            assert isinstance(node, Windowed)
            self.windows[operator.name] = operator
            self.late[node] = partial(late_frame, node, frame, operator.clock.watermark_us)
            return self._mapped(node, reduced, WindowTask(operator, handle), operator.output)
        if isinstance(operator, CompareOperator):
            self.compared[operator.name] = operator
        if isinstance(operator, ShardOperator):
            return self._mapped(node, reduced, ShardTask(operator, handle), operator.output)
        hashed = reduced.withColumn(HASH, shard_hash(operator.key.names))
        if isinstance(operator, Operator):
            return self._mapped(node, hashed, MergeTask(operator, handle), operator.output)
        assert isinstance(node, Dedupe)
        expired_us = self.times.expired_us(node, node.within_us)
        task = DedupeTask(operator, handle, self.base + 1, expired_us)
        sharded = hashed.repartition(self._shards, *(f.col(quoted(name)) for name in node.key))
        return sharded.mapInArrow(task, spark_schema(operator.output))

    def _mapped(self, node: Node, rows: DataFrame, task: Task, output: pa.Schema) -> DataFrame:
        if node not in self.straight:
            return rows.mapInArrow(task, spark_schema(output))
        names = [name for name in output.names if name != BEFORE]
        return self._packing(node, rows, task, pa.schema([output.field(name) for name in names]))

    def absorb(self, node: Windowed, frame: DataFrame) -> DataFrame:
        """Rows that came too late, put into what windows keep; what is told of them says nothing, but for reports."""
        name, always = self.names[node], (None, None)
        operator, reduced = reduced_windows(node, frame, name, always, shards=self._shards, counter=Counter())
        self.store(operator)
        self.windows[name] = operator.at(*self.times.reached(node))
        # They are counted as taken back, and not as read.
        uncounted = reduced.withColumn(ROWS, f.lit(0).cast("long"))
        return uncounted.mapInArrow(WindowTask(operator, self._begun(name)), spark_schema(operator.output))

    def operate_direct(self, node: Join, session: SparkSession, reading: Reading) -> DataFrame:
        """The changes that a batch makes to what a join keeps whose rows come from tasks that read them."""
        known = self.known[self.names[node]]
        if isinstance(known, TableJoinOperator):
            return self._direct_tables(node, session, reading, replace(known, hot=(), hot_rows=splitting.HOT_ROWS))
        assert isinstance(known, StreamJoinOperator)
        operator = replace(known.at(*self.times.reached(node)), direct=True)
        lanes, join = event_lanes(reading.job, node, operator), self._task(operator)
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
        pieces = reading.pieces(session, node, table_lanes(reading.job, node, read))
        changes = pieces.mapInArrow(TablesTask(read, self._shards), spark_schema(PIECES))
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
        return rows.mapInArrow(PackingTask(task, self.packed[node]), spark_schema(RESULTS))

    def late_of(self, node: Join, left: DataFrame, right: DataFrame) -> DataFrame:
        """Rows of a batch that came too late to a join."""
        prepared = self._prepared(node, left, right, (Uncounted(), Uncounted()))
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
                prepared.append(self._prepared(node, left, frames[-1], (Uncounted(), counter)))
            else:
                prepared.append(self._prepared(node, frames[0], frames[1], (counter, counter)))
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

    def reduced(
        self, node: Node, frame: DataFrame, counter: Counter, *others: DataFrame
    ) -> tuple[AnyOperator, DataFrame]:
        """What an operator does, and the frame that its tasks are given: where possible, one row for each key."""
        if isinstance(node, TableJoin | IntervalJoin | LatestJoin | AsOfJoin):
            prepared = self._prepared(node, frame, others[0], (counter, counter))
            return prepared.operator, prepared.rows(self._shards)
        if isinstance(node, Newest):
            return grouped_rows(node, frame, self.names[node], shards=self._shards)
        if isinstance(node, History):
            return versioned_rows(node, frame, self.names[node], shards=self._shards)
        if isinstance(node, Compared):
            _, reached_us = self.times.reached(node.windowed)
            return reduced_to_windows(node, frame, self.names[node], reached_us, shards=self._shards)
        if isinstance(node, KMeans):
            return reduced_to_points(node, frame, self.names[node], shards=self._shards)
        if isinstance(node, Windowed):
            reached = self.times.reached(node)
            if node.processing and self.times.processed_us is not None:
                frame = at_processing_time(frame, self.times.processed_us)
            name = self.names[node]
            singly = self.many and name not in self.repeating
            return reduced_windows(node, frame, name, reached, shards=self._shards, counter=counter, singly=singly)
        if isinstance(node, Aggregate):
            return self._reduced_to_partials(node, frame)
        if isinstance(node, Dedupe):
            return self._with_late(node, frame)
        assert isinstance(node, Latest | SourceTable)
        return self._reduced_to_newest(node, frame)

    def _prepared(self, node: Join, left: DataFrame, right: DataFrame, counters: Counters) -> Prepared | PreparedTables:
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

    def _with_late(self, node: Dedupe, frame: DataFrame) -> tuple[Deduplicator, DataFrame]:
        if AT not in frame.columns:
            raise InvalidDeclaration(f"dedupe at {node.place} comes behind a step that drops when rows happened")
        # A report has no row, so that nothing may be declared never to be null.
        schema = pa.schema([pa.field(field.name, field.type) for field in arrow_schema(frame.schema)])
        key = pa.schema([schema.field(name) for name in node.key])
        row = f.to_json(f.struct(*(f.col(quoted(name)) for name in visible(frame))), {"ignoreNullFields": "false"})
        late = f.when(self.times.is_late(node), row)
        apart = {APART: path_order(frame)} if PATH in frame.columns else {}
        return Deduplicator(self.names[node], key, schema, node.within_us), frame.withColumns({LATE: late, **apart})

    def _reduced_to_partials(self, node: Aggregate, frame: DataFrame) -> tuple[Operator, DataFrame]:
        read = read_aggregates(node, frame)
        columns = [f.expr(part.sql).alias(part.name) for spec in read.specs for part in partials(spec)]
        grouped = read.inputs.groupBy(*map(quoted, node.key))
        operator = Operator(self.names[node], read.key, read.specs)
        return operator, grouped.agg(*columns, f.count(f.lit(1)).alias(ROWS))

    def _reduced_to_newest(self, node: Latest | SourceTable, frame: DataFrame) -> tuple[Operator, DataFrame]:
        values = [name for name in visible(frame) if name not in node.key]
        schema = frame.schema
        at = {field.name: field.dataType for field in schema[AT].dataType}  # type: ignore[attr-defined]
        order = ORDER_OF_CHANGELOGS if isinstance(node, SourceTable) else ORDER
        spec = latest.Latest(
            pa.schema([*(pa.field(name, arrow_type(at[part])) for name, part in order.items()), *_path_order(frame)]),
            pa.schema([pa.field(name, arrow_type(schema[name].dataType)) for name in values]),
        )
        paths = {field.name: path_order(frame) for field in _path_order(frame)}
        ordered = frame.withColumns({name: f.col(AT)[part] for name, part in order.items()} | paths)
        gone = quoted(DELETED) if DELETED in frame.columns else "false"
        grouped = ordered.groupBy(*map(quoted, node.key)).agg(
            f.expr(latest.newest_sql(spec, gone)).alias("_newest"), f.count(f.lit(1)).alias(ROWS)
        )
        key = pa.schema([pa.field(name, arrow_type(schema[name].dataType)) for name in node.key])
        reduced = grouped.select(*map(quoted, node.key), "_newest.*", ROWS)
        return Operator(self.names[node], key, spec), reduced

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

    def commit(self, version: int, told: list[Told]) -> None:
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


def _path_order(frame: DataFrame) -> list[pa.Field]:
    """Rows that a join has made may lie at one place: then it is their path that puts them in order."""
    return [pa.field("_at_path", pa.int64())] if PATH in frame.columns else []


def fingerprint(operator: KeyedOperator) -> str:
    """Tells operators apart that keep columns of the same names and types with another meaning."""
    if isinstance(operator, Deduplicator):
        return hashlib.sha256(f"{operator.key.names} dedupe".encode()).hexdigest()[:16]
    if isinstance(operator, ShardOperator):
        return operator.fingerprint
    work = operator.work
    said = repr(work) if isinstance(work, latest.Latest) else repr([spec.meaning for spec in work])
    return hashlib.sha256(f"{operator.key.names} {said}".encode()).hexdigest()[:16]
