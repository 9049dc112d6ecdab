"""What every output of a job will hold, found out with empty frames before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.columns import checked_key
from headwater.flow.declare.checks.mistakes import Mistakes
from headwater.flow.declare.joins import counting_behind
from headwater.flow.declare.topology.graph import Job, Planned
from headwater.flow.declare.topology.nodes import Apply, Join, Node, Sql, TableOperator, Windowed, generates, walk
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.local.frames import local_frame
from headwater.flow.operate.job_operators import AnyOperator
from headwater.flow.operate.level_blocks import InputKey
from headwater.flow.operate.tables.table_inputs import sides_frame, table_operator
from headwater.flow.plan.translated_inputs import input_steps
from headwater.flow.prepare.inputs import AnyPrepare, InputSteps, input_of
from headwater.flow.prepare.join_inputs import join_operator, side_frame, side_preparations
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.rows.evaluation import Evaluation
from headwater.flow.rows.row_steps import plan_nodes, visible
from headwater.flow.rows.sources import frames_of, source_frame

MULTIPLYING = {"Generate", "Union", "Expand", "MapInArrow", "MapInPandas", "MapPartitions"}
"""What Spark calls steps that may make several rows of one."""
CLOCKS = ("current_timestamp", "current_date", "localtimestamp")


@dataclass(frozen=True)
class Resolved:
    """An output's key and its columns, and what it keeps state with."""

    key: tuple[str, ...]
    schema: pa.Schema
    operators: Mapping[Node, AnyOperator] = field(default_factory=dict)
    inputs: Mapping[InputKey, InputSteps] = field(default_factory=dict)
    """Inputs of operators whose rows tasks can make themselves, from the log or from what other operators emit."""
    by_spark: Mapping[InputKey, str] = field(default_factory=dict)
    """Others, and what of them only Spark can evaluate."""


def resolve_all(session: SparkSession, jobs: Sequence[Job]) -> list[dict[str, Resolved]]:
    """Job by job; InvalidDeclaration has the mistakes of all of them."""
    mistakes, resolved = Mistakes(), []
    for job in jobs:
        with mistakes.gathered():
            resolved.append(resolve(session, job))
    mistakes.refuse()
    return resolved


def resolve(session: SparkSession, job: Job) -> dict[str, Resolved]:
    """InvalidDeclaration, with lines, if Spark does not accept a step or an output's key is not what it says; the
    mistakes of all outputs are in it."""
    empty = session.createDataFrame([], spark_schema(source_frame(job).arrow))
    found: dict[Node, AnyOperator] = {}
    inputs: dict[InputKey, InputSteps] = {}
    by_spark: dict[InputKey, str] = {}

    def operate(node: Node, frames: Sequence[DataFrame]) -> DataFrame:
        for one in frames:
            refuse_chance(one, node)
        refuse_several(frames[0], node)
        found[node], given = _operator(node, frames, job.operators[node])
        for number, (frame, prepare) in enumerate(given):
            try:
                inputs[node, number] = input_steps(job, node, number, frame, prepare, evaluation)
            except Untranslatable as error:
                by_spark[node, number] = str(error)
        return session.createDataFrame([], spark_schema(found[node].output))

    evaluation = Evaluation(partial(frames_of, job, empty), operate)
    mistakes, resolved = Mistakes(), dict[Planned, Resolved]()
    for planned in job.outputs:
        with mistakes.gathered():
            resolved[planned] = _resolved(planned, evaluation)
    mistakes.refuse()
    return {
        planned.name: replace(
            one,
            operators={node: found[node] for node in walk(planned.node) if node in found},
            inputs={key: steps for key, steps in inputs.items() if key[0] in walk(planned.node)},
            by_spark={key: reason for key, reason in by_spark.items() if key[0] in walk(planned.node)},
        )
        for planned, one in resolved.items()
    }


def _operator(
    node: Node, frames: Sequence[DataFrame], name: str
) -> tuple[AnyOperator, list[tuple[DataFrame, AnyPrepare]]]:
    """An operator, and of each of its inputs the columns that it needs and how rows are prepared."""
    if isinstance(node, TableOperator) and not isinstance(node, Join):
        kept = table_operator(node, frames, name)
        return kept, [(sides_frame(one), prepare) for one, prepare in zip(frames, kept.prepares, strict=True)]
    if not isinstance(node, Join):
        own = input_of(node, frames[0], name)
        return own.operator, [(own.frame, own.prepare)]
    join = join_operator(node, frames[0], frames[1], name)
    chosen = [side_frame(node, number, frame) for number, frame in enumerate(frames)]
    return join, list(zip(chosen, side_preparations(node, join, shards=1), strict=True))


def _resolved(planned: Planned, evaluation: Evaluation) -> Resolved:
    node, output = planned.node, planned.output
    frame = evaluation.changes(node) if node.keyed else evaluation.rows(node, node)
    refuse_chance(frame, node)
    names = visible(frame)
    key = checked_key(output, node, names)
    schema = arrow_schema(frame.select(*(f"`{name}`" for name in names)).schema)
    return Resolved(key, schema)


def refuse_several(frame: DataFrame, node: Node) -> None:
    """Windows that need the order of rows, after a free function, SQL or a column that may make several rows of one."""
    if isinstance(node, Windowed) and node.window.ordered:
        free = [one for one in walk(node) if isinstance(one, Apply | Sql) or generates(one)]
        if free and plan_nodes(frame) & MULTIPLYING:
            raise counting_behind(f"window at {node.place}", f"{type(free[0]).__name__.lower()} at {free[0].place}")


def refuse_chance(frame: DataFrame, node: Node) -> None:
    """A batch that comes again after a crash must give the same rows again."""
    if local_frame(frame) is not None:  # such functions have no translation
        return
    analysed = frame._jdf.queryExecution().analyzed()
    clocks = [name for name in CLOCKS if f"{name}(" in analysed.toString()]
    if clocks or not analysed.deterministic():
        what = f"{clocks[0]}()" if clocks else "a function whose result is left to chance, such as rand() or uuid()"
        raise InvalidDeclaration(
            f"what is made at {node.place} uses {what}: a batch that is run again would give other rows",
            "Use the time of the rows, or a hash of their columns.",
        )
