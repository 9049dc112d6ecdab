"""What every output of a job will hold, found out with empty frames before anything runs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.columns import checked_key
from headwater.flow.declare.graph import Job, Planned
from headwater.flow.declare.joins import counting_behind
from headwater.flow.declare.mistakes import Mistakes
from headwater.flow.declare.nodes import (
    Apply,
    AsOfJoin,
    IntervalJoin,
    Join,
    Node,
    SourceTable,
    Sql,
    Windowed,
    generates,
    walk,
)
from headwater.flow.expressions.spark_steps import steps_of
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.joins.direct_reading import ReadSteps, Translated, can_be_read, source_below
from headwater.flow.local.frames import local_frame
from headwater.flow.operate.job_operators import AnyOperator, LogSteps, Operators
from headwater.flow.operators.windows.shapes import Count
from headwater.flow.prepare.inputs import Input, input_of
from headwater.flow.rows.arrow_types import arrow_schema, spark_schema
from headwater.flow.rows.counters import Counter
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
    steps: Translated = field(default_factory=dict)
    """Steps before joins that tasks which read the log can do themselves."""
    inputs: Mapping[Node, LogSteps] = field(default_factory=dict)
    """Operators with one input whose rows tasks that read the log can make themselves."""
    by_spark: Mapping[Node, str] = field(default_factory=dict)
    """Others that read a source, and what of them only Spark can evaluate."""


def resolve_all(session: SparkSession, jobs: Sequence[Job]) -> list[dict[str, Resolved]]:
    """Job by job; InvalidDeclaration has the mistakes of all of them."""
    mistakes, resolved = Mistakes(), []
    for job in jobs:
        with mistakes.gathered():
            resolved.append(resolve(session, job))
    mistakes.refuse()
    return resolved


def resolve(session: SparkSession, job: Job) -> dict[str, Resolved]:
    """InvalidDeclaration, with places, if Spark does not accept a step or an output's key is not what it says; the
    mistakes of all outputs are in it."""
    empty = session.createDataFrame([], spark_schema(source_frame(job).arrow))
    reducing = Operators.describing(job.operators)
    found: dict[Node, AnyOperator] = {}
    steps: dict[Node, ReadSteps] = {}
    inputs: dict[Node, LogSteps] = {}
    by_spark: dict[Node, str] = {}

    def operate(node: Node, *given: Any) -> DataFrame:
        *frames, _ = given
        for one in frames:
            refuse_chance(one, node)
        refuse_several(frames[0], node)
        if isinstance(node, Join):
            found[node] = reducing.prepared(node, frames[0], frames[1], (Counter(), Counter())).operator
            if isinstance(node, IntervalJoin | AsOfJoin):
                steps.update(_read_steps(node, frames, evaluation))
        else:
            own = input_of(node, frames[0], job.operators[node], reducing.times)
            found[node] = own.operator
            try:
                inputs[node] = _log_steps(job, node, own, evaluation)
            except Untranslatable as error:
                by_spark[node] = str(error)
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
            steps={node: steps[node] for node in walk(planned.node) if node in steps},
            inputs={node: inputs[node] for node in walk(planned.node) if node in inputs},
            by_spark={node: by_spark[node] for node in walk(planned.node) if node in by_spark},
        )
        for planned, one in resolved.items()
    }


def _log_steps(job: Job, node: Node, given: Input, evaluation: Evaluation) -> LogSteps:
    """How tasks that read the log make the input of an operator; Untranslatable if only Spark can."""
    start = node if isinstance(node, SourceTable) else source_below(node.inputs[0])
    if start is None:
        raise Untranslatable("rows of more than one source, or steps that make several rows of one")
    if not can_be_read(start, given.prepare):
        raise Untranslatable(f"times or keys of {start.name} in types that Spark reads")
    rows = evaluation.frames[start]
    return LogSteps(job.sources.index(start), arrow_schema(rows.schema), steps_of(given.frame, rows), given.prepare)


def _read_steps(node: Join, frames: Sequence[DataFrame], evaluation: Evaluation) -> dict[Node, ReadSteps]:
    """Of each input of a join that is a source with steps behind it, those steps, where they have a translation."""
    found = {}
    for start, frame in zip(node.inputs, frames, strict=True):
        source = source_below(start)
        if source is not None and start is not source:
            with suppress(Untranslatable):
                rows = evaluation.frames[source]
                found[start] = ReadSteps(arrow_schema(rows.schema), steps_of(frame, rows))
    return found


def _resolved(planned: Planned, evaluation: Evaluation) -> Resolved:
    node, output = planned.node, planned.output
    frame = evaluation.changes(node) if node.keyed else evaluation.rows(node, node)
    refuse_chance(frame, node)
    names = visible(frame)
    key = checked_key(output, node, names)
    schema = arrow_schema(frame.select(*(f"`{name}`" for name in names)).schema)
    return Resolved(key, schema)


def refuse_several(frame: DataFrame, node: Node) -> None:
    """Windows by count, behind a free function, SQL or a column that may make several rows of one."""
    if isinstance(node, Windowed) and isinstance(node.window, Count):
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
