"""Rows of join keys that are split, in Spark: each goes to its shard, and to the slices that make its pairs.

What is split is decided from what batches before it have counted, and stands in the record of the last of them: a batch
that comes again splits the same keys. Whatever is split, the same pairs come of it (operators/joins/splitting.py).
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headwater.flow.joins.join_rows import WHICH
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.operators.joins.splitting import LEFT, RIGHT, slice_bits
from headwater.flow.operators.joins.tables import ROW
from headwater.flow.prepare.shard_hash import shard_hash
from headwater.flow.state.manifest import HASH

SLICE = "_slice"
"""Null for the task of the row's own shard, else the number of a slice."""
PLACE = "_partition_id"


def split_over(rows: DataFrame, names: list[str], hot: Collection[HotKey], shards: int) -> DataFrame:
    """Both sides of a join, each shard in the partition of its number, and slices one behind the other from there.

    Rows of the larger side of a key that is split go to their slice, those of the other side to all of them.
    """
    hashed = rows.withColumn(HASH, shard_hash(names))
    slices = f.array().cast("array<int>")
    for side in (LEFT, RIGHT):
        keys = [one.hash for one in hot if one.side == side]
        many = f.array(_slice_of(f.col(ROW), shards))
        everywhere = f.array(*(f.lit(number) for number in range(shards)))
        there = f.when(f.col(WHICH) == side, many).otherwise(everywhere)
        slices = f.when(f.col(HASH).isin(keys), there).otherwise(slices) if keys else slices
    copied = hashed.withColumn(SLICE, f.explode(f.concat(f.array(f.lit(None).cast("int")), slices)))
    own = f.pmod(f.col(HASH), f.lit(shards).cast("long")).cast("int")
    place = f.pmod(own + f.coalesce(f.col(SLICE), f.lit(0)), f.lit(shards))
    return copied.withColumn(PLACE, place).repartitionById(shards, f.col(PLACE)).drop(PLACE)


def _slice_of(own: Column, slices: int) -> Column:
    """As `slices_of` has it."""
    if slices == 1:
        return f.lit(0)
    return (f.shiftright(own, 63 - slice_bits(slices)) + slices // 2).cast("int")
