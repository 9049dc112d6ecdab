"""Compaction on a log: the newest value of every key survives, whatever else happens."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log import Log
from headwater.log.compactor import read_state
from headwater.log.reader import read_some
from headwater.record import Record
from headwater.settings import LogSettings
from headwater.testing import ManualClock, MemoryStorage
from tests.log.bombs import bomb

CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "600",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "1000",
    "index.interval.bytes": "50",
}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass
class Compacted:
    """A compacted topic on a disk in memory, and what it must hold."""

    configs: dict[str, str] = field(default_factory=dict)
    log_settings: LogSettings = field(default_factory=LogSettings)

    def __post_init__(self):
        self.storage, self.clock = MemoryStorage(), ManualClock()
        self.newest: dict[bytes, tuple[int, bytes | None]] = {}
        self.everything: dict[int, Record] = {}
        self.open()
        self.log.create_topic("t", configs={**CONFIGS, **self.configs})

    def open(self):
        self.log = Log.open("memory", storage=self.storage, clock=self.clock, settings=self.log_settings)

    def reopen(self):
        self.log.close()
        self.open()

    @property
    def partition(self):
        return self.log.partition("t", 0)

    def put(self, *rows: tuple[bytes, bytes | None], codec: str = "none"):
        self.clock.advance(1)
        records = [Record(value, key=key, timestamp_ms=self.clock.now_ms()) for key, value in rows]
        last = self.log.append("t", records, compression=codec).offset
        for offset, (record, (key, value)) in enumerate(zip(records, rows, strict=True), last + 1 - len(records)):
            self.newest[key] = (offset, value)
            self.everything[offset] = record

    def records(self) -> list[Record]:
        return list(self.log.read("t"))

    def live(self) -> dict[bytes, bytes]:
        state = {record.key or b"": record.value for record in self.records()}
        return {key: value for key, value in state.items() if value is not None}

    def expected_live(self) -> dict[bytes, bytes]:
        return {key: value for key, (_, value) in self.newest.items() if value is not None}


def test_only_the_newest_of_each_key_is_left_and_offsets_stay():
    topic = Compacted()
    for turn in range(40):
        topic.put((b"a", b"%d" % turn), (b"b", b"%d" % turn))
    topic.partition.roll()
    topic.log.maintain()
    assert [(record.offset, record.key, record.value) for record in topic.records()] == [
        (78, b"a", b"39"),
        (79, b"b", b"39"),
    ]


def test_the_active_segment_is_never_touched():
    topic = Compacted(configs={"segment.bytes": "1000000"})
    for turn in range(40):
        topic.put((b"a", b"%d" % turn))
    topic.log.maintain()
    assert len(topic.records()) == 40


def test_a_tombstone_stays_for_its_time_and_then_goes():
    topic = Compacted()
    topic.put((b"a", b"1"))
    topic.put((b"a", None))
    topic.partition.roll()
    topic.log.maintain()
    assert [record.value for record in topic.records()] == [None]
    topic.clock.advance(1000)
    topic.put((b"b", b"1"))
    topic.partition.roll()
    topic.log.maintain()
    assert [record.key for record in topic.records()] == [b"b"]


def test_a_reader_in_the_middle_is_not_disturbed():
    topic = Compacted()
    for turn in range(40):
        topic.put((b"a", b"%d" % turn))
    old = topic.partition.segments[0]
    held = topic.partition.read(0, bytes_max=10_000).slices[0]
    before = held.file.read_at(held.position, held.length)
    topic.partition.roll()
    topic.log.maintain()
    assert held.file.read_at(held.position, held.length) == before
    assert old.position_of(3, limit=old.size).header.base_offset == 3


def test_more_keys_than_memory_are_cleaned_in_several_passes():
    topic = Compacted(log_settings=LogSettings(compaction_memory_bytes=24 * 32))
    for turn in range(3):
        for key in range(60):
            topic.put((b"%d" % key, b"%d" % turn))
    topic.partition.roll()
    for _ in range(12):
        topic.log.maintain()
    assert topic.live() == topic.expected_live()
    assert len(topic.records()) < 180


def test_damage_is_left_as_it_is_and_hides_nothing_else():
    topic = Compacted()
    for turn in range(60):
        topic.put((b"%d" % (turn % 7), b"%d" % turn))
    victim = topic.partition.segments[1]
    byte = victim.file.read_at(victim.size - 1, 1)[0] ^ 0xFF
    victim.file.write_at(victim.size - 1, [bytes([byte])])
    sizes = [segment.size for segment in topic.partition.segments]
    topic.log.maintain()
    assert topic.partition.segments[1].damage, "met, and put into quarantine"
    topic.log.maintain()
    assert topic.partition.segments[1].size == sizes[1]
    assert len(topic.records()) < 30
    assert topic.live() == topic.expected_live()


def test_deleted_by_age_too_when_the_policy_says_both():
    topic = Compacted(configs={"cleanup.policy": "compact,delete", "retention.ms": "5000"})
    topic.put((b"a", b"1"))
    topic.clock.advance(6000)
    topic.log.maintain()
    assert topic.records() == []


def test_lost_notes_on_cleaning_only_cost_another_pass():
    topic = Compacted()
    for turn in range(60):
        topic.put((b"%d" % (turn % 7), b"%d" % turn))
    topic.log.maintain()
    for name in ("cleaning.json", "cleaning.copy"):
        topic.storage.delete(f"t-0/{name}")
    assert read_state(topic.storage, "t-0").clean_until == 0
    topic.log.maintain()
    assert topic.live() == topic.expected_live()


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["maintain", "roll", "wait", "reopen"]), st.none()),
    ),
    max_size=60,
)


@pytest.mark.parametrize("seed", [1, 2, 3])
@given(script=operations)
@settings(max_examples=40, deadline=None)
def test_any_history_keeps_the_newest_value_of_every_key(seed, script):
    rng = random.Random(seed)
    topic = Compacted()
    for what, rows in script:
        match what:
            case "put":
                values = [(b"key%d" % key, None if gone else rng.randbytes(rng.randrange(40))) for key, gone in rows]
                topic.put(*values, codec=rng.choice(CODECS))
            case "maintain":
                topic.log.maintain()
            case "roll":
                topic.partition.roll()
            case "wait":
                topic.clock.advance(700)
            case "reopen":
                topic.reopen()
    assert topic.live() == topic.expected_live()
    found = topic.records()
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    for record in found:
        original = topic.everything[record.offset]
        assert (record.key, record.value, record.timestamp_ms) == (original.key, original.value, original.timestamp_ms)
    assert_lookups_equal_a_scan(topic, found)


def assert_lookups_equal_a_scan(topic: Compacted, found: list[Record]) -> None:
    partition = topic.partition
    for offset in range(partition.start_offset, partition.end_offset):
        following = next((record.offset for record in found if record.offset >= offset), None)
        position = offset
        records: list[Record] = []
        while not records and position < partition.end_offset:
            records, after = read_some(partition, position, 2**24)
            position = max(after, position + 1)
        assert (records[0].offset if records else None) == following
    for time_ms in {record.timestamp_ms + nudge for record in found for nudge in (-1, 0, 1)}:
        expected = next(((r.timestamp_ms, r.offset) for r in found if r.timestamp_ms >= time_ms), None)
        assert partition.offset_for_time(time_ms) == expected


def test_records_without_a_key_from_before_the_topic_was_compacted_all_stay():
    topic = Compacted(configs={"cleanup.policy": "delete"})
    topic.log.append("t", [Record(b"one"), Record(b"two", key=b""), Record(None), Record(b"three", key=b"")])
    topic.log.alter_topic("t", {"cleanup.policy": "compact"})
    topic.partition.roll()
    topic.log.maintain()
    assert [record.value for record in topic.records()] == [b"one", None, b"three"]


def test_closing_the_log_ends_a_pass_and_the_next_start_makes_it():
    topic = Compacted()
    for turn in range(60):
        topic.put((b"%d" % (turn % 7), b"%d" % turn))
    topic.log.archive.stop()
    topic.log.maintain()
    assert len(topic.records()) == 60
    topic.reopen()
    topic.log.maintain()
    assert topic.live() == topic.expected_live()
    assert len(topic.records()) < 60


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_cannot_be_unpacked_stays_and_the_others_are_compacted(codec: str) -> None:
    subject = Compacted({"max.message.bytes": "1000000"})
    subject.put((b"a", b"1"))
    large = bomb(500_000, codec, key=b"a", timestamp_ms=subject.clock.now_ms())
    subject.partition.append(large, durable=False)
    for number in range(30):
        subject.put((b"a", b"%d" % number * 20))
    subject.log_settings = LogSettings(decompressed_bytes_max=100_000)
    subject.reopen()
    subject.log.maintain()
    segments = subject.partition.segments
    stored = [one.header.base_offset for segment in segments for one in segment.batches(0, limit=segment.size)]
    assert 1 in stored, "the batch that nothing can unpack is missing"
    assert not {0, 2} & set(stored), "older values are still there"
