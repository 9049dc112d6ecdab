"""What every output of a job will hold, found out with empty frames before anything runs."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.graph import Job, Planned
from headwater.flow.declare.joins import counting_behind
from headwater.flow.declare.nodes import Apply, Node, Sql, Windowed, key_of, walk
from headwater.flow.job.arrow_types import arrow_schema, spark_schema
from headwater.flow.job.counting import Counter
from headwater.flow.job.evaluating import Evaluation
from headwater.flow.job.operating import AnyOperator, Operators
from headwater.flow.job.sources import frames_of, source_frame
from headwater.flow.job.stateless import plan_nodes, visible
from headwater.flow.operators.windows.shapes import Count

MULTIPLYING = {"Generate", "Union", "Expand", "MapInArrow", "MapInPandas", "MapPartitions"}
"""What Spark calls steps that may make several rows of one."""
CLOCKS = ("current_timestamp", "current_date", "localtimestamp")


@dataclass(frozen=True)
class Resolved:
    """An output's key and its columns, and what it keeps state with."""

    key: tuple[str, ...]
    schema: pa.Schema
    operators: Mapping[Node, AnyOperator] = field(default_factory=dict)


def resolve(session: SparkSession, job: Job) -> dict[str, Resolved]:
    """InvalidDeclaration, with a place, if Spark does not accept a step or an output's key is not what it says."""
    empty = session.createDataFrame([], spark_schema(source_frame(job).arrow))
    reducing = Operators.describing(job.operators)
    found: dict[Node, AnyOperator] = {}

    def operate(node: Node, frame: DataFrame, counter: Counter, *others: DataFrame) -> DataFrame:
        for one in (frame, *others):
            refuse_chance(one, node)
        refuse_several(frame, node)
        found[node], _ = reducing.reduced(node, frame, Counter(), *others)
        return session.createDataFrame([], spark_schema(found[node].output))

    evaluation = Evaluation(partial(frames_of, job, empty), operate)
    resolved = {planned: _resolved(planned, evaluation) for planned in job.outputs}
    return {
        planned.name: replace(one, operators={node: found[node] for node in walk(planned.node) if node in found})
        for planned, one in resolved.items()
    }


def _resolved(planned: Planned, evaluation: Evaluation) -> Resolved:
    node, output = planned.node, planned.output
    frame = evaluation.changes(node) if node.keyed else evaluation.rows(node, node)
    refuse_chance(frame, node)
    names = visible(frame)
    for name in output.key:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names)}."
            raise InvalidDeclaration(f"the key of {output} is {name}, which is not in its result", hint)
    key = output.key
    if node.keyed:
        own = key_of(node)
        if missing := [name for name in own if name not in names]:
            raise InvalidDeclaration(f"{output} drops {missing[0]}, which is part of its table's key")
        key = key or own
        if set(key) != set(own):
            raise InvalidDeclaration(
                f"the key of {output} is {', '.join(key)}, and its table has a row for each {', '.join(own)}",
                f"Use key={list(own)!r}, or group by {', '.join(key)}.",
            )
    schema = arrow_schema(frame.select(*(f"`{name}`" for name in names)).schema)
    return Resolved(key, schema)


def refuse_several(frame: DataFrame, node: Node) -> None:
    """Windows by count, behind a free function or SQL that may make several rows of one."""
    if isinstance(node, Windowed) and isinstance(node.window, Count):
        free = [one for one in walk(node) if isinstance(one, Apply | Sql)]
        if free and plan_nodes(frame) & MULTIPLYING:
            raise counting_behind(f"window at {node.place}", f"{type(free[0]).__name__.lower()} at {free[0].place}")


def refuse_chance(frame: DataFrame, node: Node) -> None:
    """A batch that comes again after a crash must give the same rows again."""
    analysed = frame._jdf.queryExecution().analyzed()
    clocks = [name for name in CLOCKS if f"{name}(" in analysed.toString()]
    if clocks or not analysed.deterministic():
        what = f"{clocks[0]}()" if clocks else "a function whose result is left to chance, such as rand() or uuid()"
        raise InvalidDeclaration(
            f"what is made at {node.place} uses {what}: a batch that is run again would give other rows",
            "Use the time of the rows, or a hash of their columns.",
        )
