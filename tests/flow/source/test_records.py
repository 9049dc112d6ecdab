import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptBatch, UnsupportedFormat
from headwater.flow.source.record_batches.records import UnreadableBatch, decode_batches
from headwater.log.batch_format import (
    CONTROL_FLAG,
    assign_offsets,
    decode_batch,
    encode_batch,
    pack_header,
    read_header,
    seal,
    stamp_append_time,
)
from headwater.log.batch_table import find_batches
from headwater.record import Record

RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=60),
        st.none() | st.binary(max_size=8),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
        st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=12,
)
BATCHES = st.lists(st.tuples(RECORDS, st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])), max_size=5)


def laid_out(batches: list[tuple[list[Record], str]], *, first: int = 0) -> bytes:
    log, offset = bytearray(), first
    for records, compression in batches:
        batch = encode_batch(records, compression=compression)
        assign_offsets(batch, base_offset=offset, leader_epoch=0)
        offset += len(records)
        log += batch
    return bytes(log)


def some(count: int) -> list[Record]:
    return [Record(b"value %d" % row, b"key", (), 1000 + row) for row in range(count)]


def mended(batch: bytearray, **changed: int) -> bytearray:
    """The batch with another header, and a checksum that fits it."""
    batch[:61] = pack_header(read_header(batch)._replace(**changed))
    seal(batch)
    return batch


@given(BATCHES, st.integers(0, 30), st.integers(0, 40))
def test_columns_say_what_records_decoded_one_by_one_say(
    batches: list[tuple[list[Record], str]], first: int, length: int
) -> None:
    log = laid_out(batches)
    table = find_batches(log)
    wanted = [
        record
        for position, size in table.rows[:, :2].tolist()
        for record in decode_batch(log[position : position + size], bytes_max=2**20)
        if first <= record.offset < first + length
    ]
    found = decode_batches(log, first, first + length, headers=True)
    assert found.offsets.tolist() == [record.offset for record in wanted]
    assert found.timestamps_ms.tolist() == [record.timestamp_ms for record in wanted]
    assert found.keys.to_pylist() == [record.key for record in wanted]
    assert found.values.to_pylist() == [record.value for record in wanted]
    assert found.headers is not None
    assert [[(one["key"], one["value"]) for one in row] for row in found.headers.to_pylist()] == [
        list(record.headers) for record in wanted
    ]
    for column in (found.keys, found.values, found.headers):
        column.validate(full=True)


def test_headers_are_left_out_unless_asked_for() -> None:
    assert decode_batches(laid_out([(some(3), "none")]), 0, 3, headers=False).headers is None


def test_a_header_name_that_is_not_utf8_is_shown_as_well_as_it_can_be() -> None:
    batch = bytearray(encode_batch([Record(b"v", None, [("ab", b"1")], 5)]))
    batch[batch.index(b"ab")] = 0xFF
    seal(batch)
    headers = decode_batches(batch, 0, 1, headers=True).headers
    assert headers is not None
    assert headers == pa.array([[{"key": "\ufffdb", "value": b"1"}]], headers.type)


def test_every_record_of_an_append_time_batch_has_the_time_of_the_append() -> None:
    batch = encode_batch(some(3))
    stamp_append_time(batch, read_header(batch), now_ms=77_777)
    assert decode_batches(batch, 0, 3, headers=False).timestamps_ms.tolist() == [77_777] * 3


def test_control_batches_are_skipped() -> None:
    control = mended(encode_batch(some(1)), attributes=CONTROL_FLAG, base_offset=2)
    log = laid_out([(some(2), "none")]) + control + laid_out([(some(1), "none")], first=3)
    assert decode_batches(log, 0, 9, headers=False).offsets.tolist() == [0, 1, 3]


def test_gaps_that_compaction_left_are_no_surprise() -> None:
    batch = mended(encode_batch(some(2)), base_offset=100, last_offset_delta=50)
    log = laid_out([(some(2), "none")]) + batch
    assert decode_batches(log, 0, 999, headers=False).offsets.tolist() == [0, 1, 100, 101]


@pytest.mark.parametrize("byte", [17, 21, 40, 61, 70, -1])
def test_a_flipped_bit_is_found(byte: int) -> None:
    log = bytearray(laid_out([(some(5), "none")]))
    log[byte] ^= 0x40
    with pytest.raises(CorruptBatch):
        decode_batches(log, 0, 5, headers=False)


@pytest.mark.parametrize("count", [-1, 4, 6, 2**31 - 1])
def test_a_count_that_lies_is_found(count: int) -> None:
    with pytest.raises(CorruptBatch):
        decode_batches(mended(encode_batch(some(5)), record_count=count), 0, 5, headers=False)


def test_a_record_beyond_the_end_of_its_batch_is_found() -> None:
    with pytest.raises(CorruptBatch):
        decode_batches(mended(encode_batch(some(5)), last_offset_delta=3), 0, 9, headers=False)


def test_half_a_batch_is_refused() -> None:
    log = laid_out([(some(5), "none")])
    with pytest.raises(CorruptBatch, match="not a whole batch"):
        decode_batches(log + log[:70], 0, 5, headers=False)


def test_an_older_format_is_refused_by_its_name() -> None:
    log = bytearray(laid_out([(some(5), "none")]))
    log[16] = 1
    with pytest.raises(UnsupportedFormat, match="format 1"):
        decode_batches(log, 0, 5, headers=False)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = encode_batch([Record(b"\0" * 1_000_000, None, (), 5)], compression="zstd")
    with pytest.raises(UnreadableBatch, match="unpacks to more than"):
        decode_batches(bomb, 0, 1, headers=False, bytes_max=100_000)


@given(st.data())
def test_records_of_any_bytes_with_a_right_checksum_never_crash(data: st.DataObject) -> None:
    batch = encode_batch(some(4))
    for _ in range(data.draw(st.integers(1, 6))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    seal(batch)
    try:
        found = decode_batches(batch, 0, 4, headers=True)
    except CorruptBatch:
        return
    assert found.headers is not None
    for column in (found.keys, found.values, found.headers):
        column.validate(full=True)
