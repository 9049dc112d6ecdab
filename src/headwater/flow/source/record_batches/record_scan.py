"""Compiled loops over the records of many batches. No Python for a single record.

Spans are int64, one row per record: key start, key length, value start, value length, headers start, headers count.
A length of -1 is a null.
"""

import numpy as np

from headwater.log.record_columns import RECORD_BYTES_MIN as RECORD_BYTES_MIN
from headwater.log.record_columns import compiled, read_varint

KEY, VALUE, HEADERS = 0, 2, 4
SPAN_COLUMNS = 6

START, STOP, BASE_OFFSET, LAST_OFFSET, TIMESTAMP, APPEND_TIME, COUNT = range(7)
"""Columns of the table of batches that `scan` takes; start and stop are those of the records, unpacked."""
TABLE_COLUMNS = 7


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
def _scan_record(body, place, end, spans, row):  # type: ignore[no-untyped-def]
    """Fill in one row of the spans, from the record's key on; False if its fields do not end where it ends."""
    spans[row, 0], spans[row, 1], place = _skip_bytes(body, place, end)
    if place < 0:
        return False
    spans[row, 2], spans[row, 3], place = _skip_bytes(body, place, end)
    if place < 0:
        return False
    count, place = read_varint(body, place, end)
    if place < 0 or count < 0 or count > end - place:
        return False
    spans[row, 4], spans[row, 5] = place, count
    for _ in range(count):
        _, name_length, place = _skip_bytes(body, place, end)
        if place < 0 or name_length < 0:
            return False
        _, _, place = _skip_bytes(body, place, end)
        if place < 0:
            return False
    return place == end


@compiled
def scan(body, batches, first, end, offsets, timestamps, spans):  # type: ignore[no-untyped-def]
    """Records with offsets from `first` to below `end`; how many, or -1 - n if batch n does not fit together."""
    kept = 0
    for which in range(batches.shape[0]):
        place, stop = batches[which, 0], batches[which, 1]
        for _ in range(batches[which, 6]):
            length, place = read_varint(body, place, stop)
            if place < 0 or length < 1 or length > stop - place:
                return -1 - which
            record_end = place + length
            timestamp_delta, place = read_varint(body, place + 1, record_end)
            if place < 0:
                return -1 - which
            offset_delta, place = read_varint(body, place, record_end)
            offset = batches[which, 2] + offset_delta
            if place < 0 or offset_delta < 0 or offset > batches[which, 3]:
                return -1 - which
            if not _scan_record(body, place, record_end, spans, kept):
                return -1 - which
            place = record_end
            if first <= offset < end:
                offsets[kept] = offset
                timestamps[kept] = batches[which, 4] + (0 if batches[which, 5] else timestamp_delta)
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
    # Unsigned: an index that may be negative is looked at twice, and the copy is then fifty times as slow.
    place = np.uint64(0)
    ends[0] = 0
    for row in range(spans.shape[0]):
        start, length = np.uint64(spans[row, column]), spans[row, column + 1]
        if length >= 0:
            for step in range(np.uint64(length)):
                target[place + np.uint64(step)] = body[start + np.uint64(step)]
            place += np.uint64(length)
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
