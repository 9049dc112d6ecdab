"""The compiled decoder must see what the plain one sees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatch
from headwater.log.batch_format import HEADER_BYTES, decode_batch, encode_batch, read_header, seal
from headwater.log.record_columns import KEY, RECORD, VALUE, kept_records, record_columns
from headwater.record import Record

optional_bytes = st.none() | st.binary(max_size=300)
records = st.lists(
    st.builds(
        Record,
        value=optional_bytes,
        key=optional_bytes,
        headers=st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3).map(tuple),
        timestamp_ms=st.integers(0, 2**50),
    ),
    min_size=1,
    max_size=20,
)
LIMIT = 2**24


def part(columns, row, which):
    start, size = columns.spans[row, which : which + 2]
    return None if size < 0 else columns.body[start:][:size].tobytes()


@given(records, st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
@settings(max_examples=150, deadline=None)
def test_columns_hold_what_the_plain_decoder_reads(rows, codec):
    batch = encode_batch(rows, compression=codec)
    header = read_header(batch)
    columns = record_columns(batch, header, bytes_max=LIMIT)
    for row, record in enumerate(decode_batch(batch, bytes_max=LIMIT)):
        assert part(columns, row, KEY) == record.key
        assert part(columns, row, VALUE) == record.value
        assert columns.offsets[row] == record.offset
        assert columns.timestamps_ms[row] == record.timestamp_ms


@given(records, st.data())
@settings(max_examples=100, deadline=None)
def test_gathered_records_are_the_kept_ones_byte_for_byte(rows, data):
    batch = encode_batch(rows)
    columns = record_columns(batch, read_header(batch), bytes_max=LIMIT)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    pieces = [
        columns.body[start:end].tobytes()
        for (start, end), keep in zip(columns.spans[:, RECORD:], kept, strict=True)
        if keep
    ]
    assert kept_records(columns, kept) == b"".join(pieces)


@given(records, st.integers(0, 10_000), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_any_byte_changed_is_refused_or_stays_inside_the_batch(rows, position, byte):
    batch = encode_batch(rows)
    position = HEADER_BYTES + position % (len(batch) - HEADER_BYTES)
    batch[position] = byte
    seal(batch)
    try:
        columns = record_columns(batch, read_header(batch), bytes_max=LIMIT)
    except CorruptBatch:
        return
    ends = columns.spans[:, VALUE] + np.maximum(columns.spans[:, VALUE + 1], 0)
    assert (ends <= len(columns.body)).all()
    assert (columns.spans[:, RECORD + 1] <= len(columns.body)).all()


def test_a_batch_that_claims_more_records_than_bytes_is_refused():
    batch = encode_batch([Record(b"x", timestamp_ms=0)])
    header = read_header(batch)._replace(record_count=2**31 - 1)
    with pytest.raises(CorruptBatch, match="claims"):
        record_columns(batch, header, bytes_max=LIMIT)
