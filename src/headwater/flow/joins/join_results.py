"""What tasks of a join of events tell, as rows of a stream or as changes of a table.

A result lies where its event of the left does, in time and in the log, or else where that of the right does; which of
several that lie there it is, its path says. In a table it is named by the records that it was made from.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.nodes import LEFT_NAME, RIGHT_NAME, Join, Source, multiplies
from headwater.flow.joins.chain_tasks import LINK
from headwater.flow.joins.stream_join_task import StreamJoinOperator
from headwater.flow.joins.table_join_task import SIDE
from headwater.flow.operate.reports import COMMIT
from headwater.flow.operators.joins.events import LEFT_AT, MISSING, RIGHT_AT
from headwater.flow.rows.evaluation import paired
from headwater.flow.rows.row_steps import PATH, quoted
from headwater.flow.rows.sources import AT


def results_of(told: DataFrame, operator: StreamJoinOperator, node: Join, sources: Sequence[Source]) -> DataFrame:
    columns = [f.col(quoted(name)) for name in operator.work.pairing.columns.names]
    if not operator.key:
        return told.where(f.col(COMMIT).isNotNull() | (f.col(SIDE) == 1)).select(
            *columns, _position(LEFT_AT, RIGHT_AT).alias(AT), path_of(LEFT_AT, RIGHT_AT).alias(PATH),
            f.coalesce(MISSING, f.lit(False)).alias(MISSING), *([LINK] if LINK in told.columns else []), COMMIT,
        )  # fmt: skip
    names = {
        name: row_name(side, sources, several=multiplies(start))
        for name, side, start in ((LEFT_NAME, LEFT_AT, node.left), (RIGHT_NAME, RIGHT_AT, node.right))
    }
    named = [names[name].alias(name) for name in operator.key]
    return paired(told.select(*named, *columns, SIDE, COMMIT), operator.key)


def positioned(alone: DataFrame) -> DataFrame:
    """Events of the left without a partner, with where they lie."""
    return alone.withColumn(AT, _position(LEFT_AT))


def _position(*sides: str) -> Column:
    """Of the first side that is there."""
    places = {
        name: f.coalesce(*(f.col(f"{side}_{name}") for side in sides))
        for name in ("time", "source", "partition", "offset")
    }
    return f.struct(
        f.timestamp_micros(places["time"]).alias("time"),
        places["source"].cast("int").alias("source"),
        places["partition"].cast("int").alias("partition"),
        places["offset"].alias("offset"),
    )


def path_of(left: str, right: str | None) -> Column:
    """A hash of what a result was made from, beside where it lies: of two results of one event at most one is it.

    The events of an interval join may meet in different batches, so that no number could be given to each. The same for
    what a join gives to another in one task: operators/joins/chaining.py.
    """
    own = [f"{left}_{name}" for name in ("content", "nth")]
    others = [f"{right}_{name}" for name in ("source", "partition", "offset", "content", "nth")] if right else []
    return f.xxhash64(*(f.col(name).cast("long") for name in (*own, *others)))


def row_name(side: str, sources: Sequence[Source], *, several: bool) -> Column:
    """Topic, partition and offset of an event; where its record may have made several, which of them."""
    topic = f.coalesce(
        *(f.when(f.col(f"{side}_source") == number, one.topic) for number, one in enumerate(sources)), f.lit("")
    )
    own = [topic, f.lit("/"), f.col(f"{side}_partition"), f.lit("@"), f.col(f"{side}_offset")]
    if several:
        own += [f.lit("#"), f.hex(f"{side}_content"), f.lit("."), f.col(f"{side}_nth")]
    return f.when(f.col(f"{side}_offset").isNotNull(), f.concat(*own))
