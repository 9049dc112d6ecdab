"""Contents of records into batches, byte for byte as batch_format.py would write them. Compiled."""

from collections.abc import Sequence

import numpy as np

from headwater.log.batch_format import HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader, pack_header, seal
from headwater.log.kernels import copy, varint_size, write_varint
from headwater.log.record_columns import compiled
from headwater.log.record_contents import Contents

FRAME_BYTES_MAX = 5 + 1 + 10 + 5
"""Of one record: its length, attributes, time and offset."""


def encode_contents(pieces: Sequence[Contents]) -> memoryview:
    """All records of the pieces, of which there is one at least, as one batch with base offset 0."""
    count = sum(len(piece.starts) for piece in pieces)
    room = sum(int((piece.ends - piece.starts).sum()) for piece in pieces)
    base_time, newest = int(pieces[0].times[0]), max(int(piece.times.max()) for piece in pieces)
    target = np.empty(HEADER_BYTES + room + FRAME_BYTES_MAX * count, dtype=np.uint8)
    position, before = HEADER_BYTES, 0
    for piece in pieces:
        position = int(_frame(target, position, piece.data, piece.starts, piece.ends, piece.times, base_time, before))
        before += len(piece.starts)
    batch = target.data[:position]
    batch[:HEADER_BYTES] = pack_header(
        BatchHeader(0, position - LENGTH_END, 0, MAGIC, 0, 0, count - 1, base_time, newest, -1, -1, -1, count)
    )
    seal(batch)
    return batch


@compiled
def _frame(target, position, data, starts, ends, times, base_time, before):  # type: ignore[no-untyped-def]
    """`before`: how many records of the batch stand before these."""
    for row in range(len(starts)):
        late, delta = times[row] - base_time, row + before
        length = 1 + varint_size(late) + varint_size(delta) + ends[row] - starts[row]
        position = write_varint(target, position, length)
        target[position] = 0  # attributes
        position = write_varint(target, position + 1, late)
        position = write_varint(target, position, delta)
        position = copy(target, position, data, starts[row], ends[row])
    return position
