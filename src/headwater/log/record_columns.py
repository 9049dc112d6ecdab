"""The records of many batches as columns: where each record, key and value lies. Compiled, no Python per record.

The only loop over records besides the plain one of batch_format.py, where their layout is drawn. Loaded only where many
records are decoded at once (compaction, flows): importing the compiler takes a second, which a server that only stores
and serves batches never needs.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.errors import CorruptBatch
from headwater.log.batch_format import HEADER_BYTES, BatchHeader, Buffer
from headwater.log.compiling import compiled
from headwater.log.compression import decompress
from headwater.log.kernels import copy, read_varint

Int64Array = npt.NDArray[np.int64]
ByteArray = npt.NDArray[np.uint8]

KEY, VALUE, HEADERS, RECORD = 0, 2, 4, 6
"""Columns of spans, one row per record: where a field starts, followed by its length. A length of -1 is a null; of
headers it is their number, of the record its end."""
SPAN_COLUMNS = 8

START, STOP, BASE_OFFSET, LAST_OFFSET, TIMESTAMP, APPEND_TIME, COUNT = range(7)
"""Columns of the table of batches that is scanned; start and stop are those of the records, unpacked."""
TABLE_COLUMNS = 7

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, no key, no value, no headers: of one byte each."""


class MisfitRecords(CorruptBatch):
    """The records of a batch do not fit together; `which` is its row in the table."""

    def __init__(self, which: int, reason: str) -> None:
        super().__init__(reason)
        self.which = which


class RecordColumns(NamedTuple):
    """`body` is what was scanned; row i of `spans` says where record i lies in it."""

    body: ByteArray
    offsets: Int64Array
    timestamps_ms: Int64Array
    spans: Int64Array

    def column(self, which: int) -> Int64Array:
        return self.spans[:, which]


def scanned(body: ByteArray, table: Int64Array, first: int, end: int) -> RecordColumns:
    """The records of all batches of the table with offsets from `first` to below `end`."""
    room = (table[:, STOP] - table[:, START]) // RECORD_BYTES_MIN
    lying = np.flatnonzero((table[:, COUNT] < 0) | (table[:, COUNT] > room))
    if len(lying):
        base, count = table[lying[0], (BASE_OFFSET, COUNT)].tolist()
        raise MisfitRecords(int(lying[0]), f"the batch at offset {base} cannot hold the {count} records it claims")
    # One more than there can be: a record outside the range is read into the next free row, too.
    rows = int(table[:, COUNT].sum()) + 1
    offsets, timestamps = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    spans = np.empty((rows, SPAN_COLUMNS), dtype=np.int64)
    kept = scan(body, table, first, end, offsets, timestamps, spans)
    if kept < 0:
        base = int(table[-1 - kept, BASE_OFFSET])
        raise MisfitRecords(-1 - kept, f"the batch at offset {base} has records that do not fit together")
    return RecordColumns(body, offsets[:kept], timestamps[:kept], spans[:kept])


def record_columns(batch: Buffer, header: BatchHeader, *, bytes_max: int) -> RecordColumns:
    """Take apart one whole batch whose checksum has been verified.

    CorruptBatch if its records do not fit together, InvalidRecord if they are more than `bytes_max` bytes.
    """
    unpacked = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size], bytes_max=bytes_max)
    body = np.frombuffer(unpacked, dtype=np.uint8)
    body.flags.writeable = False  # always, so that the compiler makes one version of each loop
    time = header.max_timestamp if header.append_time else header.base_timestamp
    row = (0, len(body), header.base_offset, header.last_offset, time, header.append_time, header.record_count)
    return scanned(body, np.array([row], dtype=np.int64), 0, 2**63 - 1)


def kept_records(columns: RecordColumns, kept: npt.NDArray[np.bool_]) -> bytes:
    """The bytes of the kept records, one after the other."""
    starts, ends = columns.column(RECORD)[kept], columns.column(RECORD + 1)[kept]
    target = np.empty(int((ends - starts).sum()), dtype=np.uint8)
    _join(columns.body, starts, ends, target)
    return target.tobytes()


@compiled
def _skip_bytes(body, place, end):  # type: ignore[no-untyped-def]
    """Start and length of a field that may be null, and the position behind it; -1 if it does not fit."""
    length, place = read_varint(body, place, end)
    if place < 0 or length > end - place:
        return 0, 0, -1
    if length < 0:
        return place, np.int64(-1), place
    return place, length, place + length


@compiled
def _skip_headers(body, place, end, count):  # type: ignore[no-untyped-def]
    """The position behind so many headers; -1 if they do not fit."""
    if count < 0 or count > end - place:
        return -1
    for _ in range(count):
        _, name_length, place = _skip_bytes(body, place, end)
        if place < 0 or name_length < 0:
            return -1
        _, _, place = _skip_bytes(body, place, end)
        if place < 0:
            return -1
    return place


@compiled
def scan(body, batches, first, end, offsets, timestamps, spans):  # type: ignore[no-untyped-def]
    """Records with offsets from `first` to below `end`; how many, or -1 - n if batch n does not fit together.

    A record has six numbers: its length, the deltas of timestamp and offset, the lengths of key and value, how many
    headers. They are read in place: an array is counted whenever it is handed to a function, which costs five times as
    much as to read a number.
    """
    kept = 0
    for which in range(batches.shape[0]):
        place, stop = batches[which, 0], batches[which, 1]
        for _ in range(batches[which, 6]):
            start, record_end = place, stop
            timestamp, offset = np.int64(0), np.int64(0)
            for field in range(6):
                number, shift = np.uint64(0), np.uint64(0)
                while True:
                    if place >= record_end or shift > np.uint64(63):
                        return -1 - which
                    byte = np.uint64(body[place])
                    place += 1
                    number |= (byte & np.uint64(0x7F)) << shift
                    if byte < np.uint64(0x80):
                        break
                    shift += np.uint64(7)
                value = np.int64(number >> np.uint64(1))
                if number & np.uint64(1):
                    value = ~value
                if field == 0:
                    if value < 1 or value > stop - place:
                        return -1 - which
                    record_end = place + value
                    place += 1  # attributes, which say nothing
                elif field == 1:
                    timestamp = batches[which, 4] + (0 if batches[which, 5] else value)
                elif field == 2:
                    offset = batches[which, 2] + value
                    if value < 0 or offset > batches[which, 3]:
                        return -1 - which
                else:
                    if value > record_end - place:
                        return -1 - which
                    span = 2 * (field - 3)
                    spans[kept, span], spans[kept, span + 1] = place, max(value, -1) if field < 5 else value
                    if field < 5:
                        place += max(value, 0)
                    elif value:
                        place = _skip_headers(body, place, record_end, value)
            if place != record_end:
                return -1 - which
            if first <= offset < end:
                spans[kept, 6], spans[kept, 7] = start, record_end
                offsets[kept], timestamps[kept] = offset, timestamp
                kept += 1
        if place != stop:
            return -1 - which
    return kept


@compiled
def total(spans, column):  # type: ignore[no-untyped-def]
    """Bytes of all keys or values, and how many are null."""
    size = np.int64(0)
    nulls = np.int64(0)
    for row in range(spans.shape[0]):
        length = spans[row, column + 1]
        if length < 0:
            nulls += 1
        else:
            size += length
    return size, nulls


@compiled
def gather(body, spans, column, ends, valid, target):  # type: ignore[no-untyped-def]
    """Keys or values one behind the other in `target`; where each ends; a bit for each that is not null."""
    place = np.int64(0)
    ends[0] = 0
    for row in range(spans.shape[0]):
        start, length = spans[row, column], spans[row, column + 1]
        if length >= 0:
            place = copy(target, place, body, start, start + length)
            if len(valid) > 0:
                valid[row >> 3] |= np.uint8(1 << (row & 7))
        ends[row + 1] = place


@compiled
def header_spans(body, spans, ends, fields):  # type: ignore[no-untyped-def]
    """Where name and value of every header are (start, length, start, length), and where each record's end."""
    count = 0
    ends[0] = 0
    for row in range(spans.shape[0]):
        place = spans[row, 4]
        for _ in range(spans[row, 5]):
            fields[count, 0], fields[count, 1], place = _skip_bytes(body, place, len(body))
            fields[count, 2], fields[count, 3], place = _skip_bytes(body, place, len(body))
            count += 1
        ends[row + 1] = count


@compiled
def _join(body, starts, ends, target):  # type: ignore[no-untyped-def]
    place = np.int64(0)
    for row in range(len(starts)):
        place = copy(target, place, body, starts[row], ends[row])
