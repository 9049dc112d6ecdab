"""Sealed segments in the archive: where they go, when they leave the local disk, and that nobody notices."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from headwater.clock import ManualClock
from headwater.errors import (
    ArchiveUnavailable,
    InvalidSetting,
    LogClosed,
    OffsetOutOfRange,
    TopicFull,
    TopicOffline,
    UnknownTopic,
)
from headwater.log import Log
from headwater.log.archive_manifest import NAME as MANIFEST
from headwater.log.archive_manifest import State
from headwater.log.check import check_log
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.record import Record
from headwater.settings import LogSettings
from tests.log.archives import ARCHIVED, MOVED, ArchivedSubject, objects_at, objects_on
from tests.log.flaky_files import URL, FlakyFiles, Killed, away, flaky_files
from tests.log.subjects import FOLDER, TOPIC, in_threads


@pytest.fixture
def files() -> Iterator[type[FlakyFiles]]:
    with flaky_files() as files:
        yield files


def filled(configs: dict[str, str] | None = None, **named: object) -> ArchivedSubject:
    """Forty records, three to a segment."""
    subject = ArchivedSubject(configs, **named)  # type: ignore[arg-type]
    subject.fill(40)
    return subject


def batches_read(subject: ArchivedSubject) -> bytes:
    """All bytes that readers get: a read from the start of a segment goes to its end."""
    found = [subject.partition.read(segment.base_offset, bytes_max=10_000) for segment in subject.partition.segments]
    return b"".join(piece.file.read_at(piece.position, piece.length) for one in found for piece in one.slices)


# -- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["beside the log", "a folder", "fsspec"])
def test_what_was_moved_is_read_byte_for_byte_through_the_same_offsets(
    where: str, tmp_path: Path, files: type[FlakyFiles]
) -> None:
    subject = filled(url={"beside the log": "", "a folder": f"file://{tmp_path}", "fsspec": URL}[where])
    before, records = batches_read(subject), subject.records()
    subject.log.maintain()
    assert subject.local_bases() == [39]
    assert subject.archived_bases() == list(range(0, 39, 3))
    assert batches_read(subject) == before
    assert subject.records() == records
    assert [subject.records(offset)[0].offset for offset in range(40)] == list(range(40))
    subject.check_archive()


def test_objects_lie_under_cluster_topic_and_partition() -> None:
    subject = filled()
    subject.log.maintain()
    assert objects_on(subject.storage) == subject.object_names()
    assert f"{subject.topic_folder()}/0/00000000000000000003.timeindex" in subject.object_names()


def test_records_are_appended_and_archived_further_on() -> None:
    subject = filled()
    for _ in range(3):
        subject.log.maintain()
        subject.fill(10)
    subject.log.maintain()
    assert subject.offsets() == list(range(70))
    assert len(subject.local_bases()) == 1


def test_a_reader_that_holds_a_slice_is_not_disturbed_when_the_segment_moves() -> None:
    subject = filled()
    held = subject.partition.read(4, bytes_max=10_000).slices[0]
    before = held.file.read_at(held.position, held.length)
    subject.log.maintain()
    assert held.file.read_at(held.position, held.length) == before


def test_a_look_that_began_before_a_segment_moved_continues_in_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = filled()
    partition = subject.partition
    stale = partition.snapshot()
    subject.log.maintain()
    real, looks = partition.snapshot, [stale]
    monkeypatch.setattr(partition, "snapshot", lambda *, committed: looks.pop() if looks else real())
    assert partition.read_verified(4, bytes_max=10_000).length > 0
    assert not looks


def test_readers_beside_the_move_see_every_record(tmp_path: Path) -> None:
    with Log.open(tmp_path, clock=ManualClock()) as log:
        log.create_topic(TOPIC, configs=MOVED)
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                offsets = [record.offset for record in log.read(TOPIC)]
                assert offsets == list(range(len(offsets)))

        def write() -> None:
            try:
                for number in range(60):
                    log.append(TOPIC, Record(b"%d" % number + b"." * 100), durable=False)
                    if number % 6 == 0:
                        log.maintain()
            finally:
                stop.set()

        in_threads([read, read, write])
        assert [record.value for record in log.read(TOPIC)] == [b"%d" % n + b"." * 100 for n in range(60)]


def test_times_are_looked_up_in_the_archive_as_they_were_on_the_disk() -> None:
    subject, random = ArchivedSubject(), Random(5)
    for number in range(60):
        subject.clock.wall_ms = 1_700_000_000_000 + random.randrange(10_000)
        subject.put(b"%d" % number + b"." * 100)
    times = range(1_700_000_000_000 - 1, 1_700_000_010_000, 97)
    before = [subject.partition.offset_for_time(time_ms) for time_ms in times]
    newest = subject.partition.newest_timestamp()
    subject.log.maintain()
    assert len(subject.local_bases()) == 1
    assert [subject.partition.offset_for_time(time_ms) for time_ms in times] == before
    assert subject.partition.newest_timestamp() == newest
    subject.restart()
    assert [subject.partition.offset_for_time(time_ms) for time_ms in times] == before
    assert subject.partition.newest_timestamp() == newest


@pytest.mark.parametrize("again", [ArchivedSubject.restart, ArchivedSubject.kill])
def test_after_a_restart_everything_is_where_it_was(again: Callable[[ArchivedSubject], None]) -> None:
    subject = filled()
    records = subject.records()
    subject.log.maintain()
    again(subject)
    assert subject.partition.start_offset == 0
    assert subject.records() == records
    subject.fill(1)
    assert subject.offsets() == list(range(41))


def test_opening_a_log_does_not_reach_for_the_archive(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)
    subject.log.maintain()
    files.on_call = staticmethod(away)
    subject.restart()
    assert (subject.partition.start_offset, subject.partition.end_offset) == (0, 40)


def test_offsets_are_not_given_out_twice_though_all_local_files_are_lost() -> None:
    subject = filled()
    subject.log.maintain()
    subject.log.close()
    for name in subject.names():
        if name != MANIFEST:
            subject.storage.delete(f"{FOLDER}/{name}")
    subject.open()
    assert subject.offsets() == list(range(39))
    assert subject.put(b"next").base_offset == 39


def test_a_check_of_a_log_without_an_identity_still_reads_the_archive() -> None:
    subject = filled(ARCHIVED)
    subject.log.maintain()
    subject.log.close()
    for name in ("identity.json", "identity.copy"):
        subject.storage.delete(name)
    report = check_log(subject.storage)
    assert report.problems == ["identity.json is missing"]
    (partition,) = [one for one in report.partitions if f"{one.topic}-{one.partition}" == FOLDER]
    assert (partition.problems, partition.unread_archived) == ([], 0)


def test_the_archive_fills_in_for_local_files_that_are_lost() -> None:
    subject = filled(ARCHIVED)
    subject.log.maintain()
    subject.log.close()
    for name in subject.names():
        if name != MANIFEST and not name.startswith("00000000000000000003"):
            subject.storage.delete(f"{FOLDER}/{name}")
    subject.open()
    assert subject.offsets() == list(range(39))
    assert subject.put(b"next").base_offset == 39
    subject.restart()
    assert subject.offsets() == list(range(40))
    assert subject.partition.recovery_report == []


def test_a_local_file_that_lost_its_end_does_not_replace_the_whole_one_in_the_archive() -> None:
    subject = filled({**ARCHIVED, "local.retention.ms": "1000"})
    subject.log.maintain()
    subject.log.close()
    subject.truncate(subject.path(0), 200)
    subject.open()
    subject.clock.advance(2000)
    subject.log.maintain()
    assert len(subject.local_bases()) == 1
    assert subject.offsets() == list(range(40))


def test_damage_stays_quarantined_when_its_segment_moves() -> None:
    subject = filled()
    subject.overwrite(subject.path(1), 250, b"garbage")
    assert subject.partition.quarantine(4) is not None
    intact = [offset for offset in range(40) if offset != 4]
    assert subject.offsets() == intact
    subject.log.maintain()
    assert len(subject.local_bases()) == 1
    assert subject.offsets() == intact
    subject.restart()
    assert subject.offsets() == intact


# -- what goes, and when ---------------------------------------------------------------------------------------------


def test_a_topic_that_does_not_ask_for_it_is_not_archived() -> None:
    subject = filled({**MOVED, "remote.storage.enable": "false"})
    subject.log.maintain()
    assert objects_on(subject.storage) == []
    assert len(subject.local_bases()) == 14


def test_without_a_local_limit_the_local_copy_stays_too() -> None:
    subject = filled(ARCHIVED)
    subject.log.maintain()
    assert subject.local_bases() == list(range(0, 40, 3))
    assert subject.archived_bases() == list(range(0, 39, 3))


def test_the_local_copy_goes_when_local_retention_ms_is_over() -> None:
    subject = filled({**ARCHIVED, "local.retention.ms": "1000"})
    subject.log.maintain()
    assert len(subject.local_bases()) == 14
    subject.clock.advance(1001)
    subject.log.maintain()
    assert subject.local_bases() == [39]
    assert subject.offsets() == list(range(40))


def test_the_oldest_local_copies_go_when_there_are_more_than_local_retention_bytes() -> None:
    subject = filled({**ARCHIVED, "local.retention.bytes": "2000"})
    subject.log.maintain()
    partition = subject.partition
    assert 2000 <= partition.local_size_bytes < 2600
    assert partition.size_bytes == sum(segment.size for segment in partition.segments)
    assert subject.offsets() == list(range(40))


def test_minus_one_keeps_local_copies_for_ever() -> None:
    subject = filled({**ARCHIVED, "local.retention.ms": "-1", "local.retention.bytes": "-1", "retention.ms": "-1"})
    subject.log.maintain()
    subject.clock.advance(10**12)
    subject.log.maintain()
    assert subject.local_bases()[:14] == list(range(0, 40, 3))


def test_a_segment_is_not_archived_before_a_checkpoint_lies_after_it() -> None:
    subject = filled()
    subject.log.archive.run(subject.log.partitions(), now_ms=subject.clock.now_ms())
    assert subject.archived_bases() == []


def test_switching_it_off_leaves_what_is_there_readable() -> None:
    subject = filled()
    subject.log.maintain()
    subject.log.alter_topic(TOPIC, {"remote.storage.enable": None})
    subject.fill(20)
    subject.log.maintain()
    assert subject.archived_bases()[-1] == 36
    assert subject.offsets() == list(range(60))


# -- retention -------------------------------------------------------------------------------------------------------


def test_retention_by_time_deletes_in_the_archive_too() -> None:
    subject = filled({**MOVED, "retention.ms": "5000"})
    subject.log.maintain()
    subject.clock.advance(4000)
    subject.fill(10)
    subject.log.maintain()
    assert subject.partition.start_offset == 0
    subject.clock.advance(2000)
    subject.log.maintain()
    assert subject.partition.start_offset == 39
    assert subject.offsets() == list(range(39, 50))
    assert objects_on(subject.storage) == subject.object_names() != []


def test_retention_by_bytes_counts_local_and_archived_segments_together() -> None:
    subject = filled({**MOVED, "retention.bytes": "3000"})
    subject.log.maintain()
    assert 3000 <= subject.partition.size_bytes < 3600
    assert subject.partition.local_size_bytes < 600
    start = subject.partition.start_offset
    assert subject.offsets() == list(range(start, 40))
    assert start == subject.archived_bases()[0] > 0
    assert objects_on(subject.storage) == subject.object_names()


def test_a_full_topic_is_full_though_its_records_are_in_the_archive() -> None:
    subject = ArchivedSubject({**MOVED, "retention.bytes": "3000", "headwater.full.policy": "reject"})
    subject.fill(15)
    subject.log.maintain()
    with pytest.raises(TopicFull):
        subject.fill(5)
    assert subject.partition.start_offset == 0


def test_deleted_records_go_from_the_archive() -> None:
    subject = filled()
    subject.log.maintain()
    assert subject.partition.delete_records(20) == 20
    with pytest.raises(OffsetOutOfRange):
        subject.partition.read(19, bytes_max=1000)
    subject.log.maintain()
    assert subject.archived_bases() == [18, 21, 24, 27, 30, 33, 36]
    assert objects_on(subject.storage) == subject.object_names()
    assert subject.offsets() == list(range(20, 40))
    subject.restart()
    assert subject.offsets() == list(range(20, 40))


def test_records_deleted_just_before_a_stop_go_after_the_next_start() -> None:
    subject = filled()
    subject.log.maintain()
    subject.partition.delete_records(20)
    subject.kill()
    assert subject.offsets() == list(range(20, 40))
    subject.log.maintain()
    assert objects_on(subject.storage) == subject.object_names()
    assert subject.archived_bases()[0] == 18


def test_records_deleted_while_their_segment_is_copied_go_in_the_next_pass(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)

    def delete_records(operation: str, path: str) -> None:
        files.on_call = None
        subject.partition.delete_records(20)

    files.on_call = staticmethod(delete_records)
    subject.log.maintain()
    subject.log.maintain()
    assert subject.offsets() == list(range(20, 40))
    assert subject.archived_bases() == [18, 21, 24, 27, 30, 33, 36]
    assert objects_at(URL) == subject.object_names()


# -- deleted topics --------------------------------------------------------------------------------------------------


def test_a_deleted_topic_goes_from_the_archive() -> None:
    subject = filled()
    subject.log.maintain()
    subject.log.delete_topic(TOPIC)
    subject.log.maintain()
    assert objects_on(subject.storage) == []
    with pytest.raises(UnknownTopic):
        subject.log.topic(TOPIC)


def test_a_topic_of_the_same_name_has_an_archive_of_its_own() -> None:
    subject = filled()
    subject.log.maintain()
    subject.log.delete_topic(TOPIC)
    subject.log.create_topic(TOPIC, configs=MOVED)
    subject.fill(10)
    subject.log.maintain()
    assert subject.offsets() == list(range(10))
    assert objects_on(subject.storage) == subject.object_names()


def test_a_topic_deleted_while_the_archive_is_away_goes_when_it_is_back(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)
    subject.log.maintain()
    files.on_call = staticmethod(away)
    subject.log.delete_topic(TOPIC)
    subject.log.maintain()
    subject.restart()
    subject.log.maintain()
    assert objects_at_rest(files) != []
    files.on_call = None
    subject.log.maintain()
    assert objects_at(URL) == []


def objects_at_rest(files: type[FlakyFiles]) -> list[str]:
    return sorted(files.store)


@pytest.mark.parametrize("moment", [("make", ""), ("write", ".log"), ("read", ".log"), ("read", ".timeindex")])
def test_a_topic_deleted_and_made_again_while_it_is_copied_has_nothing_to_do_with_the_old_one(
    files: type[FlakyFiles], moment: tuple[str, str]
) -> None:
    subject = filled(url=URL)

    def make_again(operation: str, path: str) -> None:
        if operation != moment[0] or not path.endswith(moment[1]):
            return
        files.on_call = None
        subject.log.delete_topic(TOPIC)
        subject.log.create_topic(TOPIC, configs=MOVED)
        subject.fill(7)

    files.on_call = staticmethod(make_again)
    subject.log.maintain()
    assert subject.names(MANIFEST) == []
    assert subject.offsets() == list(range(7))
    subject.log.maintain()
    assert objects_at(URL) == subject.object_names()
    subject.restart()
    assert subject.offsets() == list(range(7))


def test_a_pass_that_comes_too_late_takes_no_files_of_a_new_topic() -> None:
    subject = filled(ARCHIVED)
    subject.log.maintain()
    old = subject.partition
    copies = [old.archive.segment_like(segment) for segment in old.local_sealed_segments()]
    subject.log.delete_topic(TOPIC)
    subject.log.create_topic(TOPIC, configs=MOVED)
    subject.fill(7)
    with pytest.raises(LogClosed):
        old.evict(copies)
    assert subject.offsets() == list(range(7))


# -- an archive that is away, or not to be trusted -------------------------------------------------------------------


def test_while_the_archive_is_away_local_records_are_read_and_archived_ones_say_why_not(
    files: type[FlakyFiles],
) -> None:
    subject = filled(url=URL)
    subject.log.maintain()
    subject.fill(10)
    subject.restart()  # so that nothing is remembered
    files.on_call = staticmethod(away)
    assert [record.offset for record in subject.records(39)] == list(range(39, 50))
    with pytest.raises(ArchiveUnavailable, match="no route to host"):
        subject.records(4)
    with pytest.raises(ArchiveUnavailable):
        subject.partition.offset_for_time(0)
    subject.log.maintain()
    assert len(subject.local_bases()) > 1
    files.on_call = None
    subject.log.maintain()
    assert subject.offsets() == list(range(50))
    assert len(subject.local_bases()) == 1


def test_whether_an_offset_is_on_the_local_disk_is_known_without_asking(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)
    subject.log.maintain()
    files.on_call = staticmethod(away)
    assert [subject.partition.snapshot().local(offset) for offset in (0, 38, 39, 40)] == [False, False, True, True]


def test_a_pass_that_finds_the_archive_away_does_the_rest_of_its_work(
    files: type[FlakyFiles], caplog: pytest.LogCaptureFixture
) -> None:
    subject = filled({**MOVED, "retention.ms": "5000"}, url=URL)
    files.on_call = staticmethod(away)
    subject.clock.advance(6000)
    subject.fill(10)
    subject.log.maintain()
    assert subject.partition.start_offset == 39
    assert caplog.text.count("archiving waits for the next pass") == 1


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: bytes(len(data)), lambda data: b"x" + data])
def test_what_comes_back_changed_is_not_taken_for_archived(
    files: type[FlakyFiles], damage: Callable[[bytes], bytes]
) -> None:
    subject = filled(url=URL)
    files.damage = staticmethod(damage)
    subject.log.maintain()
    assert subject.archived_bases() == []
    assert len(subject.local_bases()) == 14
    files.damage = None
    subject.log.maintain()
    assert len(subject.local_bases()) == 1
    subject.check_archive()


def test_an_object_that_lost_its_end_is_not_taken_for_archived(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)

    def cut(operation: str, path: str) -> None:
        if operation == "info":
            files.store[path].truncate(50)

    files.on_call = staticmethod(cut)
    subject.log.maintain()
    assert subject.archived_bases() == []
    assert subject.offsets() == list(range(40))


def test_an_archive_without_the_objects_it_should_have_does_not_pass_for_an_empty_log(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)
    subject.log.maintain()
    files.store.clear()
    with pytest.raises(ArchiveUnavailable):
        subject.records(0)
    assert subject.partition.start_offset == 0


def test_a_damaged_manifest_is_not_taken_for_an_empty_one() -> None:
    subject = filled()
    subject.log.maintain()
    subject.log.close()
    for path in (f"{FOLDER}/{MANIFEST}", f"{FOLDER}/archive.copy"):
        subject.overwrite(path, 40, b"?")
    subject.open()
    with pytest.raises(TopicOffline, match=f"{FOLDER}/{MANIFEST}"):
        subject.offsets()


def test_a_damaged_manifest_has_a_copy() -> None:
    subject = filled()
    subject.log.maintain()
    subject.log.close()
    subject.overwrite(f"{FOLDER}/{MANIFEST}", 40, b"?")
    subject.open()
    assert subject.offsets() == list(range(40))


def test_a_deleted_manifest_is_a_gap_that_is_reported_and_stepped_over() -> None:
    subject = filled()
    subject.log.maintain()
    subject.log.close()
    local = subject.local_bases()
    subject.lose(MANIFEST)
    for _ in range(2):
        subject.open()
        assert "archive.json no longer lists it" in subject.partition.recovery_report[0]
        assert subject.partition.start_offset == 0
        assert subject.offsets() == list(range(local[0], 40))
        assert subject.partition.unreadable[0].first_offset == 0
        subject.log.close()


# -- sharing time ----------------------------------------------------------------------------------------------------


def test_a_pass_shares_its_time_between_partitions_and_leaves_the_rest_for_the_next(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)
    subject.log.create_topic("other", configs=MOVED)
    subject.log.append("other", [Record(b"." * 400)])
    subject.log.append("other", [Record(b"." * 400)])

    def take_time(operation: str, path: str) -> None:
        if operation == "begin":
            subject.clock.true_ms += 4_000

    files.on_call = staticmethod(take_time)
    subject.log.maintain()
    assert subject.archived_bases() == [0, 3]
    assert len([name for name in objects_at(URL) if "/other-" in name]) == 3
    for _ in range(12):
        subject.log.maintain()
    assert subject.archived_bases() == list(range(0, 39, 3))


def test_stopping_ends_a_copy_that_is_under_way(files: type[FlakyFiles]) -> None:
    subject = filled(url=URL)

    def stop(operation: str, path: str) -> None:
        subject.log.archive.stop()

    files.on_call = staticmethod(stop)
    subject.log.maintain()
    assert subject.archived_bases() == []
    assert subject.archived_bases(State.COPYING) == [0]
    files.on_call = None
    subject.restart()
    subject.log.maintain()
    assert subject.archived_bases() == list(range(0, 39, 3))


# -- compaction does not go with it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_cannot_be_archived(policy: str) -> None:
    subject = ArchivedSubject()
    with pytest.raises(InvalidSetting, match=r"remote\.storage\.enable"):
        subject.log.create_topic("c", configs={"cleanup.policy": policy, "remote.storage.enable": "true"})
    with pytest.raises(InvalidSetting, match=r"remote\.storage\.enable"):
        subject.log.alter_topic(TOPIC, {"cleanup.policy": policy})
    subject.log.create_topic("c", configs={"cleanup.policy": policy})
    with pytest.raises(InvalidSetting, match=r"remote\.storage\.enable"):
        subject.log.alter_topic("c", {"remote.storage.enable": "true"})


def test_a_topic_with_segments_in_the_archive_cannot_become_compacted() -> None:
    subject = filled()
    subject.log.maintain()
    with pytest.raises(InvalidSetting, match=r"cleanup\.policy"):
        subject.log.alter_topic(TOPIC, {"cleanup.policy": "compact", "remote.storage.enable": None})
    assert subject.log.topic(TOPIC).settings.cleanup_policy == {"delete"}


def test_where_archiving_is_the_default_compacted_topics_stay_out_of_it() -> None:
    clock = ManualClock()
    settings = LogSettings(topic_defaults=(("remote.storage.enable", "true"),))
    with Log.open("memory", storage=SimulatedDisk(clock), clock=clock, settings=settings) as log:
        assert log.create_topic("plain").settings.archived
        assert not log.create_topic("compacted", configs={"cleanup.policy": "compact"}).settings.archived
        log.maintain()


# -- accidents -------------------------------------------------------------------------------------------------------


def copies_at_every_call(disk: SimulatedDisk, seeds: int, work: Callable[[], object]) -> list[SimulatedDisk]:
    """The disk as found after a power cut before each call that changes something, and after a kill there."""
    copies: list[SimulatedDisk] = []

    def copy(call: Call) -> None:
        if call.changing:
            copies.extend(disk.crash(Random(call.number * 1000 + seed)) for seed in range(seeds))
            copies.append(disk.kill())

    disk.on_call = copy
    work()
    disk.on_call = None
    return copies


def check_after_accident(disk: SimulatedDisk, clock: ManualClock, values: list[bytes | None], end_offset: int) -> None:
    """Nothing is lost, the next pass brings everything in order, and offsets go on where they were."""
    subject = ArchivedSubject(storage=disk, clock=clock)
    assert subject.values()[-len(values) :] == values
    subject.check_archive()
    subject.log.maintain()
    assert subject.values()[-len(values) :] == values
    subject.check_archive()
    assert subject.archived_bases(State.COPYING) == subject.archived_bases(State.DELETING) == []
    assert objects_on(disk) == subject.object_names()
    assert set(subject.local_bases()).isdisjoint(subject.archived_bases())
    assert stems(subject.names("index")) <= stems(subject.names(".log"))
    assert subject.put(b"next").base_offset == subject.partition.end_offset - 1 == end_offset
    subject.log.close()


def stems(names: list[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def test_a_crash_at_any_moment_of_moving_loses_nothing() -> None:
    clock = ManualClock()
    disk = SimulatedDisk(clock)
    subject = ArchivedSubject(storage=disk, clock=clock)
    subject.fill(8)
    copies = copies_at_every_call(disk, 3, subject.log.maintain)
    assert len(copies) > 100
    for copy in copies:
        check_after_accident(copy, clock, subject.values(), subject.partition.end_offset)


def test_a_crash_at_any_moment_of_deleting_leaves_nothing_behind_and_takes_nothing_more() -> None:
    clock = ManualClock()
    disk = SimulatedDisk(clock)
    subject = ArchivedSubject(storage=disk, clock=clock)
    subject.fill(11)
    subject.log.maintain()

    def delete() -> None:
        subject.partition.delete_records(7)
        subject.log.maintain()

    copies = copies_at_every_call(disk, 3, delete)
    assert len(copies) > 50
    for copy in copies:
        check_after_accident(copy, clock, subject.values(), subject.partition.end_offset)


def test_a_crash_at_any_moment_of_deleting_a_topic_leaves_it_whole_or_deleted() -> None:
    clock = ManualClock()
    disk = SimulatedDisk(clock)
    subject = ArchivedSubject(storage=disk, clock=clock)
    subject.fill(8)
    subject.log.maintain()
    values = subject.values()

    def delete() -> None:
        subject.log.delete_topic(TOPIC)
        subject.log.maintain()

    for copy in copies_at_every_call(disk, 3, delete):
        with Log.open("memory", storage=copy, clock=clock) as log:
            names = [topic.name for topic in log.topics() if not topic.internal]
            log.maintain()
            assert names == [TOPIC] or objects_on(copy) == []
            assert names == [] or [record.value for record in log.read(TOPIC)] == values


@pytest.mark.parametrize("moment", range(1, 100, 3))
def test_a_kill_at_any_call_to_the_archive_loses_nothing(files: type[FlakyFiles], moment: int) -> None:
    subject = ArchivedSubject(url=URL)
    subject.fill(14)
    values, calls = subject.values(), iter(range(1, 1000))

    def kill(operation: str, path: str) -> None:
        if next(calls) == moment:
            raise Killed

    files.on_call = staticmethod(kill)
    try:
        subject.log.maintain()
    except Killed:
        subject.kill()
    files.on_call = None
    assert subject.values() == values
    subject.check_archive()
    subject.log.maintain()
    assert subject.values() == values
    assert objects_at(URL) == subject.object_names()
    assert len(subject.local_bases()) == 1
    subject.log.close()


@pytest.mark.parametrize("moment", range(1, 100, 3))
def test_an_error_at_any_call_to_the_archive_only_delays(files: type[FlakyFiles], moment: int) -> None:
    subject = ArchivedSubject(url=URL)
    subject.fill(14)
    values, calls = subject.values(), iter(range(1, 1000))

    def fail(operation: str, path: str) -> None:
        if next(calls) == moment:
            raise TimeoutError("it took too long")

    files.on_call = staticmethod(fail)
    subject.log.maintain()
    files.on_call = None
    assert subject.values() == values
    subject.log.maintain()
    assert subject.values() == values
    assert objects_at(URL) == subject.object_names()
    assert len(subject.local_bases()) == 1
