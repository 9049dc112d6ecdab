"""All rows that a table has had, each with the batches for which it held, as plain Spark queries: the reference of what
looks at a table as it was.

    _since, _until     from the batch in which a row became so, to before the one in which it was replaced or deleted

Of a table that was read or is the newest row of each key, rows follow one another. What is computed of other rows is
computed for each batch that touched its group, from the rows that there were then: a group that is touched in many
batches is read as often.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.declare.topology.nodes import (
    Aggregate,
    Latest,
    Node,
    Select,
    SourceTable,
    TableAggregate,
    TableJoin,
    Where,
    WithColumns,
)
from headwater.flow.formats.schema import quoted
from headwater.flow.operate.grouping.table_rows import batch_groups
from headwater.flow.proof.by_batch.arrivals import BATCH, Arrivals
from headwater.flow.proof.join_query import batch_join
from headwater.flow.proof.plain_query import aggregated
from headwater.flow.rows.counters import Counter
from headwater.flow.rows.row_steps import PATH, apply_step, visible
from headwater.flow.rows.sources import AT, DELETED
from headwater.flow.rows.tie_breaking import path_order

SINCE, UNTIL = "_since", "_until_batch"
FOR_EVER = 2**62
THEN = "as of batch"
"""A batch for which rows are computed; no column of a user has such a name."""
RowsOf = Callable[[Node], DataFrame]


def history(node: Node, rows_of: RowsOf, arrivals: Arrivals) -> DataFrame:
    """`rows_of` returns the rows of a stream. FlowError for a table whose past cannot be computed."""
    if isinstance(node, Select | Where | WithColumns):
        return apply_step(node, [history(node.input, rows_of, arrivals)], Counter())
    if isinstance(node, SourceTable):
        rows = arrivals.placed(node, rows_of(node))
        return _successive(rows, node.key, f.struct(f.col(AT)["partition"], f.col(AT)["offset"]))
    if isinstance(node, Latest):
        rows = arrivals.placed(node.input, rows_of(node.input))
        apart = [path_order(rows)] if PATH in rows.columns else []
        # Of changes, which have no time, the first of two that lie at one place stays.
        return _successive(rows, node.key, f.struct(AT, *apart, -f.col(BATCH)))
    if isinstance(node, TableAggregate) and node.key:
        return _regrouped(node, history(node.input, rows_of, arrivals))
    if isinstance(node, Aggregate) and node.key and not isinstance(node, TableAggregate):
        return _grouped(node, arrivals.placed(node.input, rows_of(node.input)))
    if isinstance(node, TableJoin):
        return _rejoined(node, *(history(one, rows_of, arrivals) for one in node.inputs))
    raise FlowError(
        f"what the {type(node).__name__.lower()} at {node.place} held in each batch is not computed, and what follows "
        "it depends on that",
        "Verify the table itself.",
    )


def _successive(rows: DataFrame, key: Sequence[str], order: Column) -> DataFrame:
    """Of rows that replace one another, the highest up to each batch."""
    values = [name for name in visible(rows) if name not in key]
    gone = f.col(DELETED) if DELETED in rows.columns else f.lit(False)
    row = f.struct(*(f.col(quoted(name)).alias(name) for name in values), gone.alias("_gone"))
    ordered = rows.select(*map(quoted, key), BATCH, row.alias("_row"), order.alias("_order"))
    newest = ordered.groupBy(*map(quoted, key), BATCH).agg(
        f.max("_order").alias("_order"), f.max_by("_row", "_order").alias("_row")
    )
    by = Over.partitionBy(*map(quoted, key)).orderBy(BATCH)
    until_then = by.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    held = newest.withColumn("_row", f.max_by("_row", "_order").over(until_then))
    placed = held.withColumn(UNTIL, f.coalesce(f.lead(BATCH).over(by), f.lit(FOR_EVER)))
    there = placed.where(~f.coalesce(f.col("_row")["_gone"], f.lit(False)))
    columns = (f.col("_row")[name].alias(name) for name in values)
    return there.select(*map(quoted, key), *columns, f.col(BATCH).alias(SINCE), UNTIL)


def _grouped(node: Aggregate, rows: DataFrame) -> DataFrame:
    """Of a stream: for each batch that brought rows of a group, of all that there were by then."""
    touched = _touched([(rows, node.key, BATCH)])
    there = _then(rows, node.key, touched, f.col(BATCH) <= f.col(THEN))
    return _placed(aggregated(replace(node, key=(*node.key, THEN)), there), node.key, touched)


def _regrouped(node: TableAggregate, table: DataFrame) -> DataFrame:
    """Of a table: for each batch in which a row of a group came or went."""
    touched = _touched([(table, node.key, SINCE), (table, node.key, UNTIL)])
    there = _then(table, node.key, touched, _held())
    return _placed(batch_groups(replace(node, key=(*node.key, THEN)), there), node.key, touched)


def _rejoined(node: TableJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    ours, theirs = [one for one, _ in node.on], [other for _, other in node.on]
    sides = [(left, ours, SINCE), (left, ours, UNTIL), (right, theirs, SINCE), (right, theirs, UNTIL)]
    touched = _touched(sides)
    both = _then(left, ours, touched, _held()), _then(right, theirs, touched, _held())
    joined = batch_join(replace(node, on=(*node.on, (THEN, THEN))), *both)
    return _placed(joined, ours, touched)


def _held() -> Column:
    return (f.col(SINCE) <= f.col(THEN)) & (f.col(THEN) < f.col(UNTIL))


def _touched(sides: Sequence[tuple[DataFrame, Sequence[str], str]]) -> DataFrame:
    """Groups, the batches that touch them, and of each the next one."""
    found: DataFrame | None = None
    for frame, key, batch in sides:
        columns = [f.col(quoted(name)).alias(f"_group{number}") for number, name in enumerate(key)]
        one = frame.select(*columns, f.col(batch).alias(THEN))
        found = one if found is None else found.unionByName(one)
    assert found is not None
    distinct = found.where(f.col(THEN) < FOR_EVER).distinct()
    groups = [name for name in distinct.columns if name != THEN]
    following = f.lead(THEN).over(Over.partitionBy(*groups).orderBy(THEN))
    return distinct.withColumn(UNTIL + "_then", f.coalesce(following, f.lit(FOR_EVER)))


def _then(rows: DataFrame, key: Sequence[str], touched: DataFrame, there: Column) -> DataFrame:
    """The rows of every group as they were at each of its batches."""
    on = [f.col(quoted(name)).eqNullSafe(f.col(f"_group{number}")) for number, name in enumerate(key)]
    return rows.join(touched, [*on, there]).select(*map(quoted, rows.columns), THEN)


def _placed(results: DataFrame, key: Sequence[str], touched: DataFrame) -> DataFrame:
    names = [name for name in results.columns if name != THEN]
    ends = touched.withColumnRenamed(THEN, "_then")
    on = [f.col(quoted(name)).eqNullSafe(f.col(f"_group{number}")) for number, name in enumerate(key)]
    joined = results.join(ends, [*on, f.col(quoted(THEN)) == f.col("_then")])
    return joined.select(*map(quoted, names), f.col("_then").alias(SINCE), f.col(UNTIL + "_then").alias(UNTIL))
