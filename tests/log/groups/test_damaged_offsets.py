"""Committed offsets that may be lost are not answered with older ones."""

import pytest

from headwater.clock import ManualClock
from headwater.errors import UnavailableError
from headwater.log.groups.journal import TOPIC
from headwater.log.groups.offsets import CommittedOffset
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.record import Record, TopicPartition
from headwater.settings import LogSettings

ORDERS = TopicPartition("orders", 0)


def opened(storage: MemoryStorage) -> Log:
    return Log.open("data", storage=storage, clock=ManualClock(), settings=LogSettings(offsets_partitions=1))


def committed(storage: MemoryStorage, *offsets: tuple[str, int]) -> None:
    with opened(storage) as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"x")] * 10)
        for group, offset in offsets:
            log.group_offsets.commit(group, {ORDERS: CommittedOffset(offset)})


def flip(storage: MemoryStorage, path: str, near: bytes) -> None:
    file = storage.open(path)
    content = file.read_at(0, file.size())
    at = content.index(near)
    file.write_at(at, [bytes([content[at] ^ 1])])
    file.close()


def test_a_group_whose_newest_commit_may_be_damaged_is_refused() -> None:
    storage = MemoryStorage()
    committed(storage, ("first", 3), ("lost", 5), ("last", 7))
    flip(storage, f"{TOPIC}-0/00000000000000000000.log", b"lost")
    for name in ("clean-stop", f"{TOPIC}-0/checkpoint", f"{TOPIC}-0/checkpoint.copy"):
        storage.delete(name)  # so that everything is read
    with opened(storage) as log:
        offsets = log.group_offsets
        assert offsets.fetch("last")[ORDERS].offset == 7, "it was written behind the damage"
        for group in ("lost", "first", "unknown"):
            with pytest.raises(UnavailableError, match=f'group "{group}" cannot be trusted.*headwater group reset'):
                offsets.fetch(group)
        offsets.commit("lost", {ORDERS: CommittedOffset(4)})
        assert offsets.fetch("lost")[ORDERS].offset == 4, "somebody has said where it goes on"


def test_a_group_keeps_the_offsets_of_a_topic_that_is_offline() -> None:
    storage = MemoryStorage()
    committed(storage, ("readers", 3))
    kept = {}
    for name in ("topics/orders.json", "topics/orders.copy"):
        file = storage.open(name)
        kept[name] = file.read_at(0, file.size())
        file.truncate(5)
        file.close()
    with opened(storage) as log:
        assert log.offline_topics().keys() == {"orders"}
        assert log.group_offsets.fetch("readers")[ORDERS].offset == 3
    for name, content in kept.items():
        file = storage.open(name)
        file.write_at(0, [content])
        file.close()
    with opened(storage) as log:
        assert log.group_offsets.fetch("readers")[ORDERS].offset == 3
