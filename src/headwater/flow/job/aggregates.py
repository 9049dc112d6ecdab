"""Read the aggregates a user wrote, as Spark understood them: which function of which expression.

Spark analyses the query with the user's own columns or SQL text; what comes out are its expressions, resolved and
typed. Each aggregate's arguments become input columns `_in0`, `_in1`, ... that a batch is reduced over.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare import nodes
from headwater.flow.job.arrow_types import arrow_type
from headwater.flow.job.explaining import explain
from headwater.flow.job.stateless import column_of, quoted
from headwater.flow.operators.aggregates import TIMED, Aggregate

KINDS = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "collect_list": "collect",
    "array_agg": "collect",
    "collect_set": "collect_set",
    "first": "first",
    "first_value": "first",
    "any_value": "first",
    "last": "last",
    "last_value": "last",
    "min_by": "first",
    "max_by": "last",
}
TIME = "_event_time"


@dataclass(frozen=True)
class Aggregates:
    """What is kept for a key, and the frame that Spark reduces: the key, inputs, and the position where it matters."""

    specs: tuple[Aggregate, ...]
    inputs: DataFrame
    key: pa.Schema


def read_aggregates(node: nodes.Aggregate, frame: DataFrame) -> Aggregates:
    """InvalidDeclaration, with its place, if something cannot be kept from batch to batch."""
    try:
        grouped = frame.groupBy(*map(quoted, node.key)).agg(*map(column_of, node.aggregates))
        analysed = grouped._jdf.queryExecution().analyzed()
    except Exception as error:
        raise InvalidDeclaration(f"agg at {node.place}: {explain(error)}") from error
    expressions = analysed.aggregateExpressions()
    reading = _Reading(node, frame)
    for place in range(len(node.key), expressions.size()):
        reading.add(expressions.apply(place))
    key = pa.schema([pa.field(name, arrow_type(frame.schema[name].dataType)) for name in node.key])
    return Aggregates(tuple(reading.specs), reading.inputs(), key)


class _Reading:
    def __init__(self, node: nodes.Aggregate, frame: DataFrame) -> None:
        self._node, self._frame = node, frame
        self._columns: list[Column] = []
        self.specs: list[Aggregate] = []

    def add(self, expression: Any) -> None:
        name = expression.name() if _kind(expression) == "Alias" else ""
        call = expression.child() if name else expression
        if _kind(call) != "AggregateExpression":
            raise self._refusal(
                f"`{expression.sql()}` is not a single aggregate",
                "Keep its parts under names of their own, and combine them behind with .with_columns(...).",
            )
        function = call.aggregateFunction()
        kind = KINDS.get(function.prettyName())
        if kind is None or call.isDistinct():
            what = f"{'distinct ' if call.isDistinct() else ''}{function.prettyName()}"
            raise self._refusal(
                f"{what} cannot be kept from batch to batch", f"There are: {', '.join(sorted(set(KINDS)))}."
            )
        self.specs.append(self._spec(kind, name or expression.sql(), function, call.filter()))

    def _spec(self, kind: str, name: str, function: Any, condition: Any) -> Aggregate:
        arguments = [function.children().apply(place) for place in range(function.children().size())]
        ordered = function.prettyName() in ("min_by", "max_by")
        all_rows = kind == "count" and _kind(arguments[0]) == "Literal" and not condition.isDefined()
        if kind == "count" and len(arguments) > 1:
            raise self._refusal("count of several columns cannot be kept", "Count one column, or count(*).")
        if name.startswith("_"):
            raise self._refusal(f"column {name} begins with _, which is reserved", "Give it another name.")
        if all_rows:
            return Aggregate("count", name)
        column, type_ = self._input(arguments[0], condition)
        time, time_type = self._input(arguments[1], condition) if ordered else (TIME, pa.timestamp("us", "UTC"))
        timed = kind in TIMED
        return Aggregate(
            kind, name, column, type_,
            time=time if timed else None, time_type=time_type if timed else None,
            ignore_nulls=kind in ("first", "last") and not ordered and _ignores_nulls(function),
        )  # fmt: skip

    def _input(self, expression: Any, condition: Any) -> tuple[str, pa.DataType]:
        jvm = self._frame.sparkSession.sparkContext._jvm
        assert jvm is not None
        utilities = jvm.org.apache.spark.sql.classic.ExpressionUtils
        make = type(f.lit(1))
        column = make(utilities.column(expression))
        if condition.isDefined():
            column = f.when(make(utilities.column(condition.get())), column)
        name = f"_in{len(self._columns)}"
        self._columns.append(column.alias(name))
        type_ = self._frame.select(column.alias(name)).schema[0].dataType
        return name, arrow_type(type_)

    def inputs(self) -> DataFrame:
        position = []
        if any(spec.kind in TIMED for spec in self.specs):
            position = [
                f.col("_at.time").alias(TIME), f.col("_at.source").cast("string").alias("_topic"),
                f.col("_at.partition").alias("_partition"), f.col("_at.offset").alias("_offset"),
            ]  # fmt: skip
        return self._frame.select(*(f.col(quoted(name)) for name in self._node.key), *self._columns, *position)

    def _refusal(self, message: str, hint: str) -> InvalidDeclaration:
        return InvalidDeclaration(f"agg at {self._node.place}: {message}", hint)


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _ignores_nulls(function: Any) -> bool:
    return bool(function.ignoreNulls()) if hasattr(function, "ignoreNulls") else False
