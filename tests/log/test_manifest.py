from dataclasses import replace

from headwater.cli.log import findings
from headwater.clock import ManualClock
from headwater.log.check import check_log
from headwater.log.checkpoint import read_checkpoint, write_checkpoint
from headwater.log.manifest import Manifest
from headwater.record import Record
from headwater.testing import SimulatedDisk
from tests.log.subjects import FOLDER, Subject

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
