"""Contents of records into batches, byte for byte as batch_format.py would write them. Compiled.

The only loops that write records besides the plain one there: for columns of keys and values, and for contents that
were written before (record_contents.py).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.log.batch_format import HEADER_BYTES, finish
from headwater.log.compiling import compiled
from headwater.log.compression import compress
from headwater.log.kernels import copy, varint_size, write_varint
from headwater.log.record_contents import Contents, Int64Array

FRAME_BYTES_MAX = 5 + 1 + 10 + 5
"""Of one record: its length, attributes, time and offset."""

NO_PRODUCER = (-1, -1, -1)

ByteColumn = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.bool_]]
"""Where each ends (with a leading start), the bytes, and which are not null. Not writeable, but for the last."""


class Fields(NamedTuple):
    """Columns of records; of header i of record r, from header_ends[r] on, name and value."""

    keys: ByteColumn
    values: ByteColumn
    header_ends: npt.NDArray[np.int32]
    names: ByteColumn
    header_values: ByteColumn


def encode_contents(
    pieces: Sequence[Contents], *, codec: int = 0, producer: tuple[int, int, int] = NO_PRODUCER
) -> memoryview:
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
    if codec:
        batch = memoryview(bytearray(HEADER_BYTES) + compress(codec, batch[HEADER_BYTES:]))
    finish(batch, codec, count, base_time, newest, producer)
    return batch


def contents_of_fields(fields: Fields, times: Int64Array) -> Contents:
    """The contents of all records, one behind the other."""
    lengths = np.empty(len(times), dtype=np.int64)
    _measure(*fields, lengths)
    ends = np.cumsum(lengths)
    data = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    _write(data, *fields)
    sizes = sum(np.diff(column[0]).astype(np.int64) * column[2] for column in (fields.keys, fields.values))
    return Contents(data, ends - lengths, ends, times, np.asarray(sizes), bool(fields.keys[2].all()))


def divided(contents: Contents, bytes_max: int) -> list[Contents]:
    """Parts in order, each for a batch of at most `bytes_max` bytes, or of one record."""
    starts = np.empty(len(contents.times) + 1, dtype=np.int64)
    count = _divide(contents.ends - contents.starts, contents.times, bytes_max, starts)
    return [contents.part(first, behind) for first, behind in pairwise(starts[: count + 1].tolist())]


@compiled
def _record_length(content, late, delta):  # type: ignore[no-untyped-def]
    return 1 + varint_size(late) + varint_size(delta) + content


@compiled
def _frame(target, position, data, starts, ends, times, base_time, before):  # type: ignore[no-untyped-def]
    """`before`: how many records of the batch stand before these."""
    for row in range(len(starts)):
        late, delta = times[row] - base_time, row + before
        position = write_varint(target, position, _record_length(ends[row] - starts[row], late, delta))
        target[position] = 0  # attributes
        position = write_varint(target, position + 1, late)
        position = write_varint(target, position, delta)
        position = copy(target, position, data, starts[row], ends[row])
    return position


@compiled
def _divide(contents, times, bytes_max, starts):  # type: ignore[no-untyped-def]
    """How many batches there are; fills in the first row of each, and behind them the number of rows."""
    count = 0
    filled = np.int64(0)
    for row in range(len(times)):
        if count > 0:
            first = starts[count - 1]
            length = _record_length(contents[row], times[row] - times[first], row - first)
            filled += varint_size(length) + length
        if count == 0 or filled > bytes_max:
            starts[count] = row
            count += 1
            length = _record_length(contents[row], 0, 0)
            filled = HEADER_BYTES + varint_size(length) + length
    starts[count] = len(times)
    return count


@compiled
def _bytes_size(column, row):  # type: ignore[no-untyped-def]
    ends, _, valid = column
    if not valid[row]:
        return 1
    length = np.int64(ends[row + 1]) - np.int64(ends[row])
    return varint_size(length) + length


@compiled
def _measure(keys, values, header_ends, names, header_values, lengths):  # type: ignore[no-untyped-def]
    for row in range(len(lengths)):
        first, behind = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
        size = _bytes_size(keys, row) + _bytes_size(values, row) + varint_size(behind - first)
        for header in range(first, behind):
            size += _bytes_size(names, header) + _bytes_size(header_values, header)
        lengths[row] = size


@compiled
def _write_bytes(target, place, column, row):  # type: ignore[no-untyped-def]
    ends, data, valid = column
    if not valid[row]:
        return write_varint(target, place, -1)
    length = np.int64(ends[row + 1]) - np.int64(ends[row])
    return copy(target, write_varint(target, place, length), data, np.int64(ends[row]), np.int64(ends[row + 1]))


@compiled
def _write(target, keys, values, header_ends, names, header_values):  # type: ignore[no-untyped-def]
    place = 0
    for row in range(len(header_ends) - 1):
        place = _write_bytes(target, place, keys, row)
        place = _write_bytes(target, place, values, row)
        first, behind = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
        place = write_varint(target, place, behind - first)
        for header in range(first, behind):
            place = _write_bytes(target, place, names, header)
            place = _write_bytes(target, place, header_values, header)
