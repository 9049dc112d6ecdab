"""From the inputs of a join in one batch to what its tasks are given, each shard in the partition of its number."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headwater.flow.declare.nodes import TableJoin, key_of
from headwater.flow.job.join_rows import no_null, pairing_of, sharded, sided
from headwater.flow.job.joining import SIDE, TableJoinOperator
from headwater.flow.job.stateless import quoted
from headwater.flow.operators.joins import tables


def joined_tables(
    node: TableJoin, left: DataFrame, right: DataFrame, name: str, *, shards: int
) -> tuple[TableJoinOperator, DataFrame]:
    """`left` and `right` are both sides of every change."""
    pairing = pairing_of(node, left, right)
    keys, on = (key_of(node.left), key_of(node.right)), tuple(zip(*node.on, strict=True))
    sides = [tables.Side(*each) for each in zip((pairing.left, pairing.right), keys, on, strict=True)]
    operator = TableJoinOperator(name, node.key, tables.TableJoin(sides[0], sides[1], pairing))
    if not pairing.keeps_left:
        left = left.where(no_null(left, sides[0].on))
    if not pairing.keeps_right:
        right = right.where(no_null(right, sides[1].on))
    ours, theirs = (
        # Halved, so that it lies within the bounds of every search.
        sided(frame, other, side.on, number, side.key, {
            tables.ROW: f.shiftright(f.xxhash64(*(f.col(quoted(one)) for one in side.key)), 1),
            tables.AFTER: f.col(SIDE) == 1,
        })
        for number, (frame, other, side) in enumerate(zip((left, right), (right, left), sides, strict=True))
    )  # fmt: skip
    return operator, sharded(ours, theirs, len(node.on), shards)
