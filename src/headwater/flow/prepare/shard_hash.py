"""Which shard a key lies in."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.formats.schema import quoted


def shard_hash(key: Sequence[str]) -> Column:
    """A hash whose remainder by the number of shards, a power of two, is the number of Spark's own shuffle partition.

    So the shuffle that groups by key brings a shard to one task, and no second one is needed.
    """
    columns = ", ".join(map(quoted, key))
    high, low = f"shiftleft(shiftright(xxhash64({columns}), 32), 32)", f"cast(hash({columns}) as long)"
    return f.expr(f"{high} | ({low} & {0xFFFFFFFF}L)")
