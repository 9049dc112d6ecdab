"""`with log.transaction(...)`, on a log in memory with a clock that the test advances."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from headwater.clock import ManualClock
from headwater.errors import (
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    UnknownPartition,
    UsageError,
)
from headwater.log.log import Log
from headwater.log.storage.memory import MemoryStorage
from headwater.record import Record, TopicPartition

GROUP, PLACE = "readers", TopicPartition("t", 0)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(ManualClock())


@pytest.fixture
def log(storage: MemoryStorage) -> Iterator[Log]:
    log = opened(storage)
    log.create_topic("t", partitions=2)
    yield log
    log.close()


def opened(storage: MemoryStorage) -> Log:
    return Log.open("nowhere", storage=storage, clock=storage._clock)


def values(log: Log, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in log.read("t", partition)]


def test_a_block_is_seen_whole_and_only_after_its_end(log: Log) -> None:
    with log.transaction("id") as transaction:
        transaction.append("t", Record(b"1"), partition=0)
        transaction.append("t", [Record(b"2"), Record(b"3")], partition=1)
        assert values(log) + values(log, 1) == []
    assert values(log) == [b"1"]
    assert values(log, 1) == [b"2", b"3"]


def test_a_block_that_raises_leaves_nothing(log: Log) -> None:
    def run() -> None:
        with log.transaction("id") as transaction:
            transaction.append("t", Record(b"1"), partition=0)
            transaction.commit_offsets(GROUP, {PLACE: 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert values(log) == []
    assert log.group_offsets.fetch(GROUP) == {}
    log.append("t", Record(b"2"), partition=0)
    assert values(log) == [b"2"], "nothing holds back what comes after it"


def test_offsets_count_when_the_block_has_ended(log: Log) -> None:
    log.append("t", Record(b"1"), partition=0)
    with log.transaction("id") as transaction:
        transaction.commit_offsets(GROUP, {PLACE: 1})
        assert log.group_offsets.fetch(GROUP) == {}
    assert log.group_offsets.fetch(GROUP)[PLACE].offset == 1


def test_a_second_block_under_the_same_id_ends_the_first(log: Log) -> None:
    def run() -> None:
        with log.transaction("id") as first:
            first.append("t", Record(b"first"), partition=0)
            with log.transaction("id") as second:
                second.append("t", Record(b"second"), partition=0)

    with pytest.raises(ProducerFenced):
        run()
    assert values(log) == [b"second"]


def test_blocks_under_different_ids_do_not_touch_each_other(log: Log) -> None:
    with log.transaction("a") as a, log.transaction("b") as b:
        a.append("t", Record(b"a"), partition=0)
        b.append("t", Record(b"b"), partition=0)
    assert values(log) == [b"a", b"b"]


def test_upkeep_aborts_a_block_that_takes_too_long(log: Log) -> None:
    clock, slow = log.clock, log.transaction("id", timeout=timedelta(seconds=5))
    assert isinstance(clock, ManualClock)
    transaction = slow.__enter__()
    transaction.append("t", Record(b"slow"), partition=0)
    log.append("t", Record(b"other"), partition=0)
    clock.advance(5_000)
    log.maintain()
    assert values(log) == []
    clock.advance(1)
    log.maintain()
    assert values(log) == [b"other"]
    with pytest.raises(ProducerFenced):
        transaction.append("t", Record(b"too late"), partition=0)
    with pytest.raises((ProducerFenced, InvalidTransactionState)):
        slow.__exit__(None, None, None)
    assert values(log) == [b"other"]


def test_what_a_dead_process_left_open_ends_with_the_next_block_under_its_id(storage: MemoryStorage) -> None:
    dead = opened(storage)
    dead.create_topic("t", partitions=2)
    left = dead.transaction("id")
    left.__enter__().append("t", Record(b"dead"), partition=0)
    dead.append("t", Record(b"other"), partition=0)
    dead.close()
    log = opened(storage)
    assert values(log) == []
    with log.transaction("id") as transaction:
        transaction.append("t", Record(b"alive"), partition=0)
    assert values(log) == [b"other", b"alive"]
    log.close()


def test_an_empty_block_writes_nothing(log: Log) -> None:
    with log.transaction("id"):
        pass
    assert log.partition("t", 0).end_offset == 0


def test_what_cannot_be_is_refused_and_leaves_the_block_as_it_was(log: Log) -> None:
    with log.transaction("id") as transaction:
        with pytest.raises(UnknownPartition):
            transaction.append("t", Record(b"1"), partition=7)
        with pytest.raises(UsageError):
            transaction.append("t", [])
        transaction.append("t", Record(b"2"), partition=0)
    assert values(log) == [b"2"]
    with pytest.raises(InvalidTransactionTimeout), log.transaction("id", timeout=timedelta(hours=2)):
        pass
