"""Whatever happens between any two calls to the disk, what was committed is there, and the next batch can be run."""

import errno

import pytest

from headwater.clock import ManualClock
from headwater.errors import StateUnavailable
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import CHANGING_OPERATIONS, Fault, SimulatedDisk
from tests.flow.state.lives import Life, complaints, complaints_after_power_cuts, goes_on
from tests.flow.state.subjects import content_of


def a_life() -> Life:
    clock = ManualClock()
    return Life(SimulatedDisk(clock), clock)


def test_a_power_cut_at_any_moment_loses_nothing_that_was_committed() -> None:
    assert complaints_after_power_cuts(lambda disk: DiskFiles(disk, "job/state")) == []


def changing_calls() -> int:
    life = a_life()
    fault = life.disk.fail(Fault(CHANGING_OPERATIONS, nth=10**9))
    life.live()
    return fault.seen


@pytest.mark.parametrize("code, every", [(errno.EIO, 1), (errno.ENOSPC, 5)], ids=["input/output error", "full disk"])
def test_a_disk_that_fails_at_any_call_stops_the_batch_and_nothing_else(code: int, every: int) -> None:
    wrong = []
    for number in range(1, changing_calls() + 1, every):
        life = a_life()
        fault = life.disk.fail(Fault(CHANGING_OPERATIONS, nth=number, code=code))
        try:
            life.live()
        except StateUnavailable:
            pass
        life.disk.heal()
        after = life.disk.kill()
        found = complaints(after, life.promises) or goes_on(after, life.promises)
        wrong += [f"{fault.struck}: {what}" for what in found]
    assert wrong == []


def test_the_life_lived_in_these_tests_ends_with_what_it_should_hold() -> None:
    life = a_life()
    life.live()
    assert life.store.versions() == [7, 8]
    assert content_of(life.store, 8) == life.promises.kept[8] == {0: 61, 2: 64, 5: 63, 9: 90}
    assert len(life.store.manifest(8).shards) == 3
