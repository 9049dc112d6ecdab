"""Record batches, as they lie in the log, to Arrow columns."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from headwater.errors import CorruptBatch, InvalidRecord, UnsupportedFormat
from headwater.log import record_columns
from headwater.log.batch_format import (
    APPEND_TIME_FLAG,
    CHECKSUMMED_FROM,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    Buffer,
)
from headwater.log.batch_table import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CRC,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    POSITION,
    RECORD_COUNT,
    SIZE,
    find_batches,
)
from headwater.log.compression import decompress
from headwater.log.record_columns import HEADERS, KEY, VALUE, ByteArray, Int64Array, MisfitRecords
from headwater.settings import LogSettings

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

UNPACKED_BYTES_MAX = LogSettings().decompressed_bytes_max
"""Of one batch; our own log takes none that is larger, and reads none."""
TOGETHER_BYTES_MAX = 64 * 1024**2
"""Of all batches that are decoded together; a larger batch is decoded alone."""
COLUMN_BYTES_MAX = 2**31 - 1


class UnreadableBatch(CorruptBatch):
    """A batch is as it was sent, but cannot be unpacked, or unpacks to more than it may. Its neighbours are sound."""

    def __init__(self, row: Int64Array, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position, self.size = int(row[POSITION]), int(row[SIZE])
        self.base_offset, self.last_offset = int(row[BASE_OFFSET]), int(row[LAST_OFFSET])
        self.max_timestamp_ms = int(row[MAX_TIMESTAMP])


class TooMuchTogether(Exception):
    """The batches up to a position, not included, are as many as should be decoded together."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


@dataclass(frozen=True)
class Spans:
    """Where the values of records lie in a body of bytes: formats of text are read there, the others from a copy."""

    body: ByteArray
    starts: Int64Array
    lengths: Int64Array
    """-1 where a value is null."""

    @cached_property
    def nulls(self) -> int:
        return int(np.count_nonzero(self.lengths < 0))

    @cached_property
    def bytes(self) -> int:
        return int(self.lengths.sum()) + self.nulls

    def copied(self) -> pa.BinaryArray:
        return _binary(self.body, np.stack([self.starts, self.lengths], axis=1), 0)

    def take(self, rows: Int64Array) -> "Spans":
        return Spans(self.body, self.starts[rows], self.lengths[rows])


@dataclass(frozen=True)
class Records:
    offsets: Int64Array
    timestamps_ms: Int64Array
    keys: pa.BinaryArray
    spans: Spans
    headers: pa.ListArray | None
    changed: pa.BinaryArray | None = None
    """Values in the place of those that lie in the spans."""

    @cached_property
    def values(self) -> pa.BinaryArray:
        return self.spans.copied() if self.changed is None else self.changed

    def with_values(self, values: pa.BinaryArray) -> "Records":
        return replace(self, changed=values)

    def take(self, rows: Int64Array) -> "Records":
        """Those in some places, as they were read."""
        headers = None if self.headers is None else self.headers.take(pa.array(rows))
        keys, spans = self.keys.take(pa.array(rows)), self.spans.take(rows)
        return Records(self.offsets[rows], self.timestamps_ms[rows], keys, spans, headers)


def decode_batches(
    buffer: Buffer, first: int, end: int, *, headers: bool, bytes_max: int = UNPACKED_BYTES_MAX
) -> Records:
    """The records with offsets from `first` to below `end`, in the order of the log.

    The buffer holds whole batches. Those of transactions' control records are left out. CorruptBatch if a checksum does
    not fit, UnreadableBatch if anything else that a batch says about itself does not fit its bytes, or if it unpacks to
    more than `bytes_max`; TooMuchTogether if all of them do.
    """
    found = find_batches(buffer)
    if found.length != len(buffer):
        raise CorruptBatch(f"the last {len(buffer) - found.length} of {len(buffer)} bytes are not a whole batch")
    wanted = (
        (found.column(LAST_OFFSET) >= first)
        & (found.column(BASE_OFFSET) < end)
        & (found.column(ATTRIBUTES) & CONTROL_FLAG == 0)
    )
    rows = found.rows[wanted]
    view = memoryview(buffer)
    _check_crc(view, rows)
    body, table = _unpacked(view, rows, bytes_max)
    return _columns(body, table, rows, first, end, headers=headers)


def _check_crc(view: memoryview, rows: Int64Array) -> None:
    for position, size, crc, base in rows[:, (POSITION, SIZE, CRC, BASE_OFFSET)].tolist():
        if crc32c(view[position + CHECKSUMMED_FROM : position + size]) != crc:
            raise CorruptBatch(f"the checksum of the batch at offset {base} does not fit its bytes")


def _unpacked(view: memoryview, rows: Int64Array, bytes_max: int) -> tuple[ByteArray, Int64Array]:
    """One array with the records of all batches, and the table of batches that the scan takes."""
    table = np.empty((len(rows), record_columns.TABLE_COLUMNS), dtype=np.int64)
    append_time = rows[:, ATTRIBUTES] & APPEND_TIME_FLAG
    table[:, record_columns.BASE_OFFSET] = rows[:, BASE_OFFSET]
    table[:, record_columns.LAST_OFFSET] = rows[:, LAST_OFFSET]
    table[:, record_columns.TIMESTAMP] = np.where(append_time, rows[:, MAX_TIMESTAMP], rows[:, BASE_TIMESTAMP])
    table[:, record_columns.APPEND_TIME] = append_time
    table[:, record_columns.COUNT] = rows[:, RECORD_COUNT]
    if (rows[:, ATTRIBUTES] & CODEC_MASK).any():
        body = _joined(view, rows, table, bytes_max)
    else:
        body = np.frombuffer(view, dtype=np.uint8)
        body.flags.writeable = False  # as unpacked bytes are: one version of each compiled loop is enough
        table[:, record_columns.START] = rows[:, POSITION] + HEADER_BYTES
        table[:, record_columns.STOP] = rows[:, POSITION] + rows[:, SIZE]
    return body, table


def _joined(view: memoryview, rows: Int64Array, table: Int64Array, bytes_max: int) -> ByteArray:
    """The records of all batches, unpacked, one behind the other; fills in where those of each batch are."""
    parts: list[Buffer] = []
    place = 0
    for which, (position, size, attributes) in enumerate(rows[:, (POSITION, SIZE, ATTRIBUTES)].tolist()):
        packed = view[position + HEADER_BYTES : position + size]
        try:
            parts.append(decompress(attributes & CODEC_MASK, packed, bytes_max=bytes_max))
        except (CorruptBatch, InvalidRecord, UnsupportedFormat) as error:
            raise UnreadableBatch(rows[which], str(error)) from None
        if which and place + len(parts[-1]) > TOGETHER_BYTES_MAX:
            raise TooMuchTogether(position)
        table[which, record_columns.START] = place
        place += len(parts[-1])
        table[which, record_columns.STOP] = place
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def _columns(body: ByteArray, table: Int64Array, rows: Int64Array, first: int, end: int, *, headers: bool) -> Records:
    try:
        found = record_columns.scanned(body, table, first, end)
    except MisfitRecords as error:
        raise UnreadableBatch(rows[error.which], str(error)) from None
    return Records(
        found.offsets,
        found.timestamps_ms,
        _binary(body, found.spans, KEY),
        Spans(body, found.column(VALUE), found.column(VALUE + 1)),
        _headers(body, found.spans) if headers else None,
    )


def _binary(body: ByteArray, spans: Int64Array, column: int) -> pa.BinaryArray:
    size, nulls = record_columns.total(spans, column)
    if size > COLUMN_BYTES_MAX:
        raise InvalidRecord(f"{size} bytes of keys or values are more than one column of {COLUMN_BYTES_MAX} can hold")
    rows = len(spans)
    if nulls == rows:
        return pa.nulls(rows, pa.binary())
    ends = np.empty(rows + 1, dtype=np.int32)
    valid: npt.NDArray[np.uint8] = np.zeros((rows + 7) // 8 if nulls else 0, dtype=np.uint8)
    target = np.empty(size, dtype=np.uint8)
    record_columns.gather(body, spans, column, ends, valid, target)
    validity = pa.py_buffer(valid) if nulls else None
    return pa.BinaryArray.from_buffers(
        pa.binary(), rows, [validity, pa.py_buffer(ends), pa.py_buffer(target)], int(nulls)
    )


def _headers(body: ByteArray, spans: Int64Array) -> pa.ListArray:
    count = int(spans[:, HEADERS + 1].sum())
    ends = np.empty(len(spans) + 1, dtype=np.int32)
    fields = np.empty((count, 4), dtype=np.int64)
    record_columns.header_spans(body, spans, ends, fields)
    names = _texts(_binary(body, fields, KEY))
    values = _binary(body, fields, VALUE)
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=HEADERS_TYPE)


def _texts(names: pa.BinaryArray) -> pa.StringArray:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8, which the protocol asks for and no broker checks
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], type=pa.string())
