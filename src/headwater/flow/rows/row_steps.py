"""The steps that look at one row at a time, as Spark does them.

Hidden columns (their names begin with `_`) travel with every row: `_at` says where a fact lies in time and in the log,
`_path`, of rows that a join has made, which of those that lie there it is.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.topology.nodes import (
    Apply,
    Explode,
    Expression,
    Node,
    Select,
    Sql,
    Union,
    Where,
    WithColumns,
)
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.formats.schema import quoted
from headwater.flow.local.frames import local_frame
from headwater.flow.plan.explanations import explain
from headwater.flow.rows.counters import Counter

ROW_WISE = {
    "Project", "Filter", "SubqueryAlias", "View", "Generate", "Union", "CollectMetrics", "LogicalRDD", "LocalRelation",
    "Range", "MapInArrow", "MapInPandas", "LogicalRelation", "RelationV2", "InMemoryRelation", "OneRowRelation",
    "DataSourceV2Relation", "StreamingDataSourceV2ScanRelation", "ResolvedHint", "MapPartitions",
    "SerializeFromObject", "DeserializeToObject", "MapElements", "ArrowEvalPython", "BatchEvalPython", "Repartition",
    "RepartitionByExpression", "Expand", "ExternalRDD", "DataSourceV2ScanRelation", "StreamingRelation",
}  # fmt: skip

PATH = "_path"


def visible(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if not name.startswith("_")]


def hidden(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if name.startswith("_")]


def column_of(expression: Expression) -> Column:
    return f.expr(expression) if isinstance(expression, str) else expression


def apply_step(node: Node, frames: list[DataFrame], counter: Counter) -> DataFrame:
    """One step on its inputs. InvalidDeclaration, with its place, if Spark does not accept it."""
    try:
        return _apply(node, frames, counter)
    except (InvalidDeclaration, Untranslatable):
        raise
    except Exception as error:
        raise InvalidDeclaration(f"{type(node).__name__.lower()} at {node.place}: {explain(error)}") from error


def _apply(node: Node, frames: list[DataFrame], counter: Counter) -> DataFrame:
    frame = frames[0]
    if isinstance(node, Select):
        return _as_many(node, frame, lambda given: _select(node, given), counter)
    if isinstance(node, Where):
        condition = f.coalesce(column_of(node.condition), f.lit(False))
        return counter.watch(frame, filtered=~condition).where(condition)
    if isinstance(node, WithColumns):
        return _as_many(node, frame, lambda given: _with_columns(node, given), counter)
    if isinstance(node, Explode):
        return _explode(node, frame, counter)
    if isinstance(node, Apply):
        return _row_wise(node, node.function(counter.watch(frame, before=f.lit(1))), counter)
    if isinstance(node, Sql):
        return _sql(node, frames, counter)
    if isinstance(node, Union):
        return _union(node, frames)
    raise AssertionError(f"{type(node).__name__} is no step")


def _as_many(node: Node, frame: DataFrame, step: Callable[[DataFrame], DataFrame], counter: Counter) -> DataFrame:
    """Columns chosen or made: as many rows as there were, unless a column is a generator such as explode(...), which
    makes several rows of one, or none. Then both are counted."""
    made = step(frame)
    if not _generated(made):
        return made
    if node.keyed:
        raise InvalidDeclaration(
            f"{type(node).__name__.lower()} at {node.place} makes several rows of one, and a table has one a key",
            "Do it to the stream before the table is made of it, or to its changes().",
        )
    return counter.watch(step(counter.watch(frame, before=f.lit(1))), after=f.lit(1))


def _generated(frame: DataFrame) -> bool:
    """Of a frame whose last step chose columns: Spark puts what generates rows right below."""
    if (own := local_frame(frame)) is not None:
        return own.generates
    children = frame._jdf.queryExecution().analyzed().children()
    return any(children.apply(place).nodeName() == "Generate" for place in range(children.size()))


def _select(node: Select, frame: DataFrame) -> DataFrame:
    columns: list[Column] = []
    for one in node.columns:
        all_of_them = isinstance(one, str) and one == "*"
        columns += [f.col(quoted(name)) for name in visible(frame)] if all_of_them else [column_of(one)]
    beside = hidden(frame)
    chosen = frame.select(*columns, *beside)
    _refuse_reserved(node, chosen.columns[: len(chosen.columns) - len(beside)])
    return chosen


def _with_columns(node: WithColumns, frame: DataFrame) -> DataFrame:
    _refuse_reserved(node, list(node.columns))
    return frame.withColumns({name: column_of(one) for name, one in node.columns.items()})


def _refuse_reserved(node: Node, names: list[str]) -> None:
    if reserved := [name for name in names if name.startswith("_")]:
        raise InvalidDeclaration(
            f"column {reserved[0]} ({node.place}) begins with _, which is reserved", "Give it another name."
        )


def _explode(node: Explode, frame: DataFrame, counter: Counter) -> DataFrame:
    size = f.coalesce(f.size(f.col(quoted(node.column))), f.lit(-1))
    empty = size <= 0
    expanded = f.when(size > 1, size - 1).otherwise(0)
    watched = counter.watch(frame, expanded=expanded, filtered=f.lit(False) if node.outer else empty)
    others = [f.col(quoted(name)) for name in frame.columns if name not in (node.column, node.into)]
    if node.position:
        several = f.posexplode_outer if node.outer else f.posexplode
        return watched.select(*others, several(f.col(quoted(node.column))).alias(node.position, node.into))
    explode = f.explode_outer if node.outer else f.explode
    return watched.select(*others, explode(f.col(quoted(node.column))).alias(node.into))


def _sql(node: Sql, frames: list[DataFrame], counter: Counter) -> DataFrame:
    for (name, _), frame in zip(node.tables.items(), frames, strict=True):
        counter.watch(frame, before=f.lit(1)).createOrReplaceTempView(quoted(name))
    return _row_wise(node, frames[0].sparkSession.sql(node.text), counter)


def _row_wise(node: Node, frame: DataFrame, counter: Counter) -> DataFrame:
    """What a free function or query returns, if it looks at one row at a time: anything else would be a result of
    whatever rows happen to come in one batch."""
    if offending := sorted(plan_nodes(frame) - ROW_WISE):
        raise InvalidDeclaration(
            f"{type(node).__name__.lower()} at {node.place} does more than look at one row ({', '.join(offending)})",
            "Use by(...).agg(...), latest(...) or dedupe(...), which keep their state from batch to batch.",
        )
    return counter.watch(frame, after=f.lit(1))


def plan_nodes(frame: DataFrame) -> set[str]:
    """What Spark calls the nodes of the frame's plan."""
    if local_frame(frame) is not None:
        return set()
    pending, kinds = [frame._jdf.queryExecution().analyzed()], set()
    while pending:
        plan = pending.pop()
        kinds.add(str(plan.nodeName()))
        children = plan.children()
        pending += [children.apply(place) for place in range(children.size())]
    return kinds


def _union(node: Union, frames: list[DataFrame]) -> DataFrame:
    if any(PATH in frame.columns for frame in frames):
        frames = [frame if PATH in frame.columns else frame.withColumn(PATH, f.lit(0).cast("long")) for frame in frames]
    if node.part:
        frames = [frame.withColumn(node.part, f.lit(number)) for number, frame in enumerate(frames)]
    first = frames[0]
    for other in frames[1:]:
        missing = set(visible(first)) ^ set(visible(other))
        if missing:
            raise InvalidDeclaration(
                f"union at {node.place}: column {sorted(missing)[0]} is not on both sides",
                "Use select to give both the same columns.",
            )
        common = [name for name in first.columns if name in other.columns]
        first = first.select(*map(quoted, common)).unionByName(other.select(*map(quoted, common)))
    return first
