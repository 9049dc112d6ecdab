"""Compiled loops that write records; the layout is drawn in log/batch_format.py.

A column of byte strings is three arrays: where each ends (with a leading start), the bytes, and which are not null.
"""

import numpy as np

from headwater.log.kernels import copy, varint_size, write_varint
from headwater.log.record_columns import compiled

HEADER_BYTES = 61


@compiled
def _bytes_size(column, row):  # type: ignore[no-untyped-def]
    ends, _, valid = column
    if not valid[row]:
        return 1
    length = np.int64(ends[row + 1]) - np.int64(ends[row])
    return varint_size(length) + length


@compiled
def _write_bytes(target, place, column, row):  # type: ignore[no-untyped-def]
    ends, data, valid = column
    if not valid[row]:
        return write_varint(target, place, -1)
    length = np.int64(ends[row + 1]) - np.int64(ends[row])
    return copy(target, write_varint(target, place, length), data, np.int64(ends[row]), np.int64(ends[row + 1]))


@compiled
def _fixed_size(keys, values, header_ends, names, header_values, row):  # type: ignore[no-untyped-def]
    """Bytes of a record that do not depend on the batch it is in."""
    first, behind = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
    size = 1 + _bytes_size(keys, row) + _bytes_size(values, row) + varint_size(behind - first)
    for header in range(first, behind):
        size += _bytes_size(names, header) + _bytes_size(header_values, header)
    return size


@compiled
def divide(keys, values, header_ends, names, header_values, times, bytes_max, starts, sizes, lengths):  # type: ignore[no-untyped-def]
    """Fill batches in order, none with more than `bytes_max` bytes unless it is a single record; how many there are.

    `starts` and `sizes` are the first row and the bytes of each batch, `lengths` the length of each record.
    """
    count = 0
    for row in range(len(times)):
        fixed = _fixed_size(keys, values, header_ends, names, header_values, row)
        if count > 0:
            first = starts[count - 1]
            length = fixed + varint_size(times[row] - times[first]) + varint_size(row - first)
            size = varint_size(length) + length
        if count == 0 or sizes[count - 1] + size > bytes_max:
            starts[count] = row
            sizes[count] = HEADER_BYTES
            count += 1
            length = fixed + 2
            size = varint_size(length) + length
        sizes[count - 1] += size
        lengths[row] = length
    return count


@compiled
def write(target, keys, values, header_ends, names, header_values, times, lengths, first, behind):  # type: ignore[no-untyped-def]
    """The records from row `first` to below `behind`, one behind the other, from the start of `target`."""
    place = 0
    for row in range(first, behind):
        place = write_varint(target, place, lengths[row])
        target[place] = 0  # attributes
        place = write_varint(target, place + 1, times[row] - times[first])
        place = write_varint(target, place, row - first)
        place = _write_bytes(target, place, keys, row)
        place = _write_bytes(target, place, values, row)
        begin, end = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
        place = write_varint(target, place, end - begin)
        for header in range(begin, end):
            place = _write_bytes(target, place, names, header)
            place = _write_bytes(target, place, header_values, header)
    return place
