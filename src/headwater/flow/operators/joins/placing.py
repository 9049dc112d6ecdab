"""In which shard the rows of a join lie (compiled, pure).

The low half of a hash says it, by its remainder. Joins of events on one column of text take Kafka's hash of the text
for that, which says in which partition a producer puts a record with that key: where as many partitions as shards, or a
multiple of it, hold the rows of both topics, a partition has the rows of one shard alone. For all other joins it is
Spark's hash, and that of rows that can meet none is one of their own: they may lie anywhere.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.spark_hashes import shard_hashes, text_bytes
from headwater.flow.state.runs.equality import Integers
from headwater.log.kernels import murmur2

LOW = 0xFFFFFFFF


def by_partition(kinds: Sequence[pa.DataType]) -> bool:
    """Do events that are joined on columns of these types lie as Kafka's producers put them?"""
    return len(kinds) == 1 and bool(pa.types.is_string(kinds[0]))


def event_hashes(keys: Sequence[pa.Array], spread: pa.Array | None, rows: int) -> Integers:
    """Of what events are joined on; `spread` is null but in rows of which a key is.

    >>> hashes = event_hashes([pa.array(["ada", None])], pa.array([None, 7]), 2)
    >>> int(hashes[0] & LOW) % 8
    5
    """
    hashes = shard_hashes([*keys, *([] if spread is None else [spread])], rows)
    if not by_partition([key.type for key in keys]):
        return hashes
    data, starts, ends, there = text_bytes(keys[0])
    low = hashes & LOW
    _kafka_hashes(data, starts, ends, there, low)
    return (hashes >> 32 << 32) | low


@njit(cache=True, nogil=True)
def _kafka_hashes(data, starts, ends, there, low):  # type: ignore[no-untyped-def]
    for row in range(len(low)):
        if there[row]:
            low[row] = np.int64(murmur2(data, starts[row], ends[row])) & np.int64(0x7FFFFFFF)
