"""The log as a whole: topics come, change and go, one process owns it, and all of it outlives the process."""

import subprocess
import sys
import threading
import uuid
from pathlib import Path
from random import Random

import pytest

from headwater.errors import (
    DamagedFile,
    DataDirectoryLocked,
    DiskFull,
    InvalidPartitions,
    InvalidSetting,
    InvalidTopicName,
    LogClosed,
    TopicExists,
    UnavailableError,
    UnknownPartition,
    UnknownTopic,
    UsageError,
)
from headwater.log import Log
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.storage import write_small_file
from headwater.record import Position, Record, TopicPartition
from headwater.settings import LogSettings
from headwater.testing import Fault, ManualClock, MemoryStorage, SimulatedDisk
from tests.log.subjects import TOPIC, Subject, in_threads, killed
from tests.waiting import LONG


def open_log(storage: MemoryStorage, **settings: object) -> Log:
    return Log.open("memory", storage=storage, clock=ManualClock(), settings=LogSettings(**settings))  # type: ignore[arg-type]


def values(log: Log, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in log.read(topic, partition)]


# Topics


def test_topics_survive_restarts_of_any_kind() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    made = [log.create_topic("b", partitions=3, configs={"retention.ms": "5"}), log.create_topic("a")]
    for restart in ("clean", "kill"):
        if restart == "clean":
            log.close()
        else:
            killed(storage)
        log = open_log(storage)
        assert log.topics() == sorted(made, key=lambda topic: topic.name)
        assert log.topic("b").configs == {"retention.ms": "5"}
        assert log.topic_by_id(made[0].id) == made[0]
        assert len(log.partitions()) == 4


def test_a_topic_exists_for_good_when_it_has_been_made() -> None:
    for seed in range(20):
        disk = SimulatedDisk(ManualClock(), seed=seed)
        open_log(disk).create_topic("a", partitions=2)
        log = open_log(disk.crash(Random(seed)))
        assert log.topic("a").partitions == 2
        log.append("a", Record(b"v"), partition=1)


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 250])
def test_a_topic_needs_a_name_that_is_allowed(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        open_log(MemoryStorage()).create_topic(name)


@pytest.mark.parametrize("partitions", [0, -1, 10_001])
def test_a_topic_needs_a_number_of_partitions_that_is_allowed(partitions: int) -> None:
    with pytest.raises(InvalidPartitions):
        open_log(MemoryStorage()).create_topic("a", partitions=partitions)


def test_a_topic_that_was_refused_leaves_no_trace() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    with pytest.raises(InvalidSetting):
        log.create_topic("a", configs={"retention.ms": "soon"})
    with pytest.raises(UnknownTopic):
        log.topic("a")
    assert storage.list("topics") == []


def test_two_topics_cannot_have_one_name() -> None:
    log = open_log(MemoryStorage())
    log.create_topic("a")
    with pytest.raises(TopicExists):
        log.create_topic("a")


def test_of_many_who_make_the_same_topic_at_once_one_succeeds() -> None:
    log = open_log(MemoryStorage())
    made: list[str] = []

    def make() -> None:
        try:
            made.append(str(log.create_topic("a", partitions=5).id))
        except TopicExists:
            pass

    in_threads([make] * 8)
    assert made == [str(log.topic("a").id)]


def test_what_is_unknown_is_named() -> None:
    log = open_log(MemoryStorage())
    log.create_topic("a", partitions=2)
    with pytest.raises(UnknownTopic, match="nowhere"):
        log.partition("nowhere", 0)
    for number in (2, -1):
        with pytest.raises(UnknownPartition) as error:
            log.partition("a", number)
        assert error.value.count == 2
    with pytest.raises(UnknownTopic):
        log.topic_by_id(uuid.UUID(int=5))


def test_altering_changes_what_is_named_and_lasts() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    log.create_topic("a", configs={"retention.ms": "5", "segment.ms": "7"})
    log.alter_topic("a", {"retention.ms": "6", "segment.bytes": "100"})
    log.alter_topic("a", {"segment.ms": None, "index.interval.bytes": None})
    for _ in range(2):
        assert log.topic("a").configs == {"retention.ms": "6", "segment.bytes": "100"}
        assert log.partition("a", 0).settings == log.topic("a").settings
        assert log.partition("a", 0).settings.segment_bytes == 100
        killed(storage)
        log = open_log(storage)


def test_an_alteration_that_is_refused_changes_nothing() -> None:
    log = open_log(MemoryStorage())
    before = log.create_topic("a", configs={"retention.ms": "5"})
    with pytest.raises(InvalidSetting):
        log.alter_topic("a", {"retention.ms": "6", "segment.ms": "-5"})
    with pytest.raises(InvalidSetting):
        log.alter_topic("a", {"nonsense": "1"})
    with pytest.raises(UnknownTopic):
        log.alter_topic("b", {})
    assert log.topic("a") == before


def test_partitions_are_added_and_keep_what_they_have() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    made = log.create_topic("a", partitions=2)
    log.append("a", Record(b"one"), partition=1)
    log.add_partitions("a", 4)
    log.append("a", Record(b"three"), partition=3)
    killed(storage)
    log = open_log(storage)
    assert (log.topic("a").partitions, log.topic("a").id) == (4, made.id)
    assert [values(log, "a", number) for number in range(4)] == [[], [b"one"], [], [b"three"]]
    for total in (4, 3, 10_001):
        with pytest.raises(InvalidPartitions):
            log.add_partitions("a", total)


def test_defaults_of_the_log_hold_for_topics_that_say_nothing_else() -> None:
    log = open_log(MemoryStorage(), topic_defaults=(("segment.ms", "5000"),))
    assert log.create_topic("a").settings.segment_ms == 5000
    assert log.create_topic("b", configs={"segment.ms": "6000"}).settings.segment_ms == 6000
    assert log.topic("a").configs == {}
    with pytest.raises(InvalidSetting):
        open_log(MemoryStorage(), topic_defaults=(("segment.ms", "x"),))


def test_internal_topics_are_known_by_their_name() -> None:
    log = open_log(MemoryStorage())
    assert log.create_topic("__consumer_offsets").internal
    assert not log.create_topic("__debezium-heartbeat").internal


# Deleting


def test_all_files_of_a_deleted_topic_are_deleted() -> None:
    subject = Subject({"segment.bytes": "200"})
    subject.log.create_topic("other")
    subject.fill(10)
    partition = subject.partition
    subject.log.delete_topic(TOPIC)
    with pytest.raises(UnknownTopic):
        subject.log.topic(TOPIC)
    with pytest.raises(LogClosed):
        partition.roll()
    assert "t-0" not in subject.storage.list("")
    assert "t.json" not in subject.storage.list("topics")
    with pytest.raises(UnknownTopic):
        subject.log.delete_topic(TOPIC)
    subject.kill()
    assert "other" in [topic.name for topic in subject.log.topics()]


def test_a_topic_created_again_starts_empty() -> None:
    subject = Subject()
    subject.put(b"old", producer_id=1, producer_epoch=5, base_sequence=0)
    old = subject.log.topic(TOPIC)
    subject.log.delete_topic(TOPIC)
    subject.log.create_topic(TOPIC, partitions=2)
    assert subject.log.topic(TOPIC).id != old.id
    assert subject.records() == []
    fresh = subject.put(b"new", producer_id=1, producer_epoch=0, base_sequence=0)
    assert (fresh.base_offset, fresh.duplicate) == (0, False)
    subject.kill()
    assert subject.values() == [b"new"]


def test_a_topic_made_again_does_not_find_the_committed_offsets_of_the_old_one() -> None:
    subject = Subject()
    subject.fill(3)
    subject.log.group_offsets.commit("group", {TopicPartition(TOPIC, 0): CommittedOffset(3)})
    subject.log.delete_topic(TOPIC)
    subject.log.create_topic(TOPIC)
    assert subject.log.group_offsets.fetch("group") == {}
    subject.kill()
    assert subject.log.group_offsets.fetch("group") == {}


def test_a_crash_at_any_moment_of_a_deletion_leaves_the_topic_whole_or_deleted() -> None:
    disk = SimulatedDisk(ManualClock(), seed=5)
    subject = Subject({"segment.bytes": "200"}, storage=disk)
    subject.fill(5)
    before = subject.values()
    images = [disk.crash(Random(1))]
    dice = Random(2)
    disk.on_call = lambda call: images.append(disk.crash(Random(dice.random()))) if call.changing else None
    subject.log.delete_topic(TOPIC)
    disk.on_call = None
    outcomes = set()
    for image in images:
        log = open_log(image)
        names = [topic.name for topic in log.topics() if not topic.internal]
        outcomes.add(tuple(names))
        if names:
            assert values(log, TOPIC) == before
            log.delete_topic(TOPIC)
        assert "t-0" not in image.list("")
        log.create_topic(TOPIC)
        assert values(log, TOPIC) == []
        assert log.append(TOPIC, Record(b"new")).offset == 0
    assert outcomes == {(TOPIC,), ()}


def test_a_deletion_that_fails_half_way_is_finished_before_the_name_is_used_again() -> None:
    nth, failed = 0, True
    while failed:
        nth += 1
        disk = SimulatedDisk(ManualClock(), seed=nth)
        subject = Subject({"segment.bytes": "200"}, storage=disk)
        subject.fill(5)
        fault = disk.fail(Fault(("delete", "remove_directory", "sync_directory", "rename", "write"), nth=nth))
        try:
            subject.log.delete_topic(TOPIC)
        except UnavailableError:
            pass
        failed = bool(fault.struck)
        disk.heal()
        if TOPIC not in [topic.name for topic in subject.log.topics()]:
            try:
                subject.log.create_topic(TOPIC)
            except UnavailableError:  # a folder could not be synced: nothing new before a restart
                subject.kill()
                subject.log.create_topic(TOPIC)
            assert subject.records() == []
            assert subject.put(b"new").base_offset == 0
        written = subject.values()
        subject.kill()
        assert subject.values() == written
        assert written in ([b"new"], [b"%d" % number + b"." * 100 for number in range(5)])
    assert nth > 5


@pytest.mark.parametrize("segment_bytes", ["300", "100000"])
def test_a_topic_can_be_deleted_because_the_disk_is_full(segment_bytes: str) -> None:
    disk = SimulatedDisk(ManualClock())
    subject = Subject({"segment.bytes": segment_bytes}, storage=disk)
    subject.log.create_topic("other")
    subject.fill(50)
    disk.capacity_bytes = sum(-(-disk.size(path) // 512) * 512 for path in disk.files())
    with pytest.raises(DiskFull):
        subject.fill(100)
    subject.log.delete_topic(TOPIC)
    subject.log.append("other", Record(b"space again"))
    subject.power_cut(1)
    assert values(subject.log, "other") == [b"space again"]
    assert [topic.name for topic in subject.log.topics() if not topic.internal] == ["other"]


# One owner


def test_two_logs_in_one_process_cannot_share_a_directory(tmp_path: Path) -> None:
    with Log.open(tmp_path / "data") as log:
        log.create_topic("a")
        with pytest.raises(DataDirectoryLocked, match="in use by process"):
            Log.open(tmp_path / "data")
        log.append("a", Record(b"v"))
    Log.open(tmp_path / "data").close()


def test_two_processes_cannot_share_a_directory(tmp_path: Path) -> None:
    script = (
        "import sys; from headwater.log import Log; log = Log.open(sys.argv[1]); print('open', flush=True); input()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        assert owner.stdin is not None
        assert owner.stdout.readline() == "open\n"
        with pytest.raises(DataDirectoryLocked, match=f"process {owner.pid}"):
            Log.open(tmp_path)
    finally:
        owner.kill()
        owner.communicate()
    Log.open(tmp_path).close()


def test_an_opening_that_fails_gives_the_directory_free(tmp_path: Path) -> None:
    with Log.open(tmp_path) as log:
        cluster = log.cluster_id
    identity = (tmp_path / "identity.json").read_bytes()
    for name in ("identity.json", "identity.copy"):
        (tmp_path / name).write_bytes(b"{")
    with pytest.raises(DamagedFile, match=r"identity\.json"):
        Log.open(tmp_path)
    (tmp_path / "identity.json").write_bytes(identity)
    with Log.open(tmp_path) as log:
        assert log.cluster_id == cluster


def test_data_of_another_format_is_refused() -> None:
    storage = MemoryStorage()
    open_log(storage).close()
    write_small_file(
        storage, "identity.json", {"format": 2, "cluster_id": "c", "producer_ids": 0, "moment": [0, 0, ""]}
    )
    with pytest.raises(UsageError, match="format 2"):
        open_log(storage)


def test_the_cluster_has_one_name_for_ever() -> None:
    storage = MemoryStorage()
    names = set()
    for _ in range(3):
        log = open_log(storage)
        names.add(log.cluster_id)
        log.close()
    assert len(names) == 1
    assert names != {open_log(MemoryStorage()).cluster_id}


# Stopping


def test_a_closed_log_says_so() -> None:
    log = open_log(MemoryStorage())
    log.create_topic("a")
    log.close()
    log.close()
    for attempt in (
        lambda: log.append("a", Record(b"v")),
        lambda: log.create_topic("b"),
        lambda: log.delete_topic("a"),
        lambda: log.alter_topic("a", {}),
        lambda: log.add_partitions("a", 2),
        lambda: log.maintain(),
        lambda: log.next_producer_id(),
    ):
        with pytest.raises(LogClosed):
            attempt()


def test_closing_while_others_write_loses_nothing_that_was_acknowledged() -> None:
    subject = Subject({"segment.bytes": "500"}, settings=LogSettings(unflushed_bytes_max=300))
    acknowledged: list[tuple[int, bytes]] = []
    begun = threading.Event()

    def write(writer: int) -> None:
        try:
            for number in range(10_000):
                value = b"%d/%d" % (writer, number)
                acknowledged.append((subject.log.append(TOPIC, Record(value)).offset, value))
                begun.set()
        except LogClosed:
            pass

    def close() -> None:
        assert begun.wait(LONG)
        subject.log.close()

    in_threads([lambda: write(1), lambda: write(2), close])
    subject.open()
    found = {record.offset: record.value for record in subject.records()}
    assert [offset for offset, value in acknowledged if found.get(offset) != value] == []


# Appending


def test_append_answers_where_the_last_record_is() -> None:
    log = open_log(MemoryStorage())
    log.create_topic("a", partitions=4)
    assert log.append("a", [Record(b"1"), Record(b"2")], partition=2) == Position("a", 2, 1)
    rows = [Record(b"%d" % number, key=b"%d" % number) for number in range(20)]
    position = log.append("a", rows)
    (last,) = log.read("a", position.partition, offset=position.offset)
    assert last.value == b"19"


def test_append_needs_a_record() -> None:
    log = open_log(MemoryStorage())
    log.create_topic("a")
    for partition in (None, 0):
        with pytest.raises(UsageError, match="at least one record"):
            log.append("a", [], partition=partition)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_whatever_they_were_packed_with(codec: str) -> None:
    log = open_log(MemoryStorage())
    log.create_topic("a")
    log.append("a", [Record(b"%d" % number) for number in range(100)], compression=codec)
    assert values(log, "a") == [b"%d" % number for number in range(100)]


def test_records_without_a_time_get_that_of_the_log() -> None:
    subject = Subject()
    subject.log.append(TOPIC, [Record(b"a"), Record(b"b", timestamp_ms=5)])
    assert [record.timestamp_ms for record in subject.records()] == [subject.clock.now_ms(), 5]


def test_without_durable_nothing_is_synced_and_all_is_seen() -> None:
    subject = Subject()
    subject.log.append(TOPIC, Record(b"a"), durable=False)
    assert subject.values() == [b"a"]
    assert subject.partition.durable_end_offset == 0
    subject.log.append(TOPIC, Record(b"b"))
    assert subject.partition.durable_end_offset == 2


# Producer ids


def test_no_producer_id_is_given_out_twice() -> None:
    storage = MemoryStorage()
    given: list[int] = []
    for round in range(5):
        log = open_log(storage)
        given += [log.next_producer_id() for _ in range(700)]
        if round % 2:
            log.close()
        else:
            killed(storage)
    assert len(set(given)) == len(given)


def test_no_producer_id_is_given_out_twice_after_power_cuts() -> None:
    disk, given = SimulatedDisk(ManualClock()), []
    for seed in range(10):
        log = open_log(disk)
        given += [log.next_producer_id() for _ in range(3)]
        disk = disk.crash(Random(seed))
    assert len(set(given)) == len(given)
