"""Which shard a key lies in."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.job.stateless import quoted


def shard_hash(key: Sequence[str]) -> Column:
    """A hash whose remainder by the number of shards, a power of two, is the number of Spark's own shuffle partition.

    So the shuffle that groups by key brings a shard to one task, and no second one is needed.
    """
    columns = [f.col(quoted(name)) for name in key]
    high = f.shiftleft(f.shiftright(f.xxhash64(*columns), 32), 32)
    low = f.hash(*columns).cast("long").bitwiseAND(f.lit(0xFFFFFFFF).cast("long"))
    return high.bitwiseOR(low)
