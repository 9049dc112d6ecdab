"""Arrow columns to record batches, for topics that flows write. Compiled; the same rows give the same bytes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InvalidRecord
from headwater.log.batch_format import TIMESTAMP_MAX, TIMESTAMP_MIN
from headwater.log.compression import codec_number
from headwater.log.record_framing import ByteColumn, Fields, contents_of_fields, divided, encode_contents

SEQUENCE_MASK = 0x7FFF_FFFF
"""Sequences count from 0 to 2**31 - 1 and start again."""

Int64Array = npt.NDArray[np.int64]


def encode_records(
    keys: pa.Array | None,
    values: pa.Array,
    timestamps_ms: Int64Array,
    headers: pa.ListArray | None = None,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    base_sequence: int = -1,
    batch_bytes: int = 512 * 1024,
    compression: str = "none",
) -> list[memoryview]:
    """Sealed batches, in the order of the rows, each of at most `batch_bytes` (before compression) or one record.

    Keys and values are binary or text, null where there is none; headers are lists of struct<key, value>. Sequences go
    on from `base_sequence`: the next call continues at base_sequence + rows. How rows are divided depends on nothing
    but the rows and `batch_bytes`, so a repetition gives the same batches.
    """
    rows = len(values)
    if rows == 0:
        return []
    times = np.ascontiguousarray(timestamps_ms, dtype=np.int64)
    contents = contents_of_fields(_fields(keys, values, times, headers), times)
    codec = codec_number(compression)
    batches, sequence = [], base_sequence
    for part in divided(contents, batch_bytes):
        batches.append(encode_contents([part], codec=codec, producer=(producer_id, epoch, sequence)))
        sequence = sequence if sequence < 0 else (sequence + len(part.times)) & SEQUENCE_MASK
    return batches


def _fields(keys: pa.Array | None, values: pa.Array, times: Int64Array, headers: pa.ListArray | None) -> Fields:
    rows = len(values)
    if len(times) != rows or (keys is not None and len(keys) != rows) or (headers is not None and len(headers) != rows):
        raise InvalidRecord(f"{rows} values need as many keys, timestamps and headers")
    if times.min() < TIMESTAMP_MIN or times.max() > TIMESTAMP_MAX:
        raise InvalidRecord(f"timestamps lie between {TIMESTAMP_MIN} and {TIMESTAMP_MAX}")
    own = _bytes(pa.nulls(rows, pa.binary()) if keys is None else keys)
    return Fields(own, _bytes(values), *_headers(headers, rows))


def _headers(headers: pa.ListArray | None, rows: int) -> tuple[npt.NDArray[np.int32], ByteColumn, ByteColumn]:
    if headers is None:
        nothing = _bytes(pa.array([], pa.binary()))
        return _fixed(np.zeros(rows + 1, dtype=np.int32)), nothing, nothing
    ends = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(pc.list_value_length(headers).fill_null(0).to_numpy(), out=ends[1:])
    pairs = headers.flatten()  # without what a null may hide
    if pairs.field(0).null_count:
        raise InvalidRecord("a header has no name")
    return _fixed(ends), _bytes(pairs.field(0)), _bytes(pairs.field(1))


def _bytes(array: pa.Array) -> ByteColumn:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = array.cast(pa.binary())
    _, offsets, data = array.buffers()
    ends = (
        np.zeros(1, dtype=np.int32)
        if offsets is None
        else np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    )
    content = np.empty(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return _fixed(ends), _fixed(content), np.ascontiguousarray(valid, dtype=np.bool_)


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Arrow's memory cannot be written to, numpy's can, and the compiler would make one version of a loop for each."""
    array = array.view()
    array.flags.writeable = False
    return array
