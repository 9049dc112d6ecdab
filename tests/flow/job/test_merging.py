"""What a task is given comes to its shards whole, or not at all."""

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import FlowError
from headwater.flow.exchange.blocks import INLINE, joined, partitioned, received
from headwater.flow.state.manifest import HASH

GIGABYTE = 1 << 30


def rows_of_bytes(size: int) -> pa.RecordBatch:
    """Two rows whose values have so many bytes together: zeros, which take no memory until somebody writes there."""
    offsets = np.array([0, size // 2, size], np.int32)
    values = pa.Array.from_buffers(
        pa.binary(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(np.zeros(size, np.uint8))]
    )
    return pa.RecordBatch.from_arrays([pa.array([1, 2], pa.int64()), values], names=[HASH, "value"])


def test_rows_of_several_batches_are_one_shard() -> None:
    several = [rows_of_bytes(4), rows_of_bytes(6)]
    blocks = [partitioned(rows, INLINE, number) for number, rows in enumerate(several)]
    (found,) = received(blocks, [[several[0].schema]])
    (((shard, (rows,)),)) = found.inputs.items()
    assert rows is not None
    assert (shard, rows.num_rows) == (0, 4)


def test_more_than_a_column_can_hold_is_refused_instead_of_cut() -> None:
    large = rows_of_bytes(GIGABYTE + 2)
    with pytest.raises(FlowError, match="more than 2 GiB"):
        joined([large, large])
