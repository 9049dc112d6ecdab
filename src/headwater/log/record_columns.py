"""The records of a batch as columns: where each record, key and value lies. Compiled, no Python per record.

The layout of a record is drawn in batch_format.py. Loaded only where many records are decoded at once (compaction,
flows): importing the compiler takes a second, which a server that only stores and serves batches never needs.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from headwater.errors import CorruptBatch
from headwater.log.batch_format import HEADER_BYTES, BatchHeader, Buffer
from headwater.log.compression import decompress

Int64Array = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]

START, END, OFFSET_DELTA, TIMESTAMP_DELTA, KEY_START, KEY_LENGTH, VALUE_START, VALUE_LENGTH = range(8)
NULL = -1

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, no key, no value, no headers: of one byte each."""


class RecordColumns(NamedTuple):
    """`body` is the unpacked batch after its header; row i of `spans` holds the positions of record i."""

    body: ByteArray
    spans: Int64Array  # records × 8, columns as named above

    def column(self, which: int) -> Int64Array:
        return self.spans[:, which]


def record_columns(batch: Buffer, header: BatchHeader, *, bytes_max: int) -> RecordColumns:
    """Take apart one whole batch whose checksum has been verified.

    CorruptBatch if its records do not fit together, InvalidRecord if they are more than `bytes_max` bytes.
    """
    unpacked = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size], bytes_max=bytes_max)
    body = np.frombuffer(unpacked, dtype=np.uint8)
    if not 0 <= header.record_count <= len(body) // RECORD_BYTES_MIN:
        raise CorruptBatch(f"a batch of {len(body)} bytes claims {header.record_count} records")
    spans = np.empty((header.record_count, 8), dtype=np.int64)
    if not _find_spans(body, spans):
        raise CorruptBatch(f"the batch at offset {header.base_offset} has records that do not fit together")
    return RecordColumns(body, spans)


def gather(columns: RecordColumns, kept: npt.NDArray[np.bool_]) -> bytes:
    """The bytes of the kept records, one after the other."""
    lengths = columns.column(END) - columns.column(START)
    target = np.empty(int(lengths[kept].sum()), dtype=np.uint8)
    _gather(columns.body, columns.spans, kept, target)
    return target.tobytes()


def compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@compiled
def read_varint(body, position, end):  # type: ignore[no-untyped-def]
    """Returns a zigzag number and the position after it; position -1 if it runs past the end."""
    number = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        byte = np.uint64(body[position])
        position += 1
        number |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            half = np.int64(number >> np.uint64(1))
            return (~half if number & np.uint64(1) else half), position
        shift += np.uint64(7)
        if shift > np.uint64(63):
            break
    return np.int64(0), -1


@compiled
def _find_spans(body, spans):  # type: ignore[no-untyped-def]
    position = 0
    for row in range(spans.shape[0]):
        start = position
        length, position = read_varint(body, position, len(body))
        if position < 0 or length < 1 or length > len(body) - position:
            return False
        end = position + length
        timestamp_delta, position = read_varint(body, position + 1, end)
        if position < 0:
            return False
        offset_delta, position = read_varint(body, position, end)
        if position < 0:
            return False
        key_length, position = read_varint(body, position, end)
        if position < 0 or key_length > end - position:
            return False
        key_start = position
        if key_length > 0:
            position += key_length
        value_length, position = read_varint(body, position, end)
        if position < 0 or value_length > end - position:
            return False
        spans[row, 0] = start
        spans[row, 1] = end
        spans[row, 2] = offset_delta
        spans[row, 3] = timestamp_delta
        spans[row, 4] = key_start
        spans[row, 5] = -1 if key_length < 0 else key_length
        spans[row, 6] = position
        spans[row, 7] = -1 if value_length < 0 else value_length
        position = end
    return True


@compiled
def _gather(body, spans, kept, target):  # type: ignore[no-untyped-def]
    # Unsigned: an index that may be negative is looked at twice, and the copy is then fifty times as slow.
    position = np.uint64(0)
    for row in range(spans.shape[0]):
        if kept[row]:
            start, length = np.uint64(spans[row, 0]), np.uint64(spans[row, 1] - spans[row, 0])
            for step in range(length):
                target[position + np.uint64(step)] = body[start + np.uint64(step)]
            position += length
