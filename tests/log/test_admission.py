import pytest

from headwater.errors import BatchTooLarge, HeadwaterError, InvalidRecord, InvalidTimestamp
from headwater.log.admission import check_admission
from headwater.log.batch_format import encode_batch, read_header
from headwater.log.topic_settings import TopicSettings
from headwater.record import Record

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
