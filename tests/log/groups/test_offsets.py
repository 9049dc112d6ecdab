"""Committed offsets: never lost, never ahead of the log, forgotten only when they should be."""

import threading
from random import Random

import pytest

from headwater import errors
from headwater.clock import ManualClock
from headwater.log.groups.entry import Entry
from headwater.log.groups.journal import TOPIC
from headwater.log.groups.member import SavedGroup
from headwater.log.groups.offsets import CommittedOffset, GroupOffsets
from headwater.log.groups.records import GroupKey
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage, Storage
from headwater.log.storage.simulated import Fault, SimulatedDisk
from headwater.record import Record, TopicPartition
from headwater.settings import LogSettings

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
DAY_MS = 24 * 3600 * 1000


def opened(storage: Storage, clock: ManualClock | None = None) -> Log:
    log = Log.open("data", storage=storage, clock=clock or ManualClock(), settings=LogSettings(offsets_partitions=2))
    for topic in (ORDERS.topic, CLICKS.topic):
        try:
            log.create_topic(topic)
        except errors.TopicExists:
            pass
    return log


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset)


def where(offsets: GroupOffsets, group: str = "g") -> dict[TopicPartition, int]:
    return {topic_partition: committed.offset for topic_partition, committed in offsets.fetch(group).items()}


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(storage: MemoryStorage, clock: ManualClock) -> Log:
    return opened(storage, clock)


@pytest.fixture
def offsets(log: Log) -> GroupOffsets:
    return log.group_offsets


def test_what_is_committed_is_fetched(offsets: GroupOffsets, clock: ManualClock) -> None:
    offsets.commit("g", {ORDERS: CommittedOffset(5, 0, "half way"), CLICKS: at(7)})
    assert offsets.fetch("g")[ORDERS] == CommittedOffset(5, 0, "half way", clock.now_ms())
    assert where(offsets) == {ORDERS: 5, CLICKS: 7}


def test_the_newest_commit_counts_even_if_it_goes_back(offsets: GroupOffsets) -> None:
    offsets.commit("g", {ORDERS: at(5), CLICKS: at(7)})
    offsets.commit("g", {ORDERS: at(2)})
    assert where(offsets) == {ORDERS: 2, CLICKS: 7}


def test_groups_do_not_see_each_others_offsets(offsets: GroupOffsets) -> None:
    offsets.commit("g", {ORDERS: at(5)})
    offsets.commit("h", {ORDERS: at(6)})
    assert (where(offsets), where(offsets, "h"), where(offsets, "nobody")) == ({ORDERS: 5}, {ORDERS: 6}, {})
    assert offsets.groups() == ["g", "h"]


def test_offsets_survive_a_restart(offsets: GroupOffsets, log: Log, storage: MemoryStorage) -> None:
    offsets.commit("g", {ORDERS: at(5), CLICKS: at(7)})
    offsets.commit("g", {ORDERS: at(6)})
    log.close()
    assert where(opened(storage).group_offsets) == {ORDERS: 6, CLICKS: 7}


def test_a_topic_that_does_not_exist_cannot_be_committed(offsets: GroupOffsets) -> None:
    with pytest.raises(errors.UnknownTopic):
        offsets.commit("g", {TopicPartition("nowhere", 0): at(1)})
    with pytest.raises(errors.UnknownPartition):
        offsets.commit("g", {TopicPartition("orders", 9): at(1)})


@pytest.mark.parametrize("group", ["", "g" * 40_000])
def test_a_group_needs_a_name(offsets: GroupOffsets, group: str) -> None:
    with pytest.raises(errors.InvalidGroup):
        offsets.commit(group, {ORDERS: at(1)})


def test_metadata_has_a_bound(offsets: GroupOffsets) -> None:
    with pytest.raises(errors.OffsetMetadataTooLarge):
        offsets.commit("g", {ORDERS: CommittedOffset(1, metadata="x" * 4097)})


class TestPowerCuts:
    def test_a_commit_that_returned_is_there_afterwards(self) -> None:
        disk = SimulatedDisk(ManualClock())
        opened(disk).group_offsets.commit("g", {ORDERS: at(0)})
        for seed in range(20):
            assert where(opened(disk.crash(Random(seed))).group_offsets) == {ORDERS: 0}

    def test_no_offset_lies_after_the_end_of_the_log(self) -> None:
        disk = SimulatedDisk(ManualClock())
        log = opened(disk)
        for number in range(5):
            log.append("orders", Record(b"x", key=b"k"), durable=False)
            log.group_offsets.commit("g", {ORDERS: at(number + 1)})
        for seed in range(20):
            found = opened(disk.crash(Random(seed)))
            assert where(found.group_offsets)[ORDERS] == 5 <= found.partition(*ORDERS).end_offset

    def test_an_offset_beyond_the_end_may_be_committed(self) -> None:
        log = opened(SimulatedDisk(ManualClock()))
        log.group_offsets.commit("g", {ORDERS: at(1000)})
        assert where(log.group_offsets) == {ORDERS: 1000}

    def test_offsets_never_go_back_at_any_moment_of_a_crash(self) -> None:
        disk = SimulatedDisk(ManualClock())
        log = opened(disk)
        for number in range(10):
            log.group_offsets.commit("g", {ORDERS: at(number)})
            found = where(opened(disk.crash(Random(number))).group_offsets)
            assert found == {ORDERS: number}


class TestDisksThatFail:
    def test_a_commit_whose_sync_failed_has_no_effect(self) -> None:
        disk = SimulatedDisk(ManualClock())
        log = opened(disk)
        log.group_offsets.commit("g", {ORDERS: at(1)})
        disk.fail(Fault(["sync"], path_part=TOPIC, sticky=True))
        with pytest.raises(errors.PartitionOffline):
            log.group_offsets.commit("g", {ORDERS: at(2)})
        assert where(log.group_offsets) == {ORDERS: 1}

    def test_a_partition_whose_records_cannot_be_made_durable_is_not_committed(self) -> None:
        disk = SimulatedDisk(ManualClock())
        log = opened(disk)
        log.append("orders", Record(b"x"), durable=False)
        disk.fail(Fault(["sync"], path_part="orders-0", sticky=True))
        refused = log.group_offsets.secure({ORDERS: at(1), CLICKS: at(0)})
        assert [(place, type(error)) for place, error in refused.items()] == [(ORDERS, errors.PartitionOffline)]

    def test_commits_continue_when_there_is_space_again(self) -> None:
        disk = SimulatedDisk(ManualClock())
        log = opened(disk)
        log.group_offsets.commit("g", {ORDERS: at(1)})
        disk.fail(Fault(["write"], path_part=TOPIC, code=28))
        with pytest.raises(errors.DiskFull):
            log.group_offsets.commit("g", {ORDERS: at(2)})
        log.group_offsets.commit("g", {ORDERS: at(3)})
        assert where(log.group_offsets) == {ORDERS: 3}


class TestDeleting:
    def test_a_group_is_forgotten_with_all_it_had(
        self, offsets: GroupOffsets, log: Log, storage: MemoryStorage
    ) -> None:
        offsets.commit("g", {ORDERS: at(5)})
        offsets.write([Entry(GroupKey("g"), SavedGroup("g", "consumer", 3))])
        offsets.delete("g")
        assert (offsets.groups(), offsets.saved_group("g")) == ([], None)
        log.close()
        assert opened(storage).group_offsets.groups() == []

    def test_single_offsets_are_forgotten(self, offsets: GroupOffsets) -> None:
        offsets.commit("g", {ORDERS: at(5), CLICKS: at(7)})
        offsets.delete("g", [ORDERS, TopicPartition("orders", 3)])
        assert where(offsets) == {CLICKS: 7}

    def test_an_unknown_group_is_already_forgotten(self, offsets: GroupOffsets) -> None:
        offsets.delete("nobody")
        offsets.commit("g", {ORDERS: at(5)})
        offsets.delete("nobody")
        assert offsets.groups() == ["g"]

    def test_a_deleted_topic_takes_its_offsets_along(self, offsets: GroupOffsets, log: Log) -> None:
        offsets.commit("g", {ORDERS: at(5), CLICKS: at(7)})
        offsets.commit("h", {ORDERS: at(6)})
        log.delete_topic("orders")
        assert (where(offsets), offsets.groups()) == ({CLICKS: 7}, ["g"])

    def test_a_topic_created_again_does_not_inherit_offsets(self, log: Log, storage: MemoryStorage) -> None:
        log.group_offsets.commit("g", {ORDERS: at(5)})
        log.delete_topic("orders")
        log.create_topic("orders")
        assert where(log.group_offsets) == {}
        log.close()
        assert where(opened(storage).group_offsets) == {}

    def test_a_deletion_that_a_crash_cut_short_is_finished(self) -> None:
        disk = SimulatedDisk(ManualClock())
        log = opened(disk)
        log.group_offsets.commit("g", {ORDERS: at(5)})
        cuts: list[SimulatedDisk] = []
        disk.on_call = lambda call: cuts.append(disk.crash(Random(call.number))) if call.changing else None
        log.delete_topic("orders")
        disk.on_call = None
        for cut in cuts:
            found = Log.open("data", storage=cut, clock=ManualClock())
            if "orders" not in [topic.name for topic in found.topics()]:
                found.create_topic("orders")
                assert where(found.group_offsets) == {}

    def test_a_full_disk_does_not_keep_a_topic_from_being_deleted(self) -> None:
        disk = SimulatedDisk(ManualClock())
        log = opened(disk)
        log.group_offsets.commit("g", {ORDERS: at(5), CLICKS: at(7)})
        disk.fail(Fault(["write"], path_part=TOPIC, code=28, sticky=True))
        log.delete_topic("orders")
        log.create_topic("orders")
        assert where(log.group_offsets) == {CLICKS: 7}

    def test_offsets_of_topics_that_are_deleted_are_not_loaded(
        self, log: Log, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.group_offsets.commit("g", {ORDERS: at(5), CLICKS: at(7)})
        monkeypatch.setattr(GroupOffsets, "forget_topic", lambda *_: None)
        log.delete_topic("orders")
        monkeypatch.undo()
        log.close()
        again = Log.open("data", storage=storage, clock=ManualClock())
        assert where(again.group_offsets) == {CLICKS: 7}
        again.create_topic("orders")
        again.close()
        assert where(opened(storage).group_offsets) == {CLICKS: 7}


class TestExpiry:
    def test_offsets_of_a_group_without_members_expire(self, offsets: GroupOffsets, clock: ManualClock) -> None:
        offsets.commit("g", {ORDERS: at(5)})
        clock.advance(DAY_MS)
        offsets.commit("g", {CLICKS: at(7)})
        offsets.expire(2 * DAY_MS, active=[])
        assert where(offsets) == {ORDERS: 5, CLICKS: 7}
        clock.advance(DAY_MS)
        offsets.expire(2 * DAY_MS, active=[])
        assert where(offsets) == {CLICKS: 7}

    def test_time_counts_only_from_when_the_last_member_left(self, offsets: GroupOffsets, clock: ManualClock) -> None:
        offsets.commit("g", {ORDERS: at(5)})
        clock.advance(3 * DAY_MS)
        offsets.expire(2 * DAY_MS, active=["g"])
        clock.advance(2 * DAY_MS - 1)
        offsets.expire(2 * DAY_MS, active=[])
        assert where(offsets) == {ORDERS: 5}
        clock.advance(1)
        offsets.expire(2 * DAY_MS, active=[])
        assert offsets.groups() == []

    def test_a_moved_wall_clock_expires_no_offset(self, offsets: GroupOffsets, clock: ManualClock) -> None:
        offsets.commit("g", {ORDERS: at(5)})
        clock.jump_wall(1000 * DAY_MS)
        offsets.expire(2 * DAY_MS, active=[])
        assert where(offsets) == {ORDERS: 5}

    def test_time_in_which_nothing_ran_does_not_count(
        self, offsets: GroupOffsets, log: Log, storage: MemoryStorage, clock: ManualClock
    ) -> None:
        offsets.commit("g", {ORDERS: at(5)})
        log.close()
        clock.advance(30 * DAY_MS)
        again = opened(storage, clock).group_offsets
        again.expire(2 * DAY_MS, active=[])
        assert where(again) == {ORDERS: 5}

    def test_an_empty_group_without_offsets_is_forgotten(self, offsets: GroupOffsets, clock: ManualClock) -> None:
        offsets.write([Entry(GroupKey("g"), SavedGroup("g", "consumer", 3))])
        clock.advance(3 * DAY_MS)
        offsets.expire(2 * DAY_MS, active=[])
        assert offsets.groups() == []


class TestManyThreads:
    def test_the_memory_agrees_with_the_log(self, offsets: GroupOffsets, log: Log, storage: MemoryStorage) -> None:
        def commit(start: int) -> None:
            for number in range(start, start + 50):
                offsets.commit("g", {ORDERS: at(number)})

        threads = [threading.Thread(target=commit, args=(start,)) for start in (0, 1000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        remembered = where(offsets)
        log.close()
        assert where(opened(storage).group_offsets) == remembered

    def test_a_deletion_leaves_nothing_that_was_under_way(self, offsets: GroupOffsets, log: Log) -> None:
        stop = threading.Event()

        def commit() -> None:
            while not stop.is_set():
                try:
                    offsets.commit("g", {ORDERS: at(1)})
                except errors.HeadwaterError:
                    return

        thread = threading.Thread(target=commit)
        thread.start()
        log.delete_topic("orders")
        stop.set()
        thread.join()
        assert where(offsets) == {}


def test_a_saved_group_survives_a_restart(offsets: GroupOffsets, log: Log, storage: MemoryStorage) -> None:
    offsets.write([Entry(GroupKey("g"), SavedGroup("g", "consumer", 3))])
    log.close()
    assert opened(storage).group_offsets.saved_groups() == [SavedGroup("g", "consumer", 3)]
