"""The short form of the N-th call that fails; `make torture` tries them all."""

import errno

import pytest

from headwater.clock import ManualClock
from headwater.errors import DiskFull, PartitionOffline
from headwater.log.log import Log
from headwater.log.storage.simulated import Fault, SimulatedDisk
from headwater.record import Record
from tests.crash.failures import KINDS, failures, survive
from tests.crash.workload import SETTINGS

STEPS = 25


@pytest.mark.parametrize("seed", [21, pytest.param(22, marks=pytest.mark.torture)])
def test_no_promise_is_broken_whichever_call_fails(seed: int) -> None:
    chosen = list(failures(seed, steps=STEPS, stride=20))
    assert len(chosen) > 50
    assert {(failure.code, failure.sticky, failure.operations) for failure in chosen} == set(KINDS)
    assert [sentence for failure in chosen for sentence in survive(seed, failure, steps=STEPS)] == []


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(ManualClock())


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    log = Log.open("simulated", storage=disk, clock=disk.clock, settings=SETTINGS)
    log.create_topic("orders", configs={"segment.bytes": "2000"})
    log.create_topic("other")
    return log


def values(log: Log, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in log.read(topic)]


def test_a_failed_sync_ends_acknowledgements_on_its_partition_and_on_no_other(disk: SimulatedDisk, log: Log) -> None:
    log.append("orders", Record(b"before"))
    disk.fail(Fault(["sync"], path_part="orders-0/"))
    with pytest.raises(PartitionOffline):
        log.append("orders", Record(b"lost"))
    with pytest.raises(PartitionOffline):
        log.append("orders", Record(b"the disk works again, but the pages are gone"))
    log.append("other", Record(b"untouched"))
    assert values(log) == [b"before"]
    assert values(log, "other") == [b"untouched"]


def test_after_a_restart_only_what_is_really_on_disk_counts(disk: SimulatedDisk, log: Log) -> None:
    log.append("orders", Record(b"before"))
    disk.fail(Fault(["sync"], path_part="orders-0/"))
    with pytest.raises(PartitionOffline):
        log.append("orders", Record(b"lost"))
    reopened = Log.open("simulated", storage=disk.kill(), clock=disk.clock, settings=SETTINGS)
    reopened.append("orders", Record(b"after"))
    assert values(reopened)[0] == b"before"
    assert values(reopened)[-1] == b"after"


def test_a_full_disk_refuses_writes_serves_reads_and_recovers_when_there_is_space(
    disk: SimulatedDisk, log: Log
) -> None:
    for number in range(40):
        log.append("orders", Record(b"%d" % number * 50))
    held = values(log)
    disk.capacity_bytes = sum(disk.size(path) for path in disk.files()) + 2_000
    with pytest.raises(DiskFull):
        fill(log, held)
    assert values(log) == held
    disk.capacity_bytes += 10_000
    log.append("orders", Record(b"service is back"))
    assert values(log) == [*held, b"service is back"]


def fill(log: Log, held: list[bytes | None]) -> None:
    for _ in range(40):
        log.append("orders", Record(b"x" * 400))
        held.append(b"x" * 400)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_write_that_did_not_fit_leaves_nothing_behind(disk: SimulatedDisk, log: Log, code: int) -> None:
    log.append("orders", Record(b"before"))
    disk.fail(Fault(["write"], code=code, path_part="orders-0/0"))
    with pytest.raises(DiskFull):
        log.append("orders", Record(b"x" * 900))
    log.append("orders", Record(b"after"))
    assert values(log) == [b"before", b"after"]
