"""The operators of a job and their state: what they are in a batch, which tasks work on them, what is committed."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain as chained
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import FlowError
from headwater.flow.declare.topology.nodes import Dedupe, Join, Node, Windowed, multiplies
from headwater.flow.exchange.blocks import Address
from headwater.flow.late.late_rows import late_for_join, late_frame
from headwater.flow.operate.deduplicator import Deduplicator
from headwater.flow.operate.join_operators import JoinOperator, StreamJoinOperator, TableJoinOperator
from headwater.flow.operate.join_works import Named, StreamJoinWork, TableJoinWork
from headwater.flow.operate.level import Emit, Level
from headwater.flow.operate.level_blocks import LevelBlocks, LevelInputs
from headwater.flow.operate.reports import NO_SHARD, Operator, ShardReport, store_name
from headwater.flow.operate.shard_operator import ShardOperator
from headwater.flow.operate.shard_task import ShardWork
from headwater.flow.operate.window_comparison import CompareOperator
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operate.works import DedupeWork, KeyedWork, StateWork, WindowWork
from headwater.flow.operators import latest
from headwater.flow.operators.changes import BEFORE
from headwater.flow.operators.joins import splitting
from headwater.flow.operators.joins.emission import PATH
from headwater.flow.operators.joins.hot_keys import Hot
from headwater.flow.operators.joins.splitting import may_split
from headwater.flow.plan.delays import Passed, arriving, reached_us
from headwater.flow.plan.lateness import Times
from headwater.flow.plan.watermarks import FOREVER_US
from headwater.flow.prepare.inputs import AnyPrepare, KeyedOperator, input_of, window_rows_of
from headwater.flow.prepare.join_inputs import side_frame, side_preparations
from headwater.flow.prepare.late_bounds import MarkLate
from headwater.flow.rows.row_batch import POSITION
from headwater.flow.state.background import BackgroundMerger
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.store import StateStore

VERSIONS_KEPT = 10

AnyOperator = KeyedOperator | JoinOperator


class Given(NamedTuple):
    """An operator in a batch, how each of its inputs is prepared, and frames of those that Spark evaluates."""

    operator: AnyOperator
    prepares: Sequence[AnyPrepare]
    frames: Mapping[int, DataFrame]


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
        self.hot: Hot = {}
        """Keys with so many rows that all tasks work on them."""
        self.may_skip_shuffle: frozenset[str] = frozenset()
        """Joins that had no misplaced row in the batch before."""
        self.co_partitioned: frozenset[str] = frozenset()
        """Of these, joins that are run without a shuffle in this batch."""
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
        self, session: SparkSession, inputs: LevelInputs, *, framed: Collection[Node], emit: Emit | None = None
    ) -> Level:
        """The exchange of some operators. The results of `framed` are used by steps of Spark's, or by other operators;
        those of others go to the driver alone, which does not look at values before a change."""
        works: dict[Node, ShardWork] = {}
        blocks = LevelBlocks(session, inputs, self._shards)
        for node in inputs.nodes:
            name, given = self.names[node], self._given(node, inputs)
            for number, prepare in enumerate(given.prepares):
                blocks.add((node, number), name, prepare, Address(len(works), number), given.frames.get(number))
            works[node] = self._work(node, given, inputs, framed=node in framed)
        names = frozenset(self.names[node] for node in inputs.nodes)
        run = blocks.co_partitioned(min(names)) if names <= self.may_skip_shuffle else None
        self.co_partitioned |= names if run is not None else frozenset()
        wanted = {node: work.results if node in framed else _for_driver(work) for node, work in works.items()}
        return Level.of(works, run or blocks.shuffled, wanted=wanted, shards=self._shards, kept=bool(framed), emit=emit)

    def _given(self, node: Node, inputs: LevelInputs) -> Given:
        if isinstance(node, Join):
            join = self._join(node)
            frames = {
                number: side_frame(node, number, frame) for (one, number), frame in inputs.frames.items() if one is node
            }
            return Given(join, side_preparations(node, join, shards=self._shards), frames)
        if (node, 0) in inputs.frames:
            given = input_of(node, inputs.frames[node, 0], self.names[node], self.times)
            return Given(given.operator, [self._prepare(node, given.operator, given.prepare, inputs)], {0: given.frame})
        operator = self._current(node)
        return Given(operator, [self._prepare(node, operator, inputs.steps[node, 0].prepare, inputs)], {})

    def _join(self, node: Join) -> JoinOperator:
        """A join as it was resolved, at the times of this batch and with the keys that it splits."""
        known = self.known[self.names[node]]
        if isinstance(known, StreamJoinOperator):
            return known.at(*self.times.reached(node))
        assert isinstance(known, TableJoinOperator)
        hot = [one for one in self.hot.get(known.name, ()) if self._shards > 1 and may_split(known.work, one.side)]
        return replace(known, hot=tuple(hot), hot_rows=splitting.HOT_ROWS)

    def _current(self, node: Node) -> KeyedOperator:
        """An operator with one input as it was resolved, at the times of this batch."""
        known = self.known[self.names[node]]
        assert isinstance(known, Operator | Deduplicator | ShardOperator)
        return known.at(*self.times.reached(node)) if isinstance(known, WindowOperator) else known

    def _prepare(self, node: Node, operator: KeyedOperator, prepare: AnyPrepare, inputs: LevelInputs) -> AnyPrepare:
        if isinstance(prepare, MarkLate):
            return replace(prepare, bounds=self.times.late_bounds(node))
        if not isinstance(operator, WindowOperator):
            return prepare
        if node in inputs.absorbed:  # late rows that are replayed: their time has passed, and they are counted as late
            return window_rows_of(operator.at(None, None), self.times.processed_us, counted=False)
        return window_rows_of(operator, self.times.processed_us)

    def _work(self, node: Node, given: Given, inputs: LevelInputs, *, framed: bool) -> ShardWork:
        operator, schemas = given.operator, [prepare.schema for prepare in given.prepares]
        if isinstance(operator, StreamJoinOperator | TableJoinOperator):
            return self._join_work(node, operator, schemas, inputs, framed=framed)
        work = self._work_of(node, operator, given.prepares[0], inputs)
        # Blocks carry no schema of their own: read with another than they were written with, they are garbage.
        if not work.inputs[0].equals(schemas[0]):
            raise FlowError(
                f"operator {operator.name} would read {work.inputs[0]} where {schemas[0]} is written",
                "This is a bug in headwater; nothing of the batch was written. Please report it with this sentence.",
            )
        return work

    def _join_work(
        self, node: Node, operator: JoinOperator, schemas: list[pa.Schema], inputs: LevelInputs, *, framed: bool
    ) -> ShardWork:
        handles = {part: self._begun(store_name(operator.name, part)) for part in self.stores(operator)}
        if isinstance(operator, TableJoinOperator):  # copies of rows that are split look like the rows themselves
            return TableJoinWork(operator, handles, [*schemas, *schemas], self._shards, paired=not framed)
        self.joins[operator.name] = operator
        logged = all(inputs.is_logged(node, number) for number in range(2))
        named = Named(
            tuple(source.topic for source in self.times.sources),
            (multiplies(node.inputs[0]), multiplies(node.inputs[1])),
        )
        return StreamJoinWork(
            operator, handles, schemas, named, self._shards, counts_misplaced=logged and operator.by_partition
        )

    def _work_of(self, node: Node, operator: KeyedOperator, prepare: AnyPrepare, inputs: LevelInputs) -> ShardWork:
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

    def late_of(self, node: Join, left: DataFrame, right: DataFrame) -> DataFrame:
        """Rows of a batch that were late for a join."""
        operator = self._join(node)
        assert isinstance(operator, StreamJoinOperator)
        return late_for_join(node, operator, left, right)

    def _begun(self, store: str) -> str:
        """What tasks need to work on a store."""
        reserved = self._mergers[store].reserved()
        return self._stores[store].begin(self.base, reserved=reserved).to_json()

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
            operator.work.window.next_end_us(processed_us)
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


def _for_driver(work: ShardWork) -> pa.Schema:
    """What of a work's results the driver wants, where nothing else does."""
    dropped = {BEFORE, PATH}
    if isinstance(work, StreamJoinWork) and not work.operator.may_miss:
        dropped |= {*POSITION}
    return pa.schema([one for one in work.results if one.name not in dropped])


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
