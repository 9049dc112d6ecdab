"""What depends on which rows came in one batch, as plain Spark queries over all rows with their batches (arrivals.py):
the first row of each key, events joined with a table as it was, and changes of a table.

Nothing is shared with the operators. The rows of a key are taken in their order in one array; a table is all of its
rows, each with the batches for which it held (table_history.py).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as f

from headwater.errors import FlowError
from headwater.flow.declare.topology.nodes import (
    Apply,
    Changes,
    Dedupe,
    Explode,
    LatestJoin,
    Sql,
    Union,
    generates,
    key_of,
    sources_of,
    walk,
)
from headwater.flow.declare.topology.stored_queries import Percolate
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.changes import BEFORE, OPERATION
from headwater.flow.operators.joins.pairing import LEFT
from headwater.flow.operators.windows.assignment import POSITION
from headwater.flow.proof.by_batch.arrivals import BATCH, Arrivals, first_after
from headwater.flow.proof.by_batch.table_history import FOR_EVER, SINCE, UNTIL
from headwater.flow.proof.certificate import inexact
from headwater.flow.proof.join_query import LEFT_PLACE, equal, hit_rows, named_pairs, path_of, sided, timely
from headwater.flow.proof.window_query import Past
from headwater.flow.rows.evaluation import as_facts
from headwater.flow.rows.row_steps import PATH, visible
from headwater.flow.rows.sources import AT
from headwater.flow.rows.tie_breaking import path_order

APART = "_apart"
PASSED = """
aggregate(
    array_sort(_all), named_struct('kept', cast(null as bigint), 'passed', slice(_all, 1, 0)),
    (done, one) -> if(
        abs(one.time - done.kept) <= {within_us}, done,
        named_struct('kept', greatest(done.kept, one.time), 'passed', concat(done.passed, array(one)))
    ),
    done -> done.passed
)"""


def first_rows(node: Dedupe, frame: DataFrame, past: Past, arrivals: Arrivals) -> DataFrame:
    """Of each key the first row, and the next that is further away in time than it may be to repeat it."""
    _refuse_alike(node)
    placed = arrivals.placed(node.input, timely(node, frame, past))
    at = f.col(AT)
    order = {BATCH: f.col(BATCH), "time": f.unix_micros(at["time"]), **{name: at[name] for name in POSITION}}
    order[APART] = path_order(frame) if PATH in frame.columns else f.lit(0).cast("long")
    all_rows = f.collect_list(f.struct(*(column.alias(name) for name, column in order.items())))
    grouped = placed.groupBy(*(f.col(quoted(name)).alias(f"_key{number}") for number, name in enumerate(node.key)))
    first = grouped.agg(all_rows.alias("_all")).select(
        *(f"_key{number}" for number in range(len(node.key))),
        f.explode(f.expr(PASSED.format(within_us=node.within_us))).alias("_one"),
    )
    on = [f.col(quoted(name)).eqNullSafe(f.col(f"_key{number}")) for number, name in enumerate(node.key)]
    on += [order[name] == f.col("_one")[name] for name in (*POSITION, BATCH, APART)]
    return placed.join(first, on, "left_semi")


def _refuse_alike(node: Dedupe) -> None:
    """Of several rows of one record the job takes the first, and no query knows which that was."""
    for one in walk(node.input):
        twice = isinstance(one, Union) and len(sources_of(one)) < sum(len(sources_of(part)) for part in one.parts)
        if isinstance(one, Explode | Apply | Sql) or generates(one) or twice:
            raise FlowError(
                f"dedupe at {node.place} is given several rows of one record by {type(one).__name__.lower()} at "
                f"{one.place}, and which of them came first is not known",
                "Put dedupe before that step, or verify the table it is made from.",
            )


def met_rows(node: LatestJoin, left: DataFrame, table: DataFrame, arrivals: Arrivals) -> DataFrame:
    """Each event with the rows of the table that held when it was given on: in its own batch, or in the first of those
    it waited for that had one."""
    placed = arrivals.placed(node.left, left)
    ours = sided(placed, node.left, "_l_", LEFT_PLACE)
    columns = [f.col(quoted(name)).alias(f"_r_{name}") for name in visible(table)]
    theirs = table.select(*columns, f.col(SINCE).alias(SINCE), f.col(UNTIL).alias(UNTIL))
    ours = ours.withColumn("_until", _waited_until(node, arrivals))
    while_waiting = (f.col(SINCE) <= f.coalesce("_until", f.lit(FOR_EVER))) & (f.col(UNTIL) > f.col(f"_l_{BATCH}"))
    joined = ours.join(theirs, equal(node) & while_waiting, "left")
    event = [f"{LEFT_PLACE}_{name}" for name in (*POSITION, "content", "nth")]
    first = joined.withColumn("_met", f.when(f.col(SINCE).isNotNull(), f.greatest(f"_l_{BATCH}", SINCE)))
    first = first.withColumn("_first", f.min("_met").over(Over.partitionBy(*event)))
    alone = f.col(SINCE).isNull() & f.col("_until").isNotNull() & f.lit(node.how == LEFT)
    held = (f.col(SINCE) <= f.col("_first")) & (f.col("_first") < f.col(UNTIL))
    kept = first.where(f.coalesce(held, alone))
    if isinstance(node, Percolate):
        return hit_rows(node, kept, left, table, [f.col("_first").alias(BATCH)])
    beside = [
        f.col(f"_l_{AT}").alias(AT), path_of(LEFT_PLACE, None).alias(PATH),
        f.coalesce("_first", "_until").alias(BATCH),
    ]  # fmt: skip
    return named_pairs(node, kept, visible(left), visible(table), beside)


def _waited_until(node: LatestJoin, arrivals: Arrivals) -> Column:
    """The batch in which an event is given on at the latest; null: that is still to come."""
    own, time_us = f.col(f"_l_{BATCH}"), f.unix_micros(f.col(f"_l_{AT}")["time"])
    if not node.wait_us:
        return own
    over = first_after(arrivals.watermarks(node), time_us + node.wait_us)
    unknown = f.greatest(*(f.col(quoted(f"_l_{one}")).isNull() for one, _ in node.on), f.lit(False))
    return f.when(unknown, own).when(over.isNotNull(), f.greatest(own, over))


def change_rows(node: Changes, table: DataFrame) -> DataFrame:
    """Every change of a table as a fact: what a row is from the batch on in which it became so."""
    key, values = key_of(node.input), [name for name in visible(table) if name not in key_of(node.input)]
    if rough := [name for name in values if inexact(table.schema[name]) and table.schema[name].metadata]:
        raise FlowError(
            f"changes() at {node.place} are of a table whose column {rough[0]} is not exact, and whether it has "
            "changed depends on rounding",
            "Verify the table it is made from.",
        )
    row = f.struct(*(f.col(quoted(name)).alias(name) for name in values), f.lit(True).alias("_there"))
    placed = table.select(*map(quoted, key), row.alias("_row"), SINCE, UNTIL)
    by = Over.partitionBy(*map(quoted, key)).orderBy(SINCE)
    beside = placed.withColumns({
        "_before": f.when(f.lag(UNTIL).over(by) == f.col(SINCE), f.lag("_row").over(by)),
        "_goes_on": f.coalesce(f.lead(SINCE).over(by) == f.col(UNTIL), f.lit(False)),
    })  # fmt: skip
    begun = beside.where(~f.col("_row").eqNullSafe(f.col("_before"))).select(
        *map(quoted, key), f.col("_before").alias("_old"), f.col("_row").alias("_new"), f.col(SINCE).alias(BATCH)
    )
    nothing = f.lit(None).cast(placed.schema["_row"].dataType)
    ended = beside.where((f.col(UNTIL) < f.lit(FOR_EVER)) & ~f.col("_goes_on")).select(
        *map(quoted, key), f.col("_row").alias("_old"), nothing.alias("_new"), f.col(UNTIL).alias(BATCH)
    )
    both = begun.unionByName(ended)
    operation = f.when(f.col("_old").isNull(), "c").when(f.col("_new").isNull(), "d").otherwise("u")
    changes = both.select(
        operation.alias(OPERATION), *map(quoted, key), *(f.col("_new")[name].alias(name) for name in values),
        f.col("_old").alias(BEFORE), BATCH,
    )  # fmt: skip
    return as_facts(changes, key, [BATCH])
