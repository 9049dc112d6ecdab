"""A topic that damage took offline can be deleted, whatever is left of it."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headwater.clock import ManualClock
from headwater.errors import UnknownTopic
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.log import Log
from headwater.record import Record, TopicPartition
from headwater.testing import MemoryStorage, SimulatedDisk

ORDERS = TopicPartition("orders", 1)
FILES = ("topics/orders.json", "topics/orders.copy")


def values(log: Log, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in log.read(topic, partition)]


def opened(storage: MemoryStorage) -> Log:
    return Log.open("data", storage=storage, clock=ManualClock())


def filled(storage: MemoryStorage) -> None:
    with opened(storage) as log:
        for name in ("orders", "visits"):
            log.create_topic(name, partitions=2)
            for number in range(2):
                log.append(name, Record(b"old"), partition=number)
        log.group_offsets.commit("readers", {ORDERS: CommittedOffset(1)})
        log.maintain()


def delete(storage: MemoryStorage, *paths: str) -> None:
    for path in paths:
        storage.delete(path)


def damage(storage: MemoryStorage, *paths: str) -> None:
    for path in paths:
        file = storage.open(path)
        file.truncate(5)
        file.sync()


def remove(storage: MemoryStorage, *folders: str) -> None:
    for folder in folders:
        delete(storage, *(f"{folder}/{name}" for name in storage.list(folder)))
        storage.remove_directory(folder)


def leave_only_damaged_files(storage: MemoryStorage) -> None:
    damage(storage, *FILES)
    remove(storage, "orders-0", "orders-1")


WAYS: dict[str, Callable[[MemoryStorage], None]] = {
    "its file and the copy are damaged": lambda disk: damage(disk, *FILES),
    "its file and the copy are missing": lambda disk: delete(disk, *FILES),
    "a folder of a partition is missing": lambda disk: remove(disk, "orders-0"),
    "all of it but the damaged file is missing": leave_only_damaged_files,
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_of_it_and_its_name_is_free_again(way: str) -> None:
    storage = MemoryStorage()
    filled(storage)
    WAYS[way](storage)
    with opened(storage) as log:
        assert log.offline_topics().keys() == {"orders"}
        log.delete_topic("orders")
        assert not log.offline_topics()
        assert [name for name in (*storage.list(""), *storage.list("topics")) if name.startswith("orders")] == []
        with pytest.raises(UnknownTopic):
            log.delete_topic("orders")
        log.create_topic("orders", partitions=2)
        assert log.group_offsets.fetch("readers") == {}, "the new topic does not inherit what groups have read"
    with opened(storage) as log:
        assert values(log, "orders", 1) == []
        assert values(log, "visits", 1) == [b"old"]


@pytest.mark.parametrize("way", WAYS)
def test_a_crash_at_any_moment_of_the_deletion_leaves_the_topic_offline_or_deleted(way: str) -> None:
    disk = SimulatedDisk(ManualClock(), seed=5)
    filled(disk)
    WAYS[way](disk)
    for folder in ("", "topics"):
        disk.sync_directory(folder)
    images, dice = [disk.crash(Random(1))], Random(2)
    disk.on_call = lambda call: images.append(disk.crash(Random(dice.random()))) if call.changing else None
    with opened(disk) as log:
        log.delete_topic("orders")
        disk.on_call = None
    outcomes = set()
    for image in images:
        with opened(image) as log:
            outcomes.add(tuple(log.offline_topics()))
            assert "orders" not in [topic.name for topic in log.topics()], "it does not come back"
            if log.offline_topics():
                log.delete_topic("orders")
            log.create_topic("orders", partitions=2)
            assert values(log, "orders", 0) == values(log, "orders", 1) == []
            assert values(log, "visits", 1) == [b"old"]
    assert outcomes == {("orders",), ()}


@pytest.mark.parametrize("way", ["its file and the copy are missing", "a folder of a partition is missing"])
def test_the_archive_is_told_to_delete_it_too(tmp_path: Path, way: str) -> None:
    archived = {"remote.storage.enable": "true", "segment.bytes": "200", "local.retention.ms": "1"}
    with Log.open(tmp_path) as log:
        log.create_topic("orders", configs=archived)
        for _ in range(5):
            log.append("orders", Record(b"." * 150))
        log.maintain()
        storage = log.storage
    assert list((tmp_path / "archive").rglob("*.log"))
    WAYS[way](storage)  # type: ignore[arg-type]
    with Log.open(tmp_path) as log:
        log.delete_topic("orders")
        log.maintain()
    assert list((tmp_path / "archive").rglob("*.log")) == []
