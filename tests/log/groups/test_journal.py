"""The offsets topic, as it is written and read back."""

import logging

import pytest

from headwater.clock import ManualClock
from headwater.log.groups.entry import Entry
from headwater.log.groups.journal import TOPIC, Journal, ensure_topic, partition_for
from headwater.log.groups.member import SavedGroup
from headwater.log.groups.records import CommittedOffset, GroupKey, OffsetKey
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.log.storage.simulated import SimulatedDisk
from headwater.record import Record
from headwater.settings import LogSettings


@pytest.fixture
def log() -> Log:
    return Log.open("data", storage=MemoryStorage(), clock=ManualClock(), settings=LogSettings(offsets_partitions=2))


def offset(group: str, value: int | None) -> Entry:
    return Entry(OffsetKey(group, "orders", 0), None if value is None else CommittedOffset(value))


@pytest.mark.parametrize(
    "group, partition",
    [
        ("hello", 99162322 % 50),
        ("Aa", 2112 % 50),
        ("BB", 2112 % 50),
        ("", 0),
        ("polygenelubricants", 0),  # hashes to the smallest integer
        ("😀", 1772899 % 50),  # two units of UTF-16
    ],
)
def test_a_group_lives_where_kafka_would_put_it(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition


def test_the_topic_is_made_at_its_first_use_and_compacted(log: Log) -> None:
    assert TOPIC not in [topic.name for topic in log.topics()]
    topic = ensure_topic(log)
    assert (topic.partitions, topic.internal) == (2, True)
    assert topic.settings.cleanup_policy == {"compact"}
    assert ensure_topic(log) == topic


def test_no_default_for_ordinary_topics_makes_it_forget() -> None:
    defaults = (("retention.bytes", "1"), ("headwater.full.policy", "reject"), ("cleanup.policy", "delete"))
    settings = LogSettings(topic_defaults=defaults)
    topic = ensure_topic(Log.open("data", storage=MemoryStorage(), settings=settings))
    assert (topic.settings.retention_bytes, topic.settings.deleted) == (-1, False)


def test_entries_take_effect_in_order_once_they_are_written(log: Log) -> None:
    ensure_topic(log)
    applied: list[Entry] = []
    journal = Journal(log, 0, applied.extend)
    journal.write(lambda _: [offset("g", 1), offset("g", 2)])
    journal.write(lambda _: [offset("g", None)])
    assert applied == [offset("g", 1), offset("g", 2), offset("g", None)]


def test_the_newest_of_what_was_written_is_loaded(log: Log) -> None:
    ensure_topic(log)
    written = [offset("g", 1), offset("h", 2), offset("g", 3), offset("h", None), Entry(GroupKey("g"), SavedGroup("g"))]
    Journal(log, 1, lambda _: None).write(lambda _: written)
    loaded: list[Entry] = []
    Journal(log, 1, loaded.extend).load()
    assert sorted(loaded, key=str) == sorted(written[2:], key=str)


def test_a_damaged_stretch_costs_only_itself() -> None:
    disk = SimulatedDisk(ManualClock())
    log = Log.open("data", storage=disk, clock=ManualClock())
    ensure_topic(log)
    for group in ("g", "h", "i"):
        Journal(log, 0, lambda _: None).write(lambda _, group=group: [offset(group, 1)])  # type: ignore[misc]
    file = log.partition(TOPIC, 0).segments[0].file
    size = file.size()
    file.write_at(size // 2, [b"?"])
    loaded: list[Entry] = []
    Journal(log, 0, loaded.extend).load()
    assert loaded == [offset("g", 1), offset("i", 1)]


def test_many_entries_go_into_several_batches(log: Log) -> None:
    ensure_topic(log)
    entries = [Entry(OffsetKey("g", "orders", n), CommittedOffset(n, metadata="m" * 4000)) for n in range(500)]
    loaded: list[Entry] = []
    Journal(log, 0, lambda _: None).write(lambda _: entries)
    Journal(log, 0, loaded.extend).load()
    assert loaded == entries


def test_nothing_decided_is_nothing_written(log: Log) -> None:
    ensure_topic(log)
    Journal(log, 0, lambda _: None).write(lambda _: [])
    assert log.partition(TOPIC, 0).end_offset == 0


def test_a_record_that_makes_no_sense_costs_only_itself(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    ensure_topic(log)
    log.append(TOPIC, [Record(b"?", key=b"?"), Record(b"x", key=b"\x00\x09xx")], partition=0)
    Journal(log, 0, lambda _: None).write(lambda _: [offset("g", 1)])
    loaded: list[Entry] = []
    with caplog.at_level(logging.ERROR):
        Journal(log, 0, loaded.extend).load()
    assert loaded == [offset("g", 1)]
    assert "record 0 of __consumer_offsets/0 is skipped" in caplog.text
