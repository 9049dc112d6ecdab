"""The aggregates of a declaration as they are understood: by Spark's analyser, or without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.flow.expressions.resolution.coercion import is_number
from headwater.flow.expressions.resolution.unresolved import Call, CastTo, Constant, Named, Unresolved
from headwater.flow.expressions.tree import LITERAL, Untranslatable
from headwater.flow.formats.schema import quoted
from headwater.flow.local.columns import LocalColumn, column_node
from headwater.flow.local.frames import LocalFrame
from headwater.flow.operators.aggregation.kinds.kind import AS_DOUBLE, FLAG, NUMBER, Function
from headwater.flow.operators.aggregation.kinds.registry import FUNCTIONS


@dataclass(frozen=True)
class AnalysedAggregate:
    """One aggregate: `function` is the name Spark has for it, empty if it is no single aggregate."""

    name: str
    """That it was given, or else what it says."""
    function: str
    arguments: Sequence[Column] = ()
    distinct: bool = False
    condition: Column | None = None
    of_literal: bool = False
    """Its first argument is the same in every row."""
    ignores_nulls: bool = False


def analysed_by_spark(columns: list[Column], key: Sequence[str], frame: DataFrame) -> list[AnalysedAggregate]:
    grouped = frame.groupBy(*map(quoted, key)).agg(*columns)
    found = grouped._jdf.queryExecution().analyzed().aggregateExpressions()
    return [_of_spark(found.apply(place), frame) for place in range(len(key), found.size())]


def _of_spark(expression: Any, frame: DataFrame) -> AnalysedAggregate:
    name = expression.name() if _kind(expression) == "Alias" else ""
    call = expression.child() if name else expression
    said = name or expression.sql()
    if _kind(call) != "AggregateExpression":
        return AnalysedAggregate(str(expression.sql()), "")
    function, condition = call.aggregateFunction(), call.filter()
    children = [function.children().apply(place) for place in range(function.children().size())]
    return AnalysedAggregate(
        said, function.prettyName(), [_column(one, frame) for one in children], call.isDistinct(),
        _column(condition.get(), frame) if condition.isDefined() else None, _kind(children[0]) == "Literal",
        _may_ignore_nulls(function.prettyName()) and bool(function.ignoreNulls()),
    )  # fmt: skip


def _may_ignore_nulls(name: str) -> bool:
    known = FUNCTIONS.get(name)
    return known is not None and known.kind in ("first", "last") and known.arguments == 1


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _column(expression: Any, frame: DataFrame) -> Column:
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None
    make = type(f.lit(1))
    return make(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def analysed_locally(columns: list[Any], frame: LocalFrame) -> list[AnalysedAggregate]:
    return [_of_local(column_node(one), frame) for one in columns]


def _of_local(node: Unresolved, frame: LocalFrame) -> AnalysedAggregate:
    if not isinstance(node, Named):
        raise Untranslatable("an aggregate without a name of its own")
    call = node.input
    known = FUNCTIONS.get(call.name) if isinstance(call, Call) else None
    if not isinstance(call, Call) or known is None or not known.takes or not _has_enough(call, known):
        raise Untranslatable(f"{node.name}, which is no aggregate that is known here")
    inputs = [_fitting(call.name, known.takes, one, frame) for one in call.inputs]
    condition = None if call.condition is None else LocalColumn(call.condition)
    if condition is not None and not pa.types.is_boolean(frame.resolved(condition).type):
        raise Untranslatable("a filter that is no condition")
    first = frame.resolved(LocalColumn(inputs[0]))
    return AnalysedAggregate(
        node.name, call.name, [cast("Column", LocalColumn(one)) for one in inputs], call.distinct,
        cast("Column | None", condition), first.kind == LITERAL and isinstance(inputs[0], Constant), call.ignore_nulls,
    )  # fmt: skip


def _has_enough(call: Call, known: Function) -> bool:
    """Of several columns there is count alone: of rows in which none is null."""
    return len(call.inputs) == known.arguments or (known.kind == "count" and len(call.inputs) > 1)


def _fitting(name: str, takes: str, node: Unresolved, frame: LocalFrame) -> Unresolved:
    """The argument in a type that the aggregate takes."""
    kind = frame.resolved(LocalColumn(node)).type
    if (takes in (NUMBER, AS_DOUBLE) and not is_number(kind)) or (takes == FLAG and not pa.types.is_boolean(kind)):
        raise Untranslatable(f"{name} of {kind}")
    if pa.types.is_null(kind):
        raise Untranslatable(f"{name} of null")
    return CastTo(node, "double") if takes == AS_DOUBLE and not pa.types.is_float64(kind) else node
