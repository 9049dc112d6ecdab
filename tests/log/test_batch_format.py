"""Record batches, against themselves and against what two Kafka clients read and write."""

import random
from collections.abc import Sequence

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatch, InvalidRecord, UnsupportedFormat
from headwater.log.batch_format import (
    CHECKSUMMED_FROM,
    HEADER_BYTES,
    BatchHeader,
    assign_offsets,
    check_crc,
    checked_header,
    decode_batch,
    encode_batch,
    pack_header,
    plausible,
    read_header,
    seal,
    stamp_append_time,
    without_key,
)
from headwater.log.compression import CODECS
from headwater.record import Record

BYTES_MAX = 8 * 1024**2
CLIENTS = {"kafka-python": kafka_python_records, "aiokafka": aiokafka_records}
DECLARED = (CorruptBatch, InvalidRecord, UnsupportedFormat)

FIELDS = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=10), FIELDS), max_size=3)


def records(timestamp_max: int = 2**62 - 1, timestamp_min: int = 0) -> st.SearchStrategy[list[Record]]:
    timestamps = st.integers(timestamp_min, timestamp_max)
    row = st.builds(Record, value=FIELDS, key=FIELDS, headers=HEADERS.map(tuple), timestamp_ms=timestamps)
    return st.lists(row, min_size=1, max_size=20)


def numbered(rows: Sequence[Record], base_offset: int = 0) -> list[Record]:
    return [
        Record(row.value, row.key, tuple(row.headers), row.timestamp_ms, base_offset + index)
        for index, row in enumerate(rows)
    ]


def read_by_client(client: str, batch: bytearray) -> list[Record]:
    read = CLIENTS[client].DefaultRecordBatch(bytearray(batch))
    assert read.validate_crc()
    return [Record(row.value, row.key, tuple(row.headers), row.timestamp, row.offset) for row in read]


def written_by_client(client: str, rows: Sequence[Record], codec: int) -> bytes:
    builder = CLIENTS[client].DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=BYTES_MAX,
    )  # fmt: skip
    for offset, row in enumerate(rows):
        builder.append(offset, timestamp=row.timestamp_ms, key=row.key, value=row.value, headers=list(row.headers))
    return bytes(builder.build())


def with_header(batch: bytes | bytearray, **fields: int) -> bytearray:
    """The batch with some fields of its header changed and the checksum made to fit."""
    changed = pack_header(read_header(batch)._replace(**fields)) + batch[HEADER_BYTES:]
    seal(changed)
    return changed


def with_body(body: bytes, *, record_count: int = 1) -> bytearray:
    batch = encode_batch([Record(b"", timestamp_ms=0)])[:HEADER_BYTES] + body
    return with_header(
        batch, length=len(batch) - 12, record_count=record_count, last_offset_delta=max(0, record_count - 1)
    )


SAMPLE = [
    Record(b"one", b"k", (("trace", b"1"), ("empty", b""), ("none", None)), 1_000),
    Record(None, b"", (), 900),
    Record(b"", None, (("\u00e9\u4e2d", b"\x00"),), 5_000),
]


# Round trips


@given(rows=records(timestamp_min=-1), codec=st.sampled_from(CODECS), base_offset=st.integers(0, 2**62))
def test_what_was_encoded_is_decoded(rows: list[Record], codec: str, base_offset: int) -> None:
    batch = encode_batch(rows, compression=codec)
    assign_offsets(batch, base_offset=base_offset, leader_epoch=0)
    assert decode_batch(batch, bytes_max=BYTES_MAX) == numbered(rows, base_offset)


@given(rows=records(), codec=st.sampled_from(CODECS))
def test_records_without_a_key_are_counted(rows: list[Record], codec: str) -> None:
    batch = encode_batch(rows, compression=codec)
    assert without_key(batch, bytes_max=BYTES_MAX) == sum(row.key is None for row in rows)


@given(rows=records(), position=st.integers(HEADER_BYTES, 2**20), byte=st.integers(0, 255))
def test_with_any_bytes_under_a_valid_checksum_keys_are_counted_or_the_batch_is_corrupt(
    rows: list[Record], position: int, byte: int
) -> None:
    batch = encode_batch(rows)
    batch[HEADER_BYTES + position % (len(batch) - HEADER_BYTES)] = byte
    seal(batch)
    try:
        assert 0 <= without_key(batch, bytes_max=BYTES_MAX) <= len(rows)
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            decode_batch(batch, bytes_max=BYTES_MAX)


@pytest.mark.parametrize("size", [63, 64, 2047, 2048, 8191, 8192, 1_048_575, 1_048_576])
def test_lengths_around_each_boundary_survive(size: int) -> None:
    row = Record(b"v" * size, b"k" * size, (("h" * size, b"w" * size),), 5)
    assert decode_batch(encode_batch([row, row]), bytes_max=BYTES_MAX)[1] == numbered([row, row])[1]


@given(rows=records(), sequence=st.integers(0, 2**31 - 1), producer=st.integers(0, 2**63 - 1))
def test_the_header_says_what_the_batch_holds(rows: list[Record], sequence: int, producer: int) -> None:
    batch = encode_batch(rows, producer_id=producer, producer_epoch=3, base_sequence=sequence)
    header = checked_header(batch)
    assert (header.size, header.record_count, header.last_offset_delta) == (len(batch), len(rows), len(rows) - 1)
    assert header.base_timestamp == rows[0].timestamp_ms
    assert header.max_timestamp == max(row.timestamp_ms for row in rows)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer, 3, sequence)
    assert header.last_sequence == (sequence + len(rows) - 1) % 2**31


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 63, 64, 8_191, 8_192, 65_536, 1024**2])
def test_a_value_of_any_size_comes_back(codec: str, size: int) -> None:
    value = random.Random(size).randbytes(size)
    (record,) = decode_batch(encode_batch([Record(value, timestamp_ms=0)], compression=codec), bytes_max=BYTES_MAX)
    assert record.value == value


def test_a_batch_is_the_bytes_that_the_format_draws() -> None:
    batch = encode_batch([Record(b"v", b"k", (("h", None),), timestamp_ms=258)])
    assert batch[:17].hex() == "0000000000000000" "0000003d" "00000000" "02"  # fmt: skip
    assert int.from_bytes(batch[17:21]) == crc32c(batch[21:])
    assert batch[21:61].hex() == (
        "0000" "00000000" "0000000000000102" "0000000000000102" "ffffffffffffffff" "ffff" "ffffffff" "00000001"
    )  # fmt: skip
    assert batch[61:].hex(" ") == "16 00 00 00 02 6b 02 76 02 02 68 01"


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(InvalidRecord, match="at least one record"):
        encode_batch([])


@pytest.mark.parametrize("timestamp", [2**62, 2**70, -(2**62) - 1])
def test_a_timestamp_out_of_this_world_is_refused(timestamp: int) -> None:
    with pytest.raises(InvalidRecord, match="timestamps lie between"):
        encode_batch([Record(b"v", timestamp_ms=timestamp)])


# Other people's clients


@pytest.mark.parametrize("client", CLIENTS)
@settings(max_examples=60)
@example(rows=SAMPLE, codec=0)
@given(rows=records(2**41), codec=st.integers(0, 4))
def test_clients_decode_what_we_encode(client: str, rows: list[Record], codec: int) -> None:
    assert read_by_client(client, encode_batch(rows, compression=CODECS[codec])) == numbered(rows)


@pytest.mark.parametrize("client", CLIENTS)
@settings(max_examples=60)
@example(rows=SAMPLE, codec=0)
@given(rows=records(2**41), codec=st.integers(0, 4))
def test_we_decode_what_clients_encode(client: str, rows: list[Record], codec: int) -> None:
    batch = written_by_client(client, rows, codec)
    checked_header(batch)
    assert decode_batch(batch, bytes_max=BYTES_MAX) == numbered(rows)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("codec", range(5))
def test_a_mebibyte_passes_between_us_and_clients_in_both_directions(client: str, codec: int) -> None:
    value = random.Random(codec).randbytes(2**18) + bytes(2**18) + b"some words " * 2**16
    rows = [Record(value[: 2**20], b"k", (), 1), Record(b"x", None, (), 0)]
    assert read_by_client(client, encode_batch(rows, compression=CODECS[codec])) == numbered(rows)
    assert decode_batch(written_by_client(client, rows, codec), bytes_max=BYTES_MAX) == numbered(rows)


def test_clients_write_the_same_bytes_as_we_do() -> None:
    ours = bytes(encode_batch(SAMPLE))
    # The leader epoch, which the log fills in, is -1 in theirs or 0.
    theirs = {client: written_by_client(client, SAMPLE, 0) for client in CLIENTS}
    assert {client: batch[:12] + bytes(4) + batch[16:] for client, batch in theirs.items()} == dict.fromkeys(
        CLIENTS, ours
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_read_the_time_the_log_has_stamped(client: str) -> None:
    batch = encode_batch(SAMPLE, compression="lz4")
    stamp_append_time(batch, read_header(batch), now_ms=77_777)
    assert [row.timestamp_ms for row in read_by_client(client, batch)] == [77_777] * 3


# Filling in


@given(rows=records(), base_offset=st.integers(0, 2**63 - 1))
def test_placing_a_batch_keeps_its_checksum(rows: list[Record], base_offset: int) -> None:
    batch = encode_batch(rows)
    assign_offsets(batch, base_offset=base_offset, leader_epoch=5)
    header = checked_header(batch)
    assert (header.base_offset, header.leader_epoch) == (base_offset, 5)


@given(rows=records(), codec=st.sampled_from(CODECS), now_ms=st.integers(0, 2**62))
def test_stamping_keeps_the_checksum_and_gives_every_record_the_time(
    rows: list[Record], codec: str, now_ms: int
) -> None:
    batch = encode_batch(rows, compression=codec)
    stamped = stamp_append_time(batch, checked_header(batch), now_ms=now_ms)
    assert checked_header(batch) == stamped
    assert stamped.append_time
    assert {record.timestamp_ms for record in decode_batch(batch, bytes_max=BYTES_MAX)} == {now_ms}
    assert [record.value for record in decode_batch(batch, bytes_max=BYTES_MAX)] == [row.value for row in rows]


# Batches that are not what they claim to be


def test_every_flipped_bit_after_the_checksum_is_noticed() -> None:
    batch = encode_batch(SAMPLE, compression="gzip")
    for bit in range(17 * 8, len(batch) * 8):
        garbled = bytearray(batch)
        garbled[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            checked_header(garbled)
        with pytest.raises(CorruptBatch):
            decode_batch(garbled, bytes_max=BYTES_MAX)


def test_a_batch_cut_short_or_followed_by_more_is_refused() -> None:
    batch = encode_batch(SAMPLE)
    for cut in range(len(batch)):
        with pytest.raises(CorruptBatch):
            checked_header(batch[:cut])
        with pytest.raises(CorruptBatch):
            decode_batch(batch[:cut], bytes_max=BYTES_MAX)
    with pytest.raises(CorruptBatch, match="were sent"):
        checked_header(batch + b"\0")


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_formats_are_named(magic: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"format {magic}"):
        checked_header(with_header(encode_batch(SAMPLE), magic=magic))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    batch = with_header(encode_batch(SAMPLE), attributes=codec)
    with pytest.raises(UnsupportedFormat):
        checked_header(batch)
    with pytest.raises(UnsupportedFormat):
        decode_batch(batch, bytes_max=BYTES_MAX)


@pytest.mark.parametrize(
    "count, last_delta", [(0, 0), (0, -1), (-1, 0), (3, 1), (3, 3), (2**31 - 1, 2**31 - 2 - 1), (1, -1)]
)
def test_a_batch_whose_offsets_do_not_fit_its_count_is_refused(count: int, last_delta: int) -> None:
    with pytest.raises(InvalidRecord):
        checked_header(with_header(encode_batch(SAMPLE), record_count=count, last_offset_delta=last_delta))


MALFORMED = {
    "a record longer than the batch": bytes.fromhex("7e 00 00 00 01 01 00"),
    "a record of negative length": bytes.fromhex("01 00 00 00 01 01 00"),
    "a record with bytes left over": bytes.fromhex("0e 00 00 00 01 01 00 00"),
    "a record that ends in the middle": bytes.fromhex("04 00 00"),
    "bytes after the last record": bytes.fromhex("0c 00 00 00 01 01 00 00"),
    "a key longer than its record": bytes.fromhex("0c 00 00 00 50 01 00"),
    "a value longer than its record": bytes.fromhex("0c 00 00 00 01 50 00"),
    "more headers than bytes": bytes.fromhex("0c 00 00 00 01 01 50"),
    "fewer headers than none": bytes.fromhex("0c 00 00 00 01 01 01"),
    "a header without a name": bytes.fromhex("10 00 00 00 01 01 02 01 01"),
    "a number that never ends": bytes.fromhex("ff" * 20),
    "an offset before the batch": bytes.fromhex("0c 00 00 01 01 01 00"),
    "an offset after the batch": bytes.fromhex("0c 00 00 02 01 01 00"),
    "nothing at all": b"",
}


@pytest.mark.parametrize("what", MALFORMED)
def test_records_that_do_not_fit_together_are_refused_though_the_checksum_fits(what: str) -> None:
    with pytest.raises(CorruptBatch):
        decode_batch(with_body(MALFORMED[what]), bytes_max=BYTES_MAX)


def test_a_claim_of_two_thousand_million_records_costs_nothing() -> None:
    with pytest.raises(CorruptBatch):
        decode_batch(with_body(b"", record_count=2**31 - 1), bytes_max=BYTES_MAX)


@pytest.mark.parametrize("codec", CODECS)
def test_garbled_bytes_are_decoded_or_refused_with_a_declared_error(codec: str) -> None:
    dice = random.Random(codec)
    original = encode_batch(SAMPLE * 5, compression=codec)
    refused = 0
    for _ in range(2_000):
        batch = bytearray(original)
        for _ in range(dice.randint(1, 5)):
            batch[dice.randrange(12, len(batch))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        del batch[dice.choice((len(batch), dice.randrange(HEADER_BYTES, len(batch)))) :]
        seal(batch)  # so that the decoder gets further than the checksum
        for read in (checked_header, lambda batch: decode_batch(batch, bytes_max=100_000)):
            try:
                read(batch)
            except DECLARED:
                refused += 1
    assert refused > 100


@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused_with_a_declared_error(data: bytes) -> None:
    with pytest.raises(DECLARED):
        checked_header(data)
    with pytest.raises(DECLARED):
        decode_batch(data, bytes_max=BYTES_MAX)


def test_a_batch_that_unpacks_to_too_much_is_refused() -> None:
    for codec in CODECS[1:]:
        batch = encode_batch([Record(bytes(2_000_000), timestamp_ms=0)], compression=codec)
        with pytest.raises(InvalidRecord, match="more than 1000000 bytes"):
            decode_batch(batch, bytes_max=1_000_000)


# Looking at headers


def test_a_header_is_read_from_anywhere_in_a_buffer() -> None:
    batch = encode_batch(SAMPLE)
    buffer = b"before" + bytes(batch) + b"after"
    assert read_header(buffer, 6) == read_header(batch)
    assert check_crc(buffer, read_header(buffer, 6), 6)
    with pytest.raises(CorruptBatch, match="too few"):
        read_header(buffer, len(buffer) - 60)


def test_only_what_could_be_a_batch_is_plausible() -> None:
    header = read_header(encode_batch(SAMPLE))
    assert plausible(header, bytes_left=header.size)
    for wrong in (
        header._replace(magic=1),
        header._replace(length=48),
        header._replace(length=-1),
        header._replace(base_offset=-1),
        header._replace(last_offset_delta=-1),
    ):
        assert not plausible(wrong, bytes_left=header.size)
    assert not plausible(header, bytes_left=header.size - 1)


def test_a_header_survives_packing() -> None:
    batch = encode_batch(SAMPLE, producer_id=5, producer_epoch=1, base_sequence=9)
    header = read_header(batch)
    packed = pack_header(header)
    assert isinstance(header, BatchHeader)
    assert packed[:17] + packed[CHECKSUMMED_FROM:] == batch[:17] + batch[CHECKSUMMED_FROM:HEADER_BYTES]
