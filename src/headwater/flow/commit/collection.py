"""Run an output's part of a batch in Spark: tasks stage its rows, or bring them to the driver, as Arrow."""

from collections import Counter as Tally
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headwater.flow.commit.record_encoding import change_records, row_records
from headwater.flow.commit.stage_task import few_in, parts_in, stage
from headwater.flow.declare.topology.graph import TOPIC, Job, Planned
from headwater.flow.declare.topology.nodes import MAKING, Source, TableOperator, key_of
from headwater.flow.operate.level import Level
from headwater.flow.operators.changes import BEFORE
from headwater.flow.operators.joins.emission import BEFORE_SIDE, SIDE, moved_together, paired_changes
from headwater.flow.operators.joins.events import MISSING
from headwater.flow.plan.operator_levels import readers_of
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.evaluation import Evaluation
from headwater.flow.rows.row_steps import hidden
from headwater.flow.sinks.staged import Part, Stager


@dataclass(frozen=True)
class Collected:
    rows: pa.Table
    """Those that came to the driver."""
    missing: pa.Table | None = None
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


def read_twice(job: Job) -> bool:
    """Whether frames of the job's sources are used more than once."""
    roots = {root.node: root for planned in job.outputs for root in readers_of(planned) if root.stateful}
    plain = [root for planned in job.outputs for root in readers_of(planned) if not root.stateful]
    reads: Tally[Source] = Tally(source for root in (*roots.values(), *plain) for source in root.paths())
    return sum(reads.values()) > 1


def frame_for(evaluation: Evaluation, planned: Planned, key: tuple[str, ...], origin: Origin) -> DataFrame:
    """What an output's sink is to be given; nothing runs yet."""
    node, is_topic = planned.node, planned.output.kind == TOPIC
    if not node.keyed:
        rows = evaluation.rows(node, node)
        return row_records(rows, key, time_ms=origin.time_ms) if is_topic else rows.drop(*hidden(rows))
    changes = evaluation.changes(node)
    if is_topic:
        return change_records(changes, key, time_ms=origin.time_ms, source=origin.fields())
    return changes.drop(BEFORE)


def collect(frame: DataFrame, stager: Stager | None) -> Collected:
    """Run it. Rows go where the stager says; to the driver if there is none."""
    if stager is not None:
        staged = stage(frame, stager)
        return Collected(few_in(staged, arrow_schema(frame.schema)), parts=parts_in(staged))
    return Collected(frame.toArrow())


def collected_results(level: Level, planned: Planned) -> Collected:
    """What an output is given that is just what an operator emits."""
    node, rows = planned.node, level.rows(planned.node)
    if isinstance(node, TableOperator):
        return Collected(_changes_of(rows, key_of(node)))
    if not isinstance(node, MAKING):
        return Collected(rows, parts=tuple(map(Part.from_json, level.parts(node))))
    if node.keyed:
        return Collected(rows.drop_columns([BEFORE]) if BEFORE in rows.column_names else rows)
    found, missing = _parted(rows)
    return Collected(found.select([name for name in rows.column_names if not name.startswith("_")]), missing)


def _changes_of(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """What an operator of tables emits, each change once: two shards may have emitted one side each."""
    if SIDE not in rows.column_names:
        return moved_together(rows, key)
    was = pc.equal(rows[SIDE], BEFORE_SIDE)
    before, after = (_one_batch(rows.filter(mask).drop_columns([SIDE])) for mask in (was, pc.invert(was)))
    return pa.Table.from_batches([paired_changes(before, after, key)]).drop_columns([BEFORE])


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return pa.concat_batches(rows.to_batches()) if rows.num_rows else pa.RecordBatch.from_pylist([], rows.schema)


def _parted(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Results that are rows for a sink, and those that lack a partner which they had to have."""
    found, missing = [], []
    for batch in rows.to_batches():
        unmatched = batch.column(MISSING)
        if unmatched.true_count:
            missing.append(batch.filter(unmatched))
            batch = batch.filter(pc.invert(unmatched))
        found.append(batch)
    return pa.Table.from_batches(found, rows.schema), pa.Table.from_batches(missing, rows.schema)
