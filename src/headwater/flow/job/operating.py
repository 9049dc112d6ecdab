"""Operators that keep state, in one batch: Spark reduces it to a row per key, tasks merge that with their shards."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import FlowError, InvalidDeclaration
from headwater.flow.declare.nodes import Aggregate, Dedupe, Latest, Node, SourceTable
from headwater.flow.job.aggregates import read_aggregates
from headwater.flow.job.arrow_types import arrow_schema, arrow_type, spark_schema
from headwater.flow.job.counting import Counter
from headwater.flow.job.deduping import LATE, DedupeTask, Deduplicator
from headwater.flow.job.lateness import Times
from headwater.flow.job.merging import ROWS, MergeTask, Operator, Told
from headwater.flow.job.sources import AT, DELETED
from headwater.flow.job.stateless import quoted, visible
from headwater.flow.operators import latest
from headwater.flow.operators.aggregates import partials
from headwater.flow.state.background import BackgroundMerger
from headwater.flow.state.manifest import HASH, RunInfo
from headwater.flow.state.store import StateStore

ORDER = {"_at_time": "time", "_at_source": "source", "_at_partition": "partition", "_at_offset": "offset"}
VERSIONS_KEPT = 10


class Operators:
    """The state of all operators of a job. `names` are those the plan gives them."""

    def __init__(self, folder: Path, names: Mapping[Node, str], *, shards: int) -> None:
        self._folder, self._names, self._shards = folder, names, shards
        self._stores: dict[str, StateStore] = {}
        self._mergers: dict[str, BackgroundMerger] = {}
        self.base = -1
        """The version that the batch being worked on starts from."""
        self.times = Times({})
        """How far the sources had come in time before it."""

    @classmethod
    def describing(cls, names: Mapping[Node, str]) -> "Operators":
        """Only to ask what operators keep and tell; nothing is read or written."""
        return cls(Path(), names, shards=1)

    def operate(self, node: Node, frame: DataFrame, counter: Counter) -> DataFrame:
        """The changes that a batch makes to what an operator keeps."""
        operator, reduced = self.reduced(node, frame)
        store = self.store(operator)
        handle = store.begin(self.base, reserved=self._mergers[operator.name].reserved()).to_json()
        hashed = reduced.withColumn(HASH, shard_hash(operator.key.names))
        if isinstance(operator, Operator):
            return hashed.mapInArrow(MergeTask(operator, handle), spark_schema(operator.output))
        assert isinstance(node, Dedupe)
        expired_us = self.times.expired_us(node, node.within_us)
        task = DedupeTask(operator, handle, self.base + 1, expired_us)
        sharded = hashed.repartition(self._shards, *(f.col(quoted(name)) for name in node.key))
        return sharded.mapInArrow(task, spark_schema(operator.output))

    def reduced(self, node: Node, frame: DataFrame) -> tuple[Operator | Deduplicator, DataFrame]:
        """What an operator does, and the frame that its tasks are given: where possible, one row for each key."""
        if isinstance(node, Aggregate):
            return self._reduced_to_partials(node, frame)
        if isinstance(node, Dedupe):
            return self._with_late(node, frame)
        assert isinstance(node, Latest | SourceTable)
        return self._reduced_to_newest(node, frame)

    def _with_late(self, node: Dedupe, frame: DataFrame) -> tuple[Deduplicator, DataFrame]:
        if AT not in frame.columns:
            raise InvalidDeclaration(f"dedupe at {node.place} comes behind a step that drops when rows happened")
        # A report has no row, so that nothing may be declared never to be null.
        schema = pa.schema([pa.field(field.name, field.type) for field in arrow_schema(frame.schema)])
        key = pa.schema([schema.field(name) for name in node.key])
        row = f.to_json(f.struct(*(f.col(quoted(name)) for name in visible(frame))), {"ignoreNullFields": "false"})
        late = f.when(self.times.is_late(node), row)
        return Deduplicator(self._names[node], key, schema, node.within_us), frame.withColumn(LATE, late)

    def _reduced_to_partials(self, node: Aggregate, frame: DataFrame) -> tuple[Operator, DataFrame]:
        read = read_aggregates(node, frame)
        columns = [f.expr(part.sql).alias(part.name) for spec in read.specs for part in partials(spec)]
        grouped = read.inputs.groupBy(*map(quoted, node.key))
        operator = Operator(self._names[node], read.key, read.specs)
        return operator, grouped.agg(*columns, f.count(f.lit(1)).alias(ROWS))

    def _reduced_to_newest(self, node: Latest | SourceTable, frame: DataFrame) -> tuple[Operator, DataFrame]:
        values = [name for name in visible(frame) if name not in node.key]
        schema = frame.schema
        at = {field.name: field.dataType for field in schema[AT].dataType}  # type: ignore[attr-defined]
        spec = latest.Latest(
            pa.schema([pa.field(name, arrow_type(at[part])) for name, part in ORDER.items()]),
            pa.schema([pa.field(name, arrow_type(schema[name].dataType)) for name in values]),
        )
        ordered = frame.withColumns({name: f.col(AT)[part] for name, part in ORDER.items()})
        gone = quoted(DELETED) if DELETED in frame.columns else "false"
        grouped = ordered.groupBy(*map(quoted, node.key)).agg(
            f.expr(latest.newest_sql(spec, gone)).alias("_newest"), f.count(f.lit(1)).alias(ROWS)
        )
        key = pa.schema([pa.field(name, arrow_type(schema[name].dataType)) for name in node.key])
        reduced = grouped.select(*map(quoted, node.key), "_newest.*", ROWS)
        return Operator(self._names[node], key, spec), reduced

    def store(self, operator: Operator | Deduplicator) -> StateStore:
        found = self._stores.get(operator.name)
        if found is None:
            folder = self._folder / operator.name
            folder.mkdir(parents=True, exist_ok=True)
            found = StateStore(str(folder), operator.state, shards=self._shards, fingerprint=fingerprint(operator))
            self._stores[operator.name] = found
            self._mergers[operator.name] = BackgroundMerger(found)
        return found

    def commit(self, version: int, told: list[Told]) -> None:
        """Make what the tasks wrote the next version. Operators that had no rows get a version too."""
        runs: dict[str, dict[int, RunInfo | None]] = {name: {} for name in self._stores}
        for one in told:
            if one.shard in runs[one.operator]:
                raise FlowError(
                    f"two tasks have worked on shard {one.shard} of {one.operator}: its rows were torn apart",
                    "Leave spark.sql.adaptive.enabled off, and spark.sql.shuffle.partitions to headwater.",
                )
            runs[one.operator][one.shard] = one.run
        for name, store in self._stores.items():
            merger = self._mergers[name]
            manifest = store.commit(version, self.base, runs[name], merged=merger.finished())
            merger.offer(manifest)

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


def shard_hash(key: list[str]) -> Column:
    """A hash whose remainder by the number of shards, a power of two, is the number of Spark's own shuffle partition.

    So the shuffle that groups by key brings a shard to one task, and no second one is needed.
    """
    columns = [f.col(quoted(name)) for name in key]
    high = f.shiftleft(f.shiftright(f.xxhash64(*columns), 32), 32)
    low = f.hash(*columns).cast("long").bitwiseAND(f.lit(0xFFFFFFFF).cast("long"))
    return high.bitwiseOR(low)


def fingerprint(operator: Operator | Deduplicator) -> str:
    """Tells operators apart that keep columns of the same names and types with another meaning."""
    if isinstance(operator, Deduplicator):
        return hashlib.sha256(f"{operator.key.names} dedupe".encode()).hexdigest()[:16]
    work = operator.work
    said = repr(work) if isinstance(work, latest.Latest) else repr([(spec.kind, spec.name) for spec in work])
    return hashlib.sha256(f"{operator.key.names} {said}".encode()).hexdigest()[:16]
