"""Which partition each row of a batch goes to, and in which order. Compiled; depends on nothing but the rows.

Spark gives rows in any order, so they are put into one: by `_order`, then key, then value. Keys are spread as Kafka's
Java client spreads them. Rows without a key go to one partition for a while, then to the next.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from headwater.log.kernels import murmur2

Int64Array = npt.NDArray[np.int64]

ORDER = "_order"
ROWS_TOGETHER = 1000  # rows without a key that stay in one partition before the next has its turn


def in_order(rows: pa.Table) -> pa.Table:
    """The same rows in the one order that every run gives them."""
    order = sorted(name for name in rows.column_names if name.startswith(ORDER))
    columns = [*order, *(name for name in ("_key", "_value", "_timestamp_ms") if name in rows.column_names)]
    return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns]))


def choose_partitions(keys: pa.Array, partitions: int, *, batch: int) -> Int64Array:
    """A partition for each row, by its binary key.

    >>> choose_partitions(pa.array([b"ada", None], pa.binary()), 8, batch=3).tolist()
    [5, 3]
    """
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    chosen = np.empty(len(keys), dtype=np.int64)
    _choose(ends.copy(), content.copy(), valid, partitions, batch, chosen)
    return chosen


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _choose(ends, data, valid, partitions, batch, chosen):  # type: ignore[no-untyped-def]
    keyless = 0
    for row in range(len(chosen)):
        if valid[row]:
            spread = np.int64(murmur2(data, ends[row], ends[row + 1])) & np.int64(0x7FFFFFFF)
            chosen[row] = spread % partitions
        else:
            chosen[row] = (batch + keyless // ROWS_TOGETHER) % partitions
            keyless += 1
