"""From an operator's node and the frame of its input to what the operator is, and how rows are prepared for it.

The frame has the columns that the operator needs and no others: it is what Spark evaluates where it has to, and what is
translated where tasks read the log themselves (rows/log_rows.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import (
    Aggregate,
    Compared,
    Dedupe,
    History,
    KMeans,
    Latest,
    Newest,
    Node,
    Recognized,
    SourceStream,
    SourceTable,
    TableAggregate,
    Windowed,
    sources_of,
)
from headwater.flow.expressions.steps import Steps
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.deduplicator import APART, Deduplicator
from headwater.flow.operate.grouping.group_operator import GroupOperator
from headwater.flow.operate.grouping.table_rows import WeighRows, grouped_table
from headwater.flow.operate.history_operator import versioned_rows
from headwater.flow.operate.model_operator import model_points
from headwater.flow.operate.newest_operator import grouped_rows
from headwater.flow.operate.patterns.pattern_operator import PatternOperator
from headwater.flow.operate.reports import Operator
from headwater.flow.operate.shard_operator import ShardOperator
from headwater.flow.operate.window_comparison import compared_windows
from headwater.flow.operate.window_operator import WindowOperator
from headwater.flow.operators import latest
from headwater.flow.operators.keyed import inner_key
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.window import Windowed as WindowedWork
from headwater.flow.plan.delays import held_us
from headwater.flow.prepare.aggregates import read_aggregates
from headwater.flow.prepare.join_sides import PrepareEvents, PrepareTable
from headwater.flow.prepare.late_bounds import MarkLate
from headwater.flow.prepare.newest_rows import HashByKey, NewestByKey
from headwater.flow.prepare.pattern_inputs import recognised_rows
from headwater.flow.prepare.reduced_rows import ReduceByKey, ReduceByWindow
from headwater.flow.prepare.table_sides import PrepareSides
from headwater.flow.rows.arrow_types import arrow_schema, arrow_type
from headwater.flow.rows.row_batch import flat_schema
from headwater.flow.rows.row_steps import PATH, visible
from headwater.flow.rows.sources import AT, DELETED
from headwater.flow.rows.tie_breaking import path_order

ORDER = {"_at_time": "time", "_at_source": "source", "_at_partition": "partition", "_at_offset": "offset"}
ORDER_OF_CHANGELOGS = {"_at_partition": "partition", "_at_offset": "offset"}
"""The position of a record says which of two is newer, as it does for compaction; clocks of producers may go back."""

KeyedOperator = Operator | Deduplicator | ShardOperator[Any]
InputOperator = KeyedOperator | GroupOperator | PatternOperator
"""An operator with one input, whose state is one store, or several."""
OfTables = WeighRows | PrepareSides
AnyPrepare = ReduceByKey | ReduceByWindow | NewestByKey | HashByKey | MarkLate | PrepareEvents | PrepareTable | OfTables


@dataclass(frozen=True)
class LogSteps:
    """How an operator's input is made of a source by tasks that read the log: the number of the source, the columns of
    its rows, the steps, and how rows are prepared."""

    source: int
    read: pa.Schema
    steps: Steps
    prepare: AnyPrepare


@dataclass(frozen=True)
class ResultSteps:
    """How an operator's input is made of what another operator, `base`, emits."""

    base: Node
    steps: Steps
    prepare: AnyPrepare


InputSteps = LogSteps | ResultSteps


@dataclass(frozen=True)
class Input:
    """An operator with one input, the columns it needs, and how rows are prepared for its shards."""

    operator: InputOperator
    frame: DataFrame
    prepare: AnyPrepare


def input_of(node: Node, frame: DataFrame, name: str) -> Input:
    """InvalidDeclaration if the frame lacks what the operator needs."""
    match node:
        case Windowed():
            return _windowed(node, frame, name)
        case TableAggregate():
            return Input(*grouped_table(node, frame, name))
        case Aggregate():
            return _aggregated(node, frame, name)
        case Dedupe():
            return _deduplicated(node, frame, name)
        case Latest() | SourceTable():
            return _newest(node, frame, name)
        case Newest():
            return _hashed(*grouped_rows(node, frame, name), node.key)
        case History():
            return _hashed(*versioned_rows(node, frame, name), node.by)
        case Compared():
            return _hashed(*compared_windows(node, frame, name), node.windowed.by)
        case Recognized():
            return Input(*recognised_rows(node, frame, name))
        case KMeans():
            return _hashed(*model_points(node, frame, name), node.windowed.by)
    raise AssertionError(f"{type(node).__name__} is no operator with one input")


def _hashed(operator: ShardOperator[Any], frame: DataFrame, key: Sequence[str]) -> Input:
    return Input(operator, frame, HashByKey(tuple(key), flat_schema(arrow_schema(frame.schema))))


def _position(frame: DataFrame) -> list[str]:
    return [AT] if AT in frame.columns else []


def _aggregated(node: Aggregate, frame: DataFrame, name: str) -> Input:
    read = read_aggregates(node, frame)
    columns = [column.alias(one) for one, column in read.columns.items()]
    inputs = frame.select(*map(quoted, node.key), *columns, *_position(frame))
    return Input(Operator(name, read.key, read.specs), inputs, ReduceByKey(inner_key(read.key), read.specs))


def _windowed(node: Windowed, frame: DataFrame, name: str) -> Input:
    if AT not in frame.columns:
        raise InvalidDeclaration(f"window at {node.place} comes after a step that drops when rows happened")
    emission = node.emission
    read = read_aggregates(Aggregate(node.place, node.input, node.by, node.aggregates, node.name), frame)
    if taken := [spec.name for spec in read.specs if spec.name in node.reserved]:
        raise InvalidDeclaration(
            f"agg at {node.place} makes column {taken[0]}, which windows have themselves", "Give it another name."
        )
    lateness_us = max((one.lateness_us for one in sources_of(node) if isinstance(one, SourceStream)), default=0)
    clock = WindowClock(None, None, emission.horizon_us, emission.kind, emission.early)
    work = WindowedWork(
        node.window, read.key, read.specs, lateness_us + held_us(node) + emission.horizon_us, clock.marks_final
    )
    operator = WindowOperator(name, work, clock, node.processing)
    columns = [column.alias(one) for one, column in read.columns.items()]
    inputs = frame.select(*map(quoted, node.by), *columns, AT)
    return Input(operator, inputs, window_rows_of(operator, None))


def window_rows_of(operator: WindowOperator, processed_us: int | None, *, counted: bool = True) -> ReduceByWindow:
    """How rows are prepared for windows, as far as the clock has come."""
    work, clock = operator.work, operator.clock
    return ReduceByWindow(
        work.by, work.window, work.specs, operator.given, clock.watermark_us, clock.horizon_us,
        processed_us if operator.processing else None, counted=counted,
    )  # fmt: skip


def _deduplicated(node: Dedupe, frame: DataFrame, name: str) -> Input:
    if AT not in frame.columns:
        raise InvalidDeclaration(f"dedupe at {node.place} comes after a step that drops when rows happened")
    rows = flat_schema(arrow_schema(frame.schema))
    key = pa.schema([rows.field(one) for one in node.key])
    ties = {APART: path_order(frame)} if PATH in frame.columns else {}
    operator = Deduplicator(name, key, rows, node.within_us, ties=bool(ties))
    inputs = frame.withColumns(ties) if ties else frame.select(*map(quoted, frame.columns))
    return Input(operator, inputs, MarkLate(key, operator.given))


def _newest(node: Latest | SourceTable, frame: DataFrame, name: str) -> Input:
    values = [one for one in visible(frame) if one not in node.key]
    kinds = {field.name: arrow_type(field.dataType) for field in frame.schema}
    at = {field.name: field.type for field in kinds[AT]}
    order = ORDER_OF_CHANGELOGS if isinstance(node, SourceTable) else ORDER
    ties = [("_at_path", pa.int64())] if PATH in frame.columns else []
    work = latest.Latest(
        pa.schema([*((own, at[part]) for own, part in order.items()), *ties]),
        pa.schema([(one, kinds[one]) for one in values]),
    )
    key = pa.schema([(one, kinds[one]) for one in node.key])
    paths = [path_order(frame).alias("_at_path")] if ties else []
    deleted = [DELETED] if DELETED in frame.columns else []
    inputs = frame.select(*map(quoted, visible(frame)), AT, *deleted, *paths)
    return Input(Operator(name, key, work), inputs, NewestByKey(key, work))
