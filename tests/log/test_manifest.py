from dataclasses import replace

import pytest

from headwater.cli.log import findings
from headwater.clock import ManualClock
from headwater.log.check import check_log
from headwater.log.checkpoint import read_checkpoint, write_checkpoint
from headwater.log.manifest import Manifest
from headwater.record import Record
from headwater.testing import SimulatedDisk
from tests.log.subjects import FOLDER, Subject, killed

TINY = {"segment.bytes": "300"}


def test_the_manifest_lists_every_sealed_segment_with_its_size() -> None:
    subject = Subject(TINY)
    subject.fill(10)
    subject.partition.checkpoint()
    manifest = Manifest.read(subject.storage, FOLDER)
    sealed = subject.partition.segments[:-1]
    assert list(manifest.segments) == [segment.base_offset for segment in sealed]
    assert [row.size for row in manifest.segments.values()] == [segment.size for segment in sealed]
    assert [row.next_offset for row in manifest.segments.values()] == [
        segment.base_offset for segment in subject.partition.segments[1:]
    ]


def test_appending_writes_no_manifest_and_an_unchanged_list_is_not_written_again() -> None:
    disk = SimulatedDisk(ManualClock())
    subject = Subject(storage=disk)
    calls: list[str] = []
    disk.on_call = lambda call: calls.append(call.path)
    subject.fill(20)
    subject.partition.checkpoint()
    assert not any("manifest" in path for path in calls), "nothing is sealed yet"
    subject.partition.roll()
    subject.fill(1)
    subject.partition.checkpoint()
    version = Manifest.read(disk, FOLDER).version
    subject.fill(5)
    subject.partition.checkpoint()
    assert Manifest.read(disk, FOLDER).version == version == 1


def test_a_log_without_a_manifest_is_adopted_at_its_first_opening() -> None:
    subject = Subject(TINY)
    subject.fill(10)
    subject.log.close()
    noted = Manifest.read(subject.storage, FOLDER)
    for name in ("manifest.json", "manifest.copy", "checkpoint.copy"):
        subject.storage.delete(f"{FOLDER}/{name}")
    forget_that_there_was_one(subject)
    subject.kill()
    assert subject.partition.recovery_report == []
    assert Manifest.read(subject.storage, FOLDER).segments == noted.segments


def forget_that_there_was_one(subject: Subject) -> None:
    checkpoint = read_checkpoint(subject.storage, FOLDER)
    assert checkpoint is not None
    write_checkpoint(subject.storage, FOLDER, replace(checkpoint, manifest=0))


def test_a_manifest_that_is_missing_with_its_copy_is_reported_and_rebuilt() -> None:
    subject = Subject(TINY)
    subject.fill(10)
    subject.log.close()
    subject.lose("manifest.json")
    subject.kill()
    (said,) = subject.partition.recovery_report
    assert said == f"{FOLDER}/manifest.json is missing; it is made again from the segments that are there"
    subject.kill()
    assert subject.partition.recovery_report == []


@pytest.mark.parametrize("cleanly", [True, False], ids=["after a clean stop", "after kill -9"])
@pytest.mark.parametrize("number, kept", [(0, False), (0, True), (2, False), (2, True)])
def test_a_segment_that_is_lost_together_with_the_manifest_is_missed(cleanly: bool, number: int, kept: bool) -> None:
    """`kept`: the indexes of the segment are still there."""
    subject = Subject(TINY)
    subject.fill(10)
    subject.log.maintain()
    before, log = subject.values(), subject.path(number)
    if cleanly:
        subject.log.close()
    subject.storage = killed(subject.storage)
    first, end = (int(subject.names(".log")[one].removesuffix(".log")) for one in (number, number + 1))
    stem = log.removesuffix(".log")
    for path in (log, *(() if kept else (f"{stem}.index", f"{stem}.timeindex"))):
        subject.storage.delete(path)
    subject.lose("manifest.json")
    why = f"{log} is missing" if kept else "no segment holds them"
    assert f"t/0: offsets {first} to {end - 1} are missing: {why}" in findings(check_log(subject.storage))
    for _ in range(2):  # the second start knows of it
        subject.kill()
        assert subject.values() == before[:first] + before[end:]
        assert [(gap.first_offset, gap.end_offset) for gap in subject.partition.unreadable] == [(first, end)]
    assert subject.put(b"next").base_offset == len(before), "no offset is assigned twice"


def test_a_compacted_partition_without_its_manifest_lacks_no_more_than_stray_indexes_show() -> None:
    subject = Subject({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.bytes": "300"})
    for number in range(12):
        subject.log.append("t", Record(b"%d" % number, b"key" if number % 3 else b"key %d" % number))
        subject.partition.roll()
    subject.log.maintain()
    offsets = subject.offsets()
    assert len(offsets) < 12, "compaction has removed some"
    subject.log.close()
    subject.lose("manifest.json")
    assert check_log(subject.storage).partitions[-1].gaps == []
    subject.kill()
    assert (subject.partition.unreadable, subject.offsets()) == ([], offsets)
    subject.log.close()
    subject.lose("manifest.json")
    lost = subject.path(1)
    subject.storage.delete(lost)
    (gap,) = check_log(subject.storage).partitions[-1].gaps
    assert gap.why == f"{lost} is missing"
    subject.kill()
    assert subject.partition.unreadable[0][:2] == gap[:2]


def test_retention_and_a_start_after_it_leave_no_row() -> None:
    subject = Subject({**TINY, "retention.ms": "1000"})
    subject.fill(10)
    subject.clock.advance(5000)
    subject.fill(1)
    subject.log.maintain()
    assert subject.partition.start_offset > 0
    subject.kill()
    assert subject.partition.recovery_report == []
    assert min(Manifest.read(subject.storage, FOLDER).segments, default=99) >= subject.partition.start_offset - 2


def test_a_segment_as_it_was_before_compaction_does_not_bring_back_what_was_deleted() -> None:
    subject = Subject({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"})
    for value in (b"a large old one" * 20, b"new"):
        subject.log.append("t", Record(value, b"key"))
        subject.partition.roll()
    before, first = subject.bytes_of(subject.path(0)), subject.path(0)
    subject.log.append("t", Record(b"newest", b"key"))
    subject.log.maintain()
    assert [record.value for record in subject.records()] == [b"new", b"newest"]
    subject.log.close()
    subject.overwrite(first, 0, bytes(before))
    assert any(f"{first} is not what was sealed" in line for line in findings(check_log(subject.storage)))
    for _ in range(2):  # the second start knows of it
        subject.kill()
        assert [record.value for record in subject.records()] == [b"newest"]
        assert [(gap.first_offset, gap.end_offset) for gap in subject.partition.unreadable] == [(0, 2)]
    assert subject.partition.recovery_report == []
