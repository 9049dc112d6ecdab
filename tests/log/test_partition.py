"""Appending to a partition and what may be seen of it: visible, durable, full, offline."""

import errno
import threading
from collections.abc import Callable
from functools import partial

import pytest

from headwater.errors import (
    CorruptBatch,
    DiskFull,
    LogClosed,
    OffsetOutOfRange,
    PartitionOffline,
    TopicFull,
)
from headwater.log.batch_format import checked_header, decode_batch
from headwater.log.checkpoint import read_checkpoint
from headwater.log.storage.storage import Storage
from headwater.settings import LogSettings
from headwater.testing import Fault, ManualClock, SimulatedDisk
from tests.log.subjects import FOLDER, TOPIC, CountedStorage, Subject, batch, in_threads
from tests.waiting import LONG

TINY_SEGMENTS = {"segment.bytes": "400", "index.interval.bytes": "100"}


class HeldStorage(CountedStorage):
    """The next sync of a segment waits half way until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.released = threading.Event(), threading.Event()

    def hold(self) -> None:
        def wait() -> None:
            self.before_sync = lambda: None
            self.reached.set()
            assert self.released.wait(LONG)

        self.before_sync = wait

    def let_go(self) -> None:
        self.released.set()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(ManualClock())


# Offsets and what the batch becomes


def test_offsets_count_records_from_nought() -> None:
    subject = Subject()
    first = subject.put(b"a", b"b", b"c")
    second = subject.put(b"d")
    assert (first.base_offset, first.last_offset, first.duplicate) == (0, 2, False)
    assert (second.base_offset, second.last_offset) == (3, 3)
    assert [(record.offset, record.value) for record in subject.records()] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
        (3, b"d"),
    ]


def test_the_batch_is_stored_as_sent_but_for_where_it_is() -> None:
    subject = Subject()
    subject.put(b"before")
    sent = batch(b"a", b"b")
    original = bytes(sent)
    subject.partition.append(sent, durable=False)
    written = bytes(subject.bytes_of(subject.path(0)))[-len(sent) :]
    assert written == bytes(sent)
    assert written[:8] == (1).to_bytes(8)
    assert written[8:12] + written[16:] == original[8:12] + original[16:]


def test_a_topic_that_stamps_its_records_keeps_the_checksum_valid() -> None:
    subject = Subject({"message.timestamp.type": "LogAppendTime"})
    subject.clock.advance(1234)
    appended = subject.partition.append(batch(b"a", b"b", timestamp_ms=7), durable=False)
    assert appended.append_time_ms == subject.clock.now_ms()
    assert {record.timestamp_ms for record in subject.records()} == {subject.clock.now_ms()}
    stored = subject.bytes_of(subject.path(0))
    assert checked_header(stored).append_time
    assert [record.value for record in decode_batch(stored, bytes_max=100)] == [b"a", b"b"]


def test_a_topic_that_does_not_stamp_says_so() -> None:
    assert Subject().put(b"a").append_time_ms == -1


def test_a_batch_that_is_refused_leaves_no_trace() -> None:
    subject = Subject()
    with pytest.raises(CorruptBatch):
        subject.partition.append(batch(b"a")[:-1], durable=False)
    assert subject.partition.end_offset == 0
    assert subject.partition.size_bytes == 0
    assert subject.put(b"b").base_offset == 0


# Visible and durable


def test_what_must_be_durable_is_not_seen_before_it_is() -> None:
    subject = Subject()
    subject.partition.append(batch(b"a"), durable=True)
    assert (subject.partition.end_offset, subject.partition.high_watermark) == (1, 0)
    assert subject.values() == []
    assert subject.partition.read(0, bytes_max=100).slices == []
    subject.partition.make_durable(1)
    assert subject.partition.high_watermark == 1
    assert subject.values() == [b"a"]


def test_what_need_not_be_durable_is_seen_at_once() -> None:
    subject = Subject()
    subject.partition.append(batch(b"a"), durable=False)
    assert subject.values() == [b"a"]
    assert subject.partition.durable_end_offset == 0


def test_records_after_an_invisible_one_wait_with_it() -> None:
    subject = Subject()
    subject.partition.append(batch(b"a"), durable=True)
    subject.partition.append(batch(b"b"), durable=False)
    assert subject.values() == []
    subject.partition.make_durable(1)
    assert subject.values() == [b"a", b"b"]


def test_what_was_seen_once_stays_in_sight() -> None:
    storage = HeldStorage()
    subject = Subject(storage=storage)
    partition = subject.partition
    subject.put(b"durable")
    partition.append(batch(b"at once"), durable=False)
    storage.hold()
    syncing = threading.Thread(target=partition.make_durable, args=(2,))
    syncing.start()
    assert storage.reached.wait(LONG)
    partition.append(batch(b"also at once"), durable=False)
    assert partition.high_watermark == 3
    partition.append(batch(b"later"), durable=True)
    storage.let_go()
    syncing.join(LONG)
    assert partition.durable_end_offset == 2
    assert partition.high_watermark == 3


def test_reading_at_the_high_watermark_waits_and_past_the_end_is_an_error() -> None:
    subject = Subject()
    subject.put(b"a")
    subject.partition.append(batch(b"b"), durable=True)
    assert subject.partition.read(1, bytes_max=100).slices == []
    assert subject.partition.read(2, bytes_max=100).slices == []
    with pytest.raises(OffsetOutOfRange) as error:
        subject.partition.read(3, bytes_max=100)
    assert (error.value.first, error.value.end) == (0, 2)


def test_a_read_gives_one_batch_at_least_and_as_many_bytes_as_asked_for_at_most() -> None:
    subject = Subject()
    for value in (b"a", b"b", b"c"):
        subject.partition.append(batch(value), durable=False)
    size = len(batch(b"a"))
    assert subject.partition.read(0, bytes_max=1).length == size
    assert subject.partition.read(0, bytes_max=size + 10).length == size + 10
    assert subject.partition.read(1, bytes_max=10_000).length == 2 * size


# Group commit


def test_many_who_wait_at_once_share_a_sync() -> None:
    storage = HeldStorage()
    subject = Subject(storage=storage)
    partition = subject.partition
    partition.append(batch(b"first"), durable=True)
    storage.hold()
    storage.syncs = 0
    leader = threading.Thread(target=partition.make_durable, args=(1,))
    leader.start()
    assert storage.reached.wait(LONG)
    ends = [partition.append(batch(b"%d" % number), durable=True).last_offset + 1 for number in range(30)]
    waiting = [threading.Thread(target=partition.make_durable, args=(end,)) for end in ends]
    for thread in waiting:
        thread.start()
    assert partition.high_watermark == 0
    storage.let_go()
    for thread in (leader, *waiting):
        thread.join(LONG)
    assert partition.high_watermark == 31
    assert storage.syncs == 2


def test_writers_in_many_threads_lose_nothing_and_sync_less_often_than_they_write() -> None:
    storage = CountedStorage()
    subject = Subject(TINY_SEGMENTS, storage=storage)
    storage.syncs = 0
    gate = threading.Barrier(8)
    acknowledged: list[tuple[int, bytes]] = []

    def write(writer: int) -> None:
        gate.wait(LONG)
        for number in range(25):
            value = b"%d/%d" % (writer, number)
            acknowledged.append((subject.put(value).base_offset, value))

    in_threads([partial(write, writer) for writer in range(8)])
    found = [(record.offset, record.value) for record in subject.records()]
    assert sorted(acknowledged) == found
    assert len(found) == 200
    assert storage.syncs <= 200 + len(subject.names(".log"))


def test_waiting_for_what_is_durable_already_syncs_nothing() -> None:
    storage = CountedStorage()
    subject = Subject(storage=storage)
    subject.put(b"a")
    before = storage.syncs
    subject.partition.make_durable(1)
    subject.partition.make_durable(0)
    assert storage.syncs == before


def test_a_sealed_segment_is_synced_before_what_follows_it_counts(disk: SimulatedDisk) -> None:
    subject = Subject(TINY_SEGMENTS, storage=disk)
    for _ in range(10):
        subject.partition.append(batch(b"x" * 100), durable=True)
    synced: list[str] = []
    disk.on_call = lambda call: synced.append(call.path) if call.operation.startswith("sync") else None
    subject.partition.make_durable(10)
    logs = [path for path in synced if path.endswith(".log")]
    assert logs == [f"{FOLDER}/{name}" for name in subject.names(".log")]
    assert synced[-1] == FOLDER, "the names of new segments come last, and before the answer"


def test_a_checkpoint_waits_for_a_sync_that_is_under_way() -> None:
    storage = HeldStorage()
    subject = Subject(TINY_SEGMENTS, storage=storage)
    partition = subject.partition
    subject.put(b"a")
    partition.append(batch(b"x" * 300), durable=True)
    partition.append(batch(b"x" * 300), durable=True)
    storage.hold()
    syncing = threading.Thread(target=partition.make_durable, args=(3,))
    syncing.start()
    assert storage.reached.wait(LONG)
    partition.append(batch(b"x" * 300), durable=True)
    checkpointing = threading.Thread(target=partition.checkpoint)
    checkpointing.start()
    checkpointing.join(0.1)
    noted = read_checkpoint(storage, FOLDER)
    assert noted is not None
    assert noted.recovery_offset == 0, "the first segment has not been synced yet"
    assert partition.durable_end_offset == 1
    storage.let_go()
    for thread in (syncing, checkpointing):
        thread.join(LONG)
    noted = read_checkpoint(storage, FOLDER)
    assert noted is not None
    assert noted.recovery_offset == 4


def test_many_bytes_without_a_sync_are_synced_in_passing() -> None:
    subject = Subject(settings=LogSettings(unflushed_bytes_max=1000))
    subject.fill(20, durable=False)
    assert subject.partition.durable_end_offset >= 10


def test_syncing_in_passing_does_not_lock_up_writers_in_many_threads() -> None:
    subject = Subject(TINY_SEGMENTS, settings=LogSettings(unflushed_bytes_max=500))
    in_threads([partial(subject.fill, 60, durable=durable) for durable in (True, False) * 3])
    assert subject.partition.end_offset == 360


# Failing disks


def test_after_a_failed_sync_nothing_is_acknowledged_and_reading_continues(disk: SimulatedDisk) -> None:
    subject = Subject(storage=disk)
    subject.put(b"before")
    subject.partition.append(batch(b"not durable"), durable=True)
    disk.fail(Fault(("sync",), path_part=".log"))
    with pytest.raises(PartitionOffline):
        subject.partition.make_durable(2)
    assert subject.partition.offline
    assert subject.values() == [b"before"]
    for attempt in (
        lambda: subject.partition.make_durable(2),
        lambda: subject.partition.append(batch(b"after"), durable=True),
        lambda: subject.partition.append(batch(b"after"), durable=False),
        lambda: subject.partition.checkpoint(),
        lambda: subject.partition.delete_records(-1),
        lambda: subject.partition.roll(),
    ):
        with pytest.raises(PartitionOffline):
            attempt()
    assert subject.values() == [b"before"]


def test_every_waiter_for_a_sync_that_fails_gets_the_error(disk: SimulatedDisk) -> None:
    subject = Subject(storage=disk)
    for number in range(6):
        subject.partition.append(batch(b"%d" % number), durable=True)
    disk.fail(Fault(("sync",), path_part=".log"))

    def wait(end: int) -> None:
        with pytest.raises(PartitionOffline):
            subject.partition.make_durable(end)

    in_threads([partial(wait, end) for end in range(1, 7)])


def test_a_failed_sync_of_the_folder_counts_like_one_of_a_file(disk: SimulatedDisk) -> None:
    subject = Subject(TINY_SEGMENTS, storage=disk)
    subject.fill(4)
    subject.partition.append(batch(b"x" * 350), durable=True)
    disk.fail(Fault(("sync_directory",), path_part=FOLDER))
    with pytest.raises(PartitionOffline):
        subject.partition.make_durable(5)
    assert subject.partition.offline


def test_a_write_that_fails_takes_the_partition_offline(disk: SimulatedDisk) -> None:
    subject = Subject(storage=disk)
    subject.put(b"before")
    disk.fail(Fault(("write",), path_part=".log"))
    with pytest.raises(PartitionOffline):
        subject.put(b"after")
    with pytest.raises(PartitionOffline):
        subject.put(b"after")
    assert subject.values() == [b"before"]
    disk.heal()
    subject.kill()
    assert subject.values() == [b"before"]
    assert subject.put(b"again").base_offset == 1


def test_a_failed_partition_stops_without_a_mark_of_a_clean_stop(disk: SimulatedDisk) -> None:
    subject = Subject(storage=disk)
    disk.fail(Fault(("sync",), path_part=".log"))
    with pytest.raises(PartitionOffline):
        subject.put(b"a")
    subject.log.close()
    disk.heal()
    assert not disk.exists("clean-stop")
    subject.open()
    assert not subject.log.clean_start


def test_an_interrupted_append_gives_no_offset_out_twice() -> None:
    subject = Subject()
    subject.put(b"before")
    partition = subject.partition

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    partition._advance = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        partition.append(batch(b"interrupted"), durable=True)
    del partition._advance
    with pytest.raises(PartitionOffline):
        partition.append(batch(b"after"), durable=True)
    subject.kill()
    assert [record.offset for record in subject.records()] == [0, 1]
    assert subject.put(b"after").base_offset == 2


def test_an_interrupted_sync_is_done_again_in_full() -> None:
    storage = CountedStorage()
    subject = Subject(TINY_SEGMENTS, storage=storage)
    for _ in range(3):
        subject.partition.append(batch(b"x" * 300), durable=True)

    def interrupt() -> None:
        storage.before_sync = lambda: None
        raise KeyboardInterrupt

    storage.before_sync = interrupt
    with pytest.raises(KeyboardInterrupt):
        subject.partition.make_durable(3)
    assert subject.partition.high_watermark == 0
    storage.syncs = 0
    subject.partition.make_durable(3)
    assert storage.syncs == len(subject.names(".log")) == 3


# Full disks


def filled(disk: SimulatedDisk) -> Subject:
    subject = Subject(TINY_SEGMENTS, storage=disk)
    subject.fill(3)
    return subject


def use_up(subject: Subject, disk: SimulatedDisk) -> list[bytes]:
    disk.capacity_bytes = sum(-(-disk.size(path) // 512) * 512 for path in disk.files()) + 2_000
    stored: list[bytes] = []
    while not _refused(subject, value := b"%d" % len(stored) + b"." * 100):
        stored.append(value)
    return stored


def _refused(subject: Subject, value: bytes) -> bool:
    try:
        subject.put(value)
    except DiskFull:
        return True
    return False


def test_a_full_disk_refuses_a_batch_and_nothing_of_it_is_left(disk: SimulatedDisk) -> None:
    subject = filled(disk)
    before = subject.values()
    stored = use_up(subject, disk)
    assert subject.values() == before + stored
    assert not subject.partition.offline
    end = subject.partition.end_offset
    with pytest.raises(DiskFull):
        subject.put(b"." * 3_000)
    assert (subject.partition.end_offset, subject.partition.high_watermark) == (end, end)
    assert disk.size(subject.path(-1)) == subject.partition.segments[-1].size
    subject.kill()
    assert subject.values() == before + stored
    assert subject.partition.end_offset == end


def test_when_there_is_space_again_the_log_continues_without_a_restart(disk: SimulatedDisk) -> None:
    subject = filled(disk)
    before = subject.values()
    stored = use_up(subject, disk)
    end = subject.partition.end_offset
    disk.capacity_bytes = None
    assert subject.put(b"space again").base_offset == end
    subject.power_cut(1)
    assert subject.values() == [*before, *stored, b"space again"]


def test_a_full_disk_can_be_opened_read_and_stopped(disk: SimulatedDisk) -> None:
    subject = filled(disk)
    stored = subject.values() + use_up(subject, disk)
    subject.kill()
    assert subject.values() == stored
    subject.log.close()
    subject.open()
    assert subject.values() == stored


def test_a_refused_batch_is_not_remembered_as_sent(disk: SimulatedDisk) -> None:
    subject = filled(disk)
    disk.fail(Fault(("write",), path_part=".log", code=errno.ENOSPC))
    with pytest.raises(DiskFull):
        subject.put(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    assert not subject.put(b"a", producer_id=7, producer_epoch=0, base_sequence=0).duplicate


@pytest.mark.parametrize(
    "operation, path_part",
    [("create", ".log"), ("write", ".index"), ("create", ".timeindex"), ("truncate", ".log"), ("delete", ".index")],
)
def test_a_segment_that_cannot_be_begun_for_want_of_space_is_begun_later(
    disk: SimulatedDisk, operation: str, path_part: str
) -> None:
    subject = filled(disk)
    before, segments = subject.values(), len(subject.partition.segments)
    fault = disk.fail(Fault((operation,), path_part=path_part, code=errno.ENOSPC))
    with pytest.raises(DiskFull):
        subject.put(b"x" * 350)
    assert len(fault.struck) == 1
    disk.heal()
    assert len(subject.partition.segments) == segments
    subject.put(b"y" * 350)
    assert subject.values() == [*before, b"y" * 350]
    subject.power_cut(2)
    assert subject.values() == [*before, b"y" * 350]


CALLS = ("create", "write", "truncate", "sync", "sync_directory", "rename", "delete")


@pytest.mark.parametrize("then", ["power cut", "kill and power cut"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("sticky", [False, True])
def test_whichever_call_fails_what_was_acknowledged_is_kept(code: int, sticky: bool, then: str) -> None:
    nth, hits = 0, 1
    while hits:
        nth += 3 if sticky else 1
        hits = _fail_nth_call(nth, Fault(CALLS, nth=nth, code=code, sticky=sticky), then)
    assert nth > 50


def _fail_nth_call(seed: int, fault: Fault, then: str) -> int:
    """An idempotent producer writes over many segments while one call to the disk fails; answers how often it did."""
    disk = SimulatedDisk(ManualClock(), seed=seed)
    subject = Subject(TINY_SEGMENTS, storage=disk)
    disk.fail(fault)
    acknowledged: dict[int, int] = {}
    stopped = _produce(subject, 0, 12, acknowledged)
    disk.heal()
    if then == "kill and power cut":
        subject.kill()
        stopped = _produce(subject, stopped, 12, acknowledged)
    subject.power_cut(seed)
    found = {record.offset: record.value for record in subject.records()}
    wrong = [number for number, offset in acknowledged.items() if found.get(offset) != _numbered(number)]
    assert wrong == [], f"of {acknowledged}, found {found}"
    _produce(subject, stopped, 14, acknowledged)
    assert sorted(record.value or b"" for record in subject.records()) == sorted(map(_numbered, range(14)))
    return len(fault.struck)


def _numbered(number: int) -> bytes:
    return b"%d" % number + b"." * 120


def _produce(subject: Subject, first: int, end: int, acknowledged: dict[int, int]) -> int:
    """Send each batch until it is acknowledged; answers the first that was not, since the partition is offline."""
    for number in range(first, end):
        for _ in range(3):
            try:
                sent = subject.put(_numbered(number), producer_id=9, producer_epoch=0, base_sequence=number)
                acknowledged[number] = sent.base_offset
                break
            except (DiskFull, PartitionOffline):
                continue
        else:
            return number
        if number % 5 == 4:
            subject.partition.checkpoint_if_possible()
    return end


# Segments


def test_a_segment_is_begun_when_the_next_batch_would_make_it_too_large() -> None:
    size = len(batch(b"x" * 100))
    subject = Subject({"segment.bytes": str(3 * size)})
    for _ in range(8):
        subject.put(b"x" * 100)
    assert [segment.size // size for segment in subject.partition.segments] == [3, 3, 2]
    assert [segment.base_offset for segment in subject.partition.segments] == [0, 3, 6]


def test_a_batch_larger_than_a_segment_has_one_to_itself() -> None:
    subject = Subject({"segment.bytes": "200"})
    for size in (10, 500, 500, 10):
        subject.put(b"x" * size)
    assert [segment.base_offset for segment in subject.partition.segments] == [0, 1, 2, 3]


def test_a_segment_is_begun_when_the_active_one_is_old_enough() -> None:
    subject = Subject({"segment.ms": "60000"})
    subject.put(b"a")
    subject.clock.advance(59_999)
    subject.put(b"b")
    subject.clock.jump_wall(10**9)
    subject.put(b"c")
    assert len(subject.partition.segments) == 1
    subject.clock.advance(1)
    subject.put(b"d")
    assert [segment.base_offset for segment in subject.partition.segments] == [0, 3]


def test_an_active_segment_found_at_the_start_grows_old_too() -> None:
    subject = Subject({"segment.ms": "60000"})
    subject.put(b"a")
    subject.restart()
    subject.clock.advance(60_000)
    subject.partition.roll_if_outlived()
    assert [segment.base_offset for segment in subject.partition.segments] == [0, 1]


def test_an_empty_segment_is_not_rolled() -> None:
    subject = Subject({"segment.ms": "1"})
    subject.clock.advance(10)
    subject.partition.roll_if_outlived()
    subject.partition.roll()
    assert len(subject.partition.segments) == 1


def test_a_segment_never_spans_more_offsets_than_its_index_can_hold() -> None:
    subject = Subject()
    subject.put(b"a")
    subject.partition.segments[0].base_offset -= 2**31 - 2
    subject.put(b"the last that fits")
    subject.put(b"one too far")
    assert [segment.base_offset for segment in subject.partition.segments[1:]] == [2]


# Giving up records


def test_deleted_records_stay_deleted() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(10)
    assert subject.partition.delete_records(4) == 4
    assert subject.offsets() == [4, 5, 6, 7, 8, 9]
    with pytest.raises(OffsetOutOfRange):
        subject.partition.read(3, bytes_max=100)
    assert subject.partition.delete_records(2) == 4, "the start never goes back"
    subject.kill()
    assert (subject.partition.start_offset, subject.offsets()) == (4, [4, 5, 6, 7, 8, 9])


def test_segments_wholly_below_the_start_are_removed() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(10)
    bases = [segment.base_offset for segment in subject.partition.segments]
    subject.partition.delete_records(bases[2])
    assert subject.names(".log")[0] == f"{bases[2]:020d}.log"
    assert all(int(name.split(".")[0]) >= bases[2] for name in subject.names("index"))


def test_deleting_everything_leaves_an_empty_partition_that_continues() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(10)
    assert subject.partition.delete_records(-1) == 10
    assert subject.records() == []
    assert subject.put(b"next").base_offset == 10
    subject.kill()
    assert subject.offsets() == [10]


def test_deleting_everything_frees_all_space() -> None:
    subject = Subject()
    subject.fill(10)
    subject.partition.delete_records(-1)
    assert subject.partition.size_bytes == 0


@pytest.mark.parametrize("before", [-2, 4])
def test_only_what_can_be_seen_can_be_deleted(before: int) -> None:
    subject = Subject()
    subject.fill(3)
    subject.partition.append(batch(b"not visible"), durable=True)
    with pytest.raises(OffsetOutOfRange):
        subject.partition.delete_records(before)


# Full topics


def test_a_full_topic_that_rejects_says_so_and_keeps_what_it_has() -> None:
    subject = Subject({"retention.bytes": "1000", "headwater.full.policy": "reject", "segment.bytes": "300"})
    with pytest.raises(TopicFull) as full:
        subject.fill(100)
    assert not full.value.blocking
    kept = subject.values()
    assert 700 < subject.partition.size_bytes <= 1000
    subject.log.maintain()
    assert subject.values() == kept
    subject.partition.delete_records(4)
    subject.put(b"space again")


def test_a_full_topic_that_blocks_says_so() -> None:
    subject = Subject({"retention.bytes": "1000", "headwater.full.policy": "block"})
    with pytest.raises(TopicFull) as full:
        subject.fill(100)
    assert full.value.blocking


def test_waiting_is_no_use_for_a_batch_larger_than_the_topic_may_be() -> None:
    subject = Subject({"retention.bytes": "1000", "headwater.full.policy": "block"})
    with pytest.raises(TopicFull) as full:
        subject.put(b"x" * 1000)
    assert not full.value.blocking


def test_a_retry_of_a_stored_batch_is_answered_though_the_topic_is_full() -> None:
    subject = Subject({"retention.bytes": "300", "headwater.full.policy": "reject"})
    subject.put(b"x" * 100, producer_id=1, producer_epoch=0, base_sequence=0)
    with pytest.raises(TopicFull):
        subject.fill(5)
    assert subject.put(b"x" * 100, producer_id=1, producer_epoch=0, base_sequence=0).duplicate


def test_a_topic_that_drops_the_oldest_always_takes_more() -> None:
    subject = Subject({"retention.bytes": "1000", "segment.bytes": "300"})
    subject.fill(50)
    subject.log.maintain()
    assert 1000 <= subject.partition.size_bytes < 1400
    assert subject.offsets()[-1] == 49


# Listeners


def test_listeners_are_called_when_records_become_visible_and_at_the_end() -> None:
    subject = Subject(TINY_SEGMENTS)
    called: list[int] = []
    leave = subject.partition.subscribe(lambda: called.append(subject.partition.high_watermark))
    subject.partition.append(batch(b"a"), durable=True)
    assert called == []
    subject.partition.make_durable(1)
    assert called == [1]
    subject.partition.append(batch(b"b"), durable=False)
    assert called == [1, 2]
    subject.log.close()
    assert len(called) > 2
    leave()
    count = len(called)
    subject.open()
    subject.put(b"c")
    assert len(called) == count


def test_listeners_are_called_when_space_is_freed() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(10)
    called = threading.Event()
    subject.partition.subscribe(called.set)
    subject.partition.delete_records(8)
    assert called.is_set()


def test_a_closed_partition_takes_nothing_more() -> None:
    subject = Subject()
    subject.put(b"a")
    partition = subject.partition
    subject.log.close()
    for attempt in (
        lambda: partition.append(batch(b"b"), durable=False),
        lambda: partition.delete_records(-1),
        lambda: partition.roll(),
        lambda: partition.checkpoint(),
    ):
        with pytest.raises(LogClosed):
            attempt()


def test_a_closed_partition_cannot_be_read_nor_through_it_a_new_topic_of_the_same_name() -> None:
    subject = Subject()
    subject.put(b"old")
    old = subject.partition
    subject.log.delete_topic(TOPIC)
    for _ in range(2):
        for look in (
            lambda: old.read(0, bytes_max=100),
            lambda: old.read_verified(0, bytes_max=100),
            lambda: old.offset_for_time(0),
            lambda: old.newest_timestamp(),
        ):
            with pytest.raises(LogClosed):
                look()
        subject.log.create_topic(TOPIC)
        subject.put(b"new")
        subject.log.delete_topic(TOPIC)
        subject.log.create_topic(TOPIC)
        subject.put(b"newer")
        subject.log.delete_topic(TOPIC)


# Readers beside everything else


def test_a_reader_is_never_disturbed_by_deletion() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(10)
    found = subject.partition.read(0, bytes_max=10_000)
    subject.partition.delete_records(-1)
    (piece,) = found.slices
    assert decode_batch(piece.file.read_at(piece.position, piece.length), bytes_max=1000)[0].offset == 0


def test_a_look_up_that_meets_a_deletion_half_way_finds_out_of_range() -> None:
    subject = Subject(TINY_SEGMENTS)
    subject.fill(20)
    subject.partition.release_sealed()
    _when_opened(subject.storage, ".index", lambda: subject.partition.delete_records(15))
    with pytest.raises(OffsetOutOfRange):
        subject.partition.read(0, bytes_max=100)
    _when_opened(subject.storage, ".timeindex", lambda: subject.partition.delete_records(18))
    assert subject.partition.offset_for_time(0) == (subject.clock.now_ms(), 18)


def _when_opened(storage: Storage, suffix: str, happen: Callable[[], object]) -> None:
    """Let something happen just before a file of this kind is opened for the first time."""
    opened = storage.open

    def open_later(path: str, *, create: bool = False) -> object:
        if path.endswith(suffix) and not create:
            storage.open = opened  # type: ignore[method-assign]
            happen()
        return opened(path, create=create)

    storage.open = open_later  # type: ignore[method-assign,assignment]


def test_readers_in_other_threads_see_a_growing_prefix_while_everything_happens() -> None:
    subject = Subject(TINY_SEGMENTS | {"retention.bytes": "3000"}, settings=LogSettings(unflushed_bytes_max=2000))
    done = threading.Event()

    def write() -> None:
        try:
            for turn in range(10):
                subject.fill(15, durable=turn % 2 == 0)
                subject.log.maintain()
        finally:
            done.set()

    def read() -> None:
        seen = -1
        while not done.is_set():
            try:
                records = subject.records(max(seen, subject.partition.start_offset))
            except OffsetOutOfRange:
                continue
            offsets = [record.offset for record in records]
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) if offsets else True
            assert not offsets or offsets[-1] >= seen
            seen = offsets[-1] if offsets else seen
            assert all(record.value is not None and record.value.endswith(b".") for record in records)

    in_threads([write, read, read])
    assert subject.log.partition(TOPIC, 0).end_offset == 150
