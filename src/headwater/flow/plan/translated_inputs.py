"""Which inputs of operators need no step of Spark's: their rows are read from the log, or from results of operators."""

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.flow.declare.topology.graph import Job
from headwater.flow.declare.topology.nodes import (
    MAKING,
    STATEFUL,
    Join,
    Node,
    Select,
    Source,
    SourceStream,
    SourceTable,
    SourceVersions,
    TableAggregate,
    TableOperator,
    Where,
    WithColumns,
    generates,
)
from headwater.flow.expressions.spark.steps import steps_of
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.operators.spark_hashes import can_hash
from headwater.flow.prepare.inputs import AnyPrepare, InputSteps, LogSteps, ResultSteps
from headwater.flow.prepare.join_sides import PrepareEvents, PrepareTable
from headwater.flow.prepare.late_bounds import MarkLate
from headwater.flow.prepare.newest_rows import HashByKey, NewestByKey
from headwater.flow.prepare.reduced_rows import ReduceByKey, ReduceByWindow
from headwater.flow.rows.arrow_types import arrow_schema
from headwater.flow.rows.deletion_keys import can_be_read as can_be_key
from headwater.flow.rows.evaluation import Evaluation


def input_steps(
    job: Job, node: Node, number: int, frame: DataFrame, prepare: AnyPrepare, evaluation: Evaluation
) -> InputSteps:
    """How tasks make an input of an operator without Spark; Untranslatable if they cannot. `frame` is that input."""
    below = node if isinstance(node, SourceTable) else _below(node.inputs[number])
    if isinstance(node, SourceTable) or isinstance(below, SourceStream):
        assert isinstance(below, SourceStream | SourceTable)
        if not _can_be_read(below, prepare):
            raise Untranslatable(f"times or keys of {below.name} in types that Spark reads")
        rows = evaluation.frames[below]
        return LogSteps(job.sources.index(below), arrow_schema(rows.schema), steps_of(frame, rows), prepare)
    if isinstance(below, MAKING) and not below.keyed and not isinstance(prepare, HashByKey):
        return ResultSteps(below, steps_of(frame, evaluation.made_rows(below)), prepare)
    if isinstance(below, STATEFUL) and below.keyed and isinstance(node, Join | TableAggregate | TableOperator):
        return ResultSteps(below, steps_of(frame, evaluation.sides(below)), prepare)
    raise Untranslatable("rows of more than one source, or steps that make several rows of one")


def _below(node: Node) -> Node:
    """What a node is but for steps that look at one row and make at most one of it."""
    while isinstance(node, Where | Select | WithColumns) and not generates(node):
        node = node.input
    return node


def _can_be_read(source: Source, prepare: AnyPrepare) -> bool:
    """Whether tasks that read a source can prepare its rows for an operator: its times and keys need no Spark."""
    if not isinstance(prepare, ReduceByKey | ReduceByWindow | NewestByKey | MarkLate | PrepareEvents | PrepareTable):
        return False  # rows of tables, or rows whose position is among their columns
    if not isinstance(prepare, PrepareEvents | PrepareTable):
        key = prepare.by if isinstance(prepare, ReduceByWindow) else prepare.key
        if not all(can_hash(field.type) for field in key):
            return False
    kinds = {field.name: field.type for field in source.schema.fields}
    times = [source.time] if isinstance(source, SourceStream) else []
    if isinstance(source, SourceVersions):
        times += [source.valid_from, source.valid_to]
    if isinstance(source, SourceVersions | SourceTable) and not all(can_be_key(kinds[name]) for name in source.key):
        return False
    return all(kinds[name] == pa.timestamp("us", "UTC") for name in times if name is not None)
