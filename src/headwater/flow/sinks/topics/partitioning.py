"""Which partition each row of a batch goes to, and in which order. Compiled; depends on nothing but the rows.

Spark gives rows in any order, and any of its tasks may have any of them. They are put into one order: by `_order`, then
key, then value. Keys are spread as Kafka's Java client spreads them. Rows without a key go to one partition for a
while, then to the next: by their offset in the log they are from; by their value if they have none.
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


def partitions_of(rows: pa.Table, partitions: int, *, batch: int) -> Int64Array:
    """A partition for each row, whichever rows come with it."""
    keys = _whole(rows["_key"].cast(pa.binary()))
    if ORDER not in rows.column_names or not pa.types.is_struct(rows[ORDER].type):
        named = pc.fill_null(pc.coalesce(keys, _whole(rows["_value"].cast(pa.binary()))), b"")
        return choose_partitions(named, partitions, batch=batch)
    at = _whole(rows[ORDER])
    offset, partition = (np.asarray(pc.fill_null(pc.struct_field(at, name), 0)) for name in ("offset", "partition"))
    return choose_partitions(keys, partitions, batch=batch, positions=offset + ROWS_TOGETHER * partition)


def choose_partitions(
    keys: pa.Array, partitions: int, *, batch: int, positions: Int64Array | None = None
) -> Int64Array:
    """A partition for each row, by its binary key; of rows without one, by where it lies among others.

    >>> choose_partitions(pa.array([b"ada", None], pa.binary()), 8, batch=3).tolist()
    [5, 3]
    """
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    places = np.cumsum(~valid) - 1 if positions is None else positions
    chosen = np.empty(len(keys), dtype=np.int64)
    _choose(ends.copy(), content.copy(), valid, places.astype(np.int64), partitions, batch, chosen)
    return chosen


def _whole(values: pa.ChunkedArray) -> pa.Array:
    combined = values.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _choose(ends, data, valid, positions, partitions, batch, chosen):  # type: ignore[no-untyped-def]
    for row in range(len(chosen)):
        if valid[row]:
            spread = np.int64(murmur2(data, ends[row], ends[row + 1])) & np.int64(0x7FFFFFFF)
            chosen[row] = spread % partitions
        else:
            chosen[row] = (batch + positions[row] // ROWS_TOGETHER) % partitions
