"""Run an output's part of a batch in Spark: tasks stage its rows, or bring them to the driver, as Arrow."""

from collections import Counter as Tally
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.flow.commit.record_encoding import change_records, row_records
from headwater.flow.commit.stage_task import few_in, parts_in, stage
from headwater.flow.declare.graph import TOPIC, Job, Planned
from headwater.flow.declare.nodes import STATEFUL, Node, Source, TableJoin, walk
from headwater.flow.exchange.blocks import decode_results
from headwater.flow.joins.direct_tables import moved_together
from headwater.flow.operate.level import Level
from headwater.flow.operate.reports import COMMIT, ShardReport
from headwater.flow.operators.changes import BEFORE
from headwater.flow.operators.joins.events import MISSING
from headwater.flow.plan.roots import readers_of
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.evaluation import Evaluation
from headwater.flow.rows.row_steps import hidden
from headwater.flow.sinks.staged import Part, Stager


@dataclass(frozen=True)
class Collected:
    rows: pa.Table
    """Those that came to the driver."""
    told: list[ShardReport]
    """What operators reported in the same query."""
    alone: pa.Table | None = None
    """Rows that had to have a partner in a join, and have none."""
    parts: tuple[Part, ...] = ()
    """Those that tasks staged."""

    @property
    def count(self) -> int:
        return int(self.rows.num_rows) + sum(part.rows for part in self.parts)


@dataclass(frozen=True)
class Origin:
    """Where changes come from, for their envelope."""

    app: str
    job: str
    batch: int
    time_ms: int

    def fields(self) -> dict[str, object]:
        return {"connector": "headwater", "name": self.app, "job": self.job, "batch": self.batch}


def used_twice(job: Job) -> tuple[frozenset[Node], bool]:
    """Operators whose changes are wanted by more than the output that is just them, and: is a source read twice?"""
    uses: Tally[Node] = Tally()
    nodes = {node for planned in job.outputs for node in walk(planned.node)}
    for node in nodes:
        uses.update(node.inputs)
    ends = Tally(planned.node for planned in job.outputs)
    operators = [node for node in nodes if isinstance(node, STATEFUL)]
    kept = frozenset(node for node in operators if uses[node] or ends[node] != 1 or not node.keyed)
    roots = {root.node: root for planned in job.outputs for root in readers_of(planned) if root.stateful}
    plain = [root for planned in job.outputs for root in readers_of(planned) if not root.stateful]
    reads: Tally[Source] = Tally(source for root in (*roots.values(), *plain) for source in root.paths())
    return kept, sum(reads.values()) > 1


def straight_out(job: Job, keep: frozenset[Node]) -> frozenset[Node]:
    """Operators whose changes nobody looks at on their way to the one output that is just them."""
    ends = {one.node for one in job.outputs if one.output.kind != TOPIC}
    return frozenset(node for node in ends if isinstance(node, STATEFUL) and node.keyed and node not in keep)


def straight_joins(job: Job, direct: Collection[Node]) -> frozenset[Node]:
    """Joins that tell rows, which nobody looks at on their way to the one output that is just them."""
    inner = {one for planned in job.outputs for node in walk(planned.node) for one in node.inputs}
    ends = Tally(one.node for one in job.outputs)
    plain = {one.node for one in job.outputs if one.output.kind != TOPIC}
    return frozenset(node for node in plain & {*direct} - inner if not node.keyed and ends[node] == 1)


def frame_for(evaluation: Evaluation, planned: Planned, key: tuple[str, ...], origin: Origin) -> DataFrame:
    """What an output's sink is to be given, and what operators report with it; nothing runs yet."""
    node, is_topic = planned.node, planned.output.kind == TOPIC
    if node in evaluation.straight:
        return evaluation.changes(node)
    if not node.keyed:
        rows = evaluation.rows(node, node)
        return row_records(rows, key, time_ms=origin.time_ms) if is_topic else rows.drop(*hidden(rows))
    changes = evaluation.changes(node)
    if is_topic:
        return change_records(changes, key, time_ms=origin.time_ms, source=origin.fields())
    return changes.drop(BEFORE)


def of_operator(level: Level, node: Node) -> Collected:
    """What an operator emitted, of an exchange that has been run."""
    return Collected(level.rows(node), [], parts=tuple(map(Part.from_json, level.parts(node))))


def collect(frame: DataFrame, evaluation: Evaluation, planned: Planned, stager: Stager | None) -> Collected:
    """Run it. Rows go where the stager says; to the driver if there is none, or where it works on all of them."""
    packed = evaluation.packed.get(planned.node)
    if stager is not None and packed is None:
        staged = stage(frame, stager)
        told = [ShardReport.from_json(text) for text in staged[COMMIT].drop_null().to_pylist()]
        few = few_in(staged, arrow_schema(StructType([one for one in frame.schema if one.name != COMMIT])))
        return Collected(few, _unless_kept(evaluation, planned, told), parts=parts_in(staged))
    table = frame.toArrow()
    if packed is not None:
        table = decode_results(table, packed)
    if COMMIT not in table.column_names:
        return Collected(table, [])
    rows, told = split(table)
    if isinstance(planned.node, TableJoin) and packed is not None:
        return Collected(moved_together(rows, planned.node.key), told)
    if planned.node in evaluation.straight:
        found, alone = parted(rows)
        return Collected(found, told, alone)
    return Collected(rows, _unless_kept(evaluation, planned, told))


def _unless_kept(evaluation: Evaluation, planned: Planned, told: list[ShardReport]) -> list[ShardReport]:
    """What is kept for others reports only once."""
    return [] if planned.node in evaluation.keep else told


def reports(evaluation: Evaluation) -> Iterable[ShardReport]:
    """What operators reported whose changes are kept, and so do not come with an output."""
    for node, frame in evaluation.made.items():
        if node in evaluation.keep:
            yield from split(frame.where(f"{COMMIT} is not null").select(COMMIT).toArrow())[1]


def split(table: pa.Table) -> tuple[pa.Table, list[ShardReport]]:
    """Rows, and what was reported among them. Where nothing was, nothing is copied."""
    rows, told = [], []
    for batch in table.to_batches():
        commits = batch.column(COMMIT)
        if commits.null_count < batch.num_rows:
            told += [ShardReport.from_json(text) for text in commits.drop_null().to_pylist()]
            batch = batch.filter(commits.is_null())
        rows.append(batch.drop_columns([COMMIT]))
    schema = table.schema.remove(table.schema.get_field_index(COMMIT))
    return pa.Table.from_batches(rows, schema), told


def parted(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Results that are rows for a sink, and those that lack a partner which they had to have."""
    found, alone = [], []
    for batch in rows.to_batches():
        missing = batch.column(MISSING)
        if missing.true_count:
            alone.append(batch.filter(missing))
            batch = batch.filter(pc.invert(missing))
        found.append(batch)
    names = [name for name in rows.column_names if not name.startswith("_")]
    return pa.Table.from_batches(found, rows.schema).select(names), pa.Table.from_batches(alone, rows.schema)
