from random import Random

import pytest

from headwater.errors import BatchTooLarge, HeadwaterError, InvalidRecord, InvalidTimestamp
from headwater.log.admission import admitted, check_admission
from headwater.log.batch_format import checked_header, decode_batch, encode_batch, read_header
from headwater.log.compression import CODECS
from headwater.log.topic_settings import TopicSettings
from headwater.record import Record
from tests.log.bombs import PACKED, bomb

NOW_MS = 1_700_000_000_000


def check(configs: dict[str, str], *records: Record) -> None:
    batch = encode_batch(list(records))
    check_admission(
        "orders", batch, read_header(batch), TopicSettings.from_configs(configs),
        now_ms=NOW_MS, decompressed_bytes_max=1_000_000,
    )  # fmt: skip


def at(timestamp_ms: int) -> Record:
    return Record(b"v", timestamp_ms=timestamp_ms)


KEYLESS = (Record(b"v", key=b"k", timestamp_ms=NOW_MS), Record(b"v", timestamp_ms=NOW_MS))


@pytest.mark.parametrize("configs, records", [
    ({}, (at(NOW_MS),)),
    ({}, (at(0),)),
    ({}, (at(-1),)),
    ({"message.timestamp.before.max.ms": "10"}, (at(-1),)),
    ({"message.timestamp.before.max.ms": "10"}, (at(NOW_MS - 10),)),
    ({"message.timestamp.after.max.ms": "10"}, (at(NOW_MS + 10),)),
    ({"message.timestamp.after.max.ms": "10", "message.timestamp.type": "LogAppendTime"}, (at(NOW_MS + 11),)),
    ({"cleanup.policy": "compact"}, KEYLESS[:1]),
    ({}, KEYLESS),
])  # fmt: skip
def test_a_batch_is_admitted(configs: dict[str, str], records: tuple[Record, ...]) -> None:
    check(configs, *records)


@pytest.mark.parametrize("error, configs, records", [
    (BatchTooLarge, {"max.message.bytes": "60"}, (at(NOW_MS),)),
    (InvalidTimestamp, {"message.timestamp.before.max.ms": "10"}, (at(NOW_MS - 11),)),
    (InvalidTimestamp, {"message.timestamp.after.max.ms": "10"}, (at(NOW_MS + 11),)),
    (InvalidTimestamp, {}, (at(NOW_MS), at(NOW_MS + 3_600_001))),
    (InvalidRecord, {"cleanup.policy": "compact"}, KEYLESS),
    (InvalidRecord, {"cleanup.policy": "compact,delete"}, KEYLESS),
])  # fmt: skip
def test_a_batch_is_refused(error: type[HeadwaterError], configs: dict[str, str], records: tuple[Record, ...]) -> None:
    with pytest.raises(error):
        check(configs, *records)


MEBIBYTE = 1024**2


def admit(batch: bytearray, configs: dict[str, str], *, readable: int = 128 * MEBIBYTE) -> None:
    settings = TopicSettings.from_configs(configs)
    check_admission("orders", batch, read_header(batch), settings, now_ms=NOW_MS, decompressed_bytes_max=readable)


@pytest.mark.parametrize("codec", PACKED)
def test_a_batch_that_unpacks_to_too_much_is_refused_with_the_way_out(codec: str) -> None:
    configs = {"max.decompressed.message.bytes": str(2 * MEBIBYTE), "max.message.bytes": str(MEBIBYTE)}
    admit(bomb(2 * MEBIBYTE - 1000, codec, timestamp_ms=NOW_MS), configs)
    with pytest.raises(
        BatchTooLarge, match=r'unpacks to more than the 2097152 bytes that topic "orders" takes'
    ) as refused:
        admit(bomb(2 * MEBIBYTE, codec, timestamp_ms=NOW_MS), configs)
    assert "raise max.decompressed.message.bytes" in str(refused.value)


def test_a_bomb_of_a_few_bytes_is_refused_by_its_ratio() -> None:
    small = bomb(30 * MEBIBYTE, "zstd", timestamp_ms=NOW_MS, noise=0)
    assert len(small) < 8_000
    with pytest.raises(BatchTooLarge, match=r"unpacks to more .* or raise max\.message\.bytes"):
        admit(small, {})


@pytest.mark.parametrize("codec", PACKED)
def test_what_would_be_taken_as_it_is_may_also_come_packed(codec: str) -> None:
    configs = {"max.decompressed.message.bytes": "1", "max.message.bytes": str(3 * MEBIBYTE)}
    admit(bomb(3 * MEBIBYTE - 1000, codec, timestamp_ms=NOW_MS), configs)


@pytest.mark.parametrize("codec", PACKED)
def test_no_setting_of_a_topic_admits_what_nothing_could_read(codec: str) -> None:
    configs = {"max.decompressed.message.bytes": str(8 * MEBIBYTE), "max.message.bytes": str(8 * MEBIBYTE)}
    with pytest.raises(BatchTooLarge, match="raise the node's decompressed_bytes_max"):
        admit(bomb(4 * MEBIBYTE, codec, timestamp_ms=NOW_MS), configs, readable=3 * MEBIBYTE)


DICE = Random(5)
ROWS = [Record(bytes(DICE.choices(b"abcdef ", k=300)), key=b"k", timestamp_ms=NOW_MS + number) for number in range(50)]


def stored(configs: dict[str, str], batch: bytearray, bytes_max: int = 1_000_000) -> bytes:
    packed, header = admitted(
        "orders", batch, read_header(batch), TopicSettings.from_configs(configs),
        now_ms=NOW_MS, decompressed_bytes_max=bytes_max,
    )  # fmt: skip
    assert header == read_header(packed) == checked_header(packed)
    return bytes(packed)


@pytest.mark.parametrize("sent", CODECS)
@pytest.mark.parametrize("wanted", ["uncompressed", *CODECS[1:]])
def test_a_batch_is_stored_in_the_compression_of_the_topic(sent: str, wanted: str) -> None:
    batch = encode_batch(ROWS, compression=sent, producer_id=7, producer_epoch=1, base_sequence=3)
    before, packed = read_header(batch), stored({"compression.type": wanted}, batch)
    after = read_header(packed)
    assert CODECS[after.codec] == wanted.replace("uncompressed", "none")
    assert after._replace(crc=0, length=0, attributes=0) == before._replace(crc=0, length=0, attributes=0)
    assert decode_batch(packed, bytes_max=1_000_000) == decode_batch(batch, bytes_max=1_000_000)


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", "1", "9"), ("zstd", "-50", "19")])
def test_a_topic_chooses_the_level_of_its_compression(codec: str, low: str, high: str) -> None:
    sizes = [
        len(stored({"compression.type": codec, f"compression.{codec}.level": level}, encode_batch(ROWS)))
        for level in (low, high)
    ]
    assert sizes[1] < sizes[0]


def test_a_batch_as_the_topic_wants_it_is_not_touched() -> None:
    batch = encode_batch(ROWS, compression="zstd")
    for wanted in ("producer", "zstd"):
        assert stored({"compression.type": wanted}, batch) == bytes(batch)


def test_a_batch_that_is_too_large_in_the_compression_of_the_topic_is_refused() -> None:
    batch = encode_batch(ROWS, compression="zstd")
    with pytest.raises(BatchTooLarge):
        stored({"compression.type": "uncompressed", "max.message.bytes": str(len(batch))}, batch)
