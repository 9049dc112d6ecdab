import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidRecord
from headwater.flow.kafka.encoding import encode_records
from headwater.flow.source.record_batches.records import HEADERS_TYPE, decode_batches
from headwater.log.batch_format import assign_offsets, encode_batch, read_header
from headwater.record import Record

HEADERS = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=3)
RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=8),
        HEADERS.map(tuple),
        st.integers(-(2**62), 2**62 - 1) | st.integers(0, 3),
    ),
    min_size=1,
    max_size=40,
)


def columns(records: list[Record]) -> tuple[pa.Array, pa.Array, np.ndarray, pa.Array]:
    return (
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        np.array([record.timestamp_ms for record in records], dtype=np.int64),
        pa.array([[{"key": k, "value": v} for k, v in record.headers] for record in records], HEADERS_TYPE),
    )


@given(RECORDS, st.sampled_from(["none", "zstd"]))
def test_one_batch_has_the_bytes_that_records_written_one_by_one_have(records: list[Record], compression: str) -> None:
    batches = encode_records(
        *columns(records), producer_id=7, epoch=2, base_sequence=5, batch_bytes=2**20, compression=compression
    )
    wanted = encode_batch(records, compression=compression, producer_id=7, producer_epoch=2, base_sequence=5)
    assert batches == [wanted]


@given(RECORDS, st.integers(1, 600))
def test_batches_hold_every_record_in_order_and_stay_within_their_size(records: list[Record], size: int) -> None:
    batches = encode_records(*columns(records), producer_id=7, epoch=0, base_sequence=0, batch_bytes=size)
    offset = 0
    for batch in batches:
        header = read_header(batch)
        assert len(batch) <= size or header.record_count == 1
        assert header.base_sequence == offset
        assign_offsets(batch, base_offset=offset, leader_epoch=0)
        offset += header.record_count
    decoded = decode_batches(b"".join(batches), 0, offset, headers=True)
    keys, values, times, headers = columns(records)
    assert offset == len(records)
    assert decoded.offsets.tolist() == list(range(offset))
    assert decoded.timestamps_ms.tolist() == times.tolist()
    assert (decoded.keys, decoded.values, decoded.headers) == (keys, values, headers)


def test_text_and_slices_of_columns_are_taken_as_they_are() -> None:
    values = pa.array(["skipped", "é", None, "b"]).slice(1)
    keys = pa.array(["skipped", "k", "l", None]).slice(1)
    headers = pa.array([[], [{"key": "a", "value": b"1"}], None, []], HEADERS_TYPE).slice(1)
    batches = encode_records(keys, values, np.array([5, 6, 7]), headers)
    assert batches == [
        encode_batch(
            [Record("é".encode(), b"k", [("a", b"1")], 5), Record(None, b"l", (), 6), Record(b"b", None, (), 7)]
        )
    ]


def test_sequences_start_again_at_their_end() -> None:
    batches = encode_records(
        None, pa.array([b"x"] * 4), np.zeros(4, dtype=np.int64), base_sequence=2**31 - 2, batch_bytes=1
    )
    assert [read_header(batch).base_sequence for batch in batches] == [2**31 - 2, 2**31 - 1, 0, 1]


def test_no_rows_are_no_batches() -> None:
    assert encode_records(None, pa.array([], pa.binary()), np.array([], dtype=np.int64)) == []


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="2 values"):
        encode_records(pa.array([b"k"]), pa.array([b"a", b"b"]), np.zeros(2, dtype=np.int64))


def test_times_that_no_batch_can_say_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="timestamps"):
        encode_records(None, pa.array([b"a"]), np.array([2**62]))


def test_a_header_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="no name"):
        encode_records(
            None, pa.array([b"a"]), np.zeros(1, dtype=np.int64), pa.array([[{"key": None, "value": b""}]], HEADERS_TYPE)
        )
