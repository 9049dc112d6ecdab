import logging

import pytest

from headwater.errors import LogClosed
from headwater.testing import Fault, ManualClock, SimulatedDisk
from tests.log.subjects import FOLDER, TOPIC, Subject, batch

DAY = 86_400_000


def test_one_pass_rolls_retires_and_checkpoints() -> None:
    subject = Subject({"segment.ms": str(DAY), "retention.ms": str(3 * DAY)})
    subject.put(b"a")
    subject.clock.advance(DAY)
    subject.log.maintain()
    assert [segment.base_offset for segment in subject.partition.segments] == [0, 1]
    subject.partition.append(batch(b"b"), durable=True)
    subject.log.maintain()
    assert subject.partition.durable_end_offset == 2
    subject.clock.advance(4 * DAY)
    subject.log.maintain()
    assert subject.offsets() == []


def test_a_partition_that_fails_does_not_keep_others_from_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk(ManualClock())
    subject = Subject({"retention.ms": "1000"}, storage=disk)
    subject.log.create_topic("z", configs={"retention.ms": "1000"})
    subject.put(b"a")
    subject.log.partition("z", 0).append(batch(b"a"), durable=False)
    subject.clock.advance(2000)
    disk.fail(Fault(("sync", "write", "create", "delete"), path_part=FOLDER, sticky=True))
    with caplog.at_level(logging.WARNING):
        subject.log.maintain()
    assert "t-0" in caplog.text
    assert list(subject.log.read("z")) == []


def test_what_failed_is_tried_again_next_time() -> None:
    disk = SimulatedDisk(ManualClock())
    subject = Subject({"retention.ms": "1000"}, storage=disk)
    subject.put(b"a")
    subject.partition.roll()
    subject.clock.advance(2000)
    disk.fail(Fault(("delete",), path_part=FOLDER))
    subject.log.maintain()
    disk.heal()
    subject.log.maintain()
    assert subject.records() == []
    subject.kill()
    assert subject.records() == []
    assert len(subject.names(".log")) == 1


def test_deletion_decided_on_what_is_deleted_already_takes_nothing_more() -> None:
    subject = Subject({"segment.bytes": "200"})
    subject.fill(10)
    segments = subject.partition.segments
    subject.partition.delete_records(segments[4].base_offset)
    subject.partition.retire(segments[3].base_offset)
    assert subject.offsets()[0] == segments[4].base_offset


def test_a_topic_deleted_meanwhile_is_no_trouble() -> None:
    subject = Subject()
    subject.put(b"a")
    old = subject.partition
    subject.log.delete_topic(TOPIC)
    subject.log.create_topic(TOPIC)
    files = {name: bytes(subject.bytes_of(f"{FOLDER}/{name}")) for name in subject.names()}
    old.checkpoint_if_possible()
    for attempt in (lambda: old.retire(1), old.roll, old.checkpoint, lambda: old.delete_records(-1)):
        with pytest.raises(LogClosed):
            attempt()
    assert {name: bytes(subject.bytes_of(f"{FOLDER}/{name}")) for name in subject.names()} == files
    subject.log.maintain()
    subject.kill()
    assert subject.partition.end_offset == 0
