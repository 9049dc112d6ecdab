"""A request with a name is stored once: repeated, at the same time, and after a crash at any moment."""

import threading
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from headwater.capture.http.once import KEPT_MS, TOPIC, Requests
from headwater.capture.http.refusal import Refusal
from headwater.clock import ManualClock
from headwater.errors import BatchTooLarge, TopicFull
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.log.storage.simulated import SimulatedDisk
from headwater.record import Record
from tests.waiting import LONG

NAME = b"n" * 16
KEYED = [Record(f"v{number}".encode(), key=f"k{number}".encode()) for number in range(8)]
PLAIN = [Record(b"a"), Record(b"b")]


def opened(storage: Any = None) -> Log:
    log = Log.open("data", storage=storage or MemoryStorage(ManualClock()))
    if not any(topic.name == "orders" for topic in log.topics()):
        log.create_topic("orders", partitions=3)
    return log


def values(log: Log) -> list[bytes]:
    return sorted(record.value or b"" for number in range(3) for record in log.read("orders", number))


def test_a_request_that_is_repeated_is_answered_as_the_first_time() -> None:
    log = opened()
    requests = Requests(log)
    first = requests.store_once(NAME, "orders", KEYED, "body")
    again = requests.store_once(NAME, "orders", KEYED, "body")
    assert (again.ranges, first.repeated, again.repeated) == (first.ranges, False, True)
    assert values(log) == [record.value for record in KEYED]


def test_it_is_remembered_after_a_restart() -> None:
    storage = MemoryStorage()
    with opened(storage) as log:
        first = Requests(log).store_once(NAME, "orders", KEYED, "body")
        Requests(log).store("orders", PLAIN)
    with opened(storage) as log:
        again = Requests(log).store_once(NAME, "orders", KEYED, "body")
        assert (again.ranges, again.repeated) == (first.ranges, True)
        assert len(values(log)) == len(KEYED) + len(PLAIN)


def test_the_same_name_for_something_else_is_refused() -> None:
    requests = Requests(opened())
    requests.store_once(NAME, "orders", PLAIN, "body")
    with pytest.raises(Refusal, match="another request has been sent") as refused:
        requests.store_once(NAME, "orders", KEYED, "another body")
    assert refused.value.status == 422


def test_a_name_is_forgotten_after_a_day() -> None:
    clock = ManualClock()
    log = Log.open("data", storage=MemoryStorage(clock), clock=clock)
    log.create_topic("orders", partitions=3)
    requests = Requests(log)
    requests.store_once(NAME, "orders", PLAIN, "body")
    clock.advance(KEPT_MS + 1)
    assert not requests.store_once(NAME, "orders", PLAIN, "body").repeated


def test_a_request_without_a_name_goes_to_one_partition_or_is_refused() -> None:
    log = opened()
    requests = Requests(log)
    assert len(requests.store("orders", PLAIN).ranges) == 1
    with pytest.raises(Refusal, match="send an Idempotency-Key"):
        requests.store("orders", KEYED)
    assert values(log) == [b"a", b"b"]


def test_of_two_at_the_same_time_one_must_retry_later() -> None:
    log = opened()
    requests = Requests(log)
    entered, leave = threading.Event(), threading.Event()
    plain = requests._append

    def slow(*given: Any) -> Any:
        entered.set()
        leave.wait(LONG)
        return plain(*given)

    requests._append = slow  # type: ignore[method-assign,assignment]
    first = threading.Thread(target=requests.store_once, args=(NAME, "orders", PLAIN, "body"))
    first.start()
    entered.wait(LONG)
    with pytest.raises(Refusal, match="is under way") as refused:
        requests.store_once(NAME, "orders", PLAIN, "body")
    leave.set()
    first.join()
    assert (refused.value.status, refused.value.headers) == (409, {"retry-after": "1"})
    assert requests.store_once(NAME, "orders", PLAIN, "body").repeated
    assert values(log) == [b"a", b"b"]


def test_a_request_that_the_log_refused_can_come_again() -> None:
    log = Log.open("data", storage=MemoryStorage())
    log.create_topic("orders", configs={"retention.bytes": "1000", "headwater.full.policy": "block"})
    requests = Requests(log)
    large = [Record(b"x" * 600)]
    requests.store("orders", large)
    with pytest.raises(TopicFull):
        requests.store_once(NAME, "orders", large, "body")
    log.alter_topic("orders", {"retention.bytes": "5000"})
    assert not requests.store_once(NAME, "orders", large, "body").repeated
    assert [record.value for record in log.read(TOPIC)][1:2] == [None]


@pytest.mark.parametrize("index", range(8))
def test_a_request_of_which_a_part_cannot_be_stored_leaves_nothing(index: int) -> None:
    log = Log.open("data", storage=MemoryStorage())
    log.create_topic("orders", partitions=3, configs={"max.message.bytes": "1000"})
    with pytest.raises(BatchTooLarge):
        Requests(log).store_once(NAME, "orders", [*KEYED, replace(KEYED[index], value=b"x" * 2000)], "body")
    assert values(log) == []


@pytest.mark.parametrize("records", [PLAIN, KEYED], ids=["one partition", "three partitions"])
def test_a_crash_at_any_moment_leaves_a_request_that_a_repeat_makes_whole_once(records: list[Record]) -> None:
    disk = SimulatedDisk(ManualClock(), seed=3)
    log = opened(disk)
    left: list[SimulatedDisk] = []
    disk.on_call = lambda call: left.extend([disk.crash(Random(call.number)), disk.kill()]) if call.changing else None
    Requests(log).store_once(NAME, "orders", records, "body")
    disk.on_call = None
    left += [disk.crash(Random(0)), disk.kill()]
    assert len(left) > 10
    stored = []
    for found in left:
        with opened(found) as after:
            stored.append(Requests(after).store_once(NAME, "orders", records, "body").repeated)
            assert values(after) == sorted(record.value or b"" for record in records)
            assert Requests(after).store_once(NAME, "orders", records, "body").repeated
    assert stored[-2:] == [True, True]
    assert False in stored
