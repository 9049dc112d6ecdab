"""The short form of `make torture`: a simulated disk that is cut off in the middle of everything."""

from collections import Counter
from random import Random

import pytest

from headwater.clock import ManualClock
from headwater.log.log import Log
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.record import Record, TopicPartition
from tests.crash import scenarios
from tests.crash.explorer import Explorer
from tests.crash.workload import Workload, open_log


@pytest.mark.parametrize("seed", [11, 12, *(pytest.param(one, marks=pytest.mark.torture) for one in (13, 14))])
def test_nothing_that_was_promised_is_lost_wherever_the_disk_is_cut_off(seed: int) -> None:
    found = Explorer(seed, steps=40, every=3).run()
    assert found.points > 200
    assert found.anomalies == []


def test_segments_that_recovery_set_aside_stay_away() -> None:
    assert scenarios.segments_set_aside_stay_away() == []


def test_a_checkpoint_beside_an_append_claims_and_remembers_only_what_is_durable() -> None:
    assert scenarios.a_checkpoint_beside_an_append_is_true() == []


def test_compaction_replaces_segments_whole_or_not_at_all() -> None:
    assert scenarios.a_swap_of_segments_is_whole_at_every_moment() == []


def calls_of(seed: int, steps: int) -> list[Call]:
    disk, calls = SimulatedDisk(ManualClock(), seed=seed), list[Call]()
    workload = Workload(disk, seed)
    workload.before_call = calls.append
    workload.run(steps)
    assert workload.anomalies == []
    return calls


def test_the_same_seed_makes_the_same_calls() -> None:
    assert calls_of(5, 40) == calls_of(5, 40)


def test_the_workload_leaves_nothing_out() -> None:
    calls = [call for seed in (1, 2, 3) for call in calls_of(seed, 80)]
    operations = Counter(call.operation for call in calls)
    assert min(operations[name] for name in ("sync", "rename", "delete", "truncate", "sync_directory")) > 50
    assert any(call.path.endswith("swap.json") for call in calls), "no compaction replaced a segment"
    assert any(call.operation == "delete" and call.path.startswith("ring-0/0") for call in calls), "nothing was retired"
    assert any(call.operation == "remove_directory" for call in calls), "no topic was deleted"
    assert any(call.path == "clean-stop" for call in calls), "it was never stopped and opened again"


def test_a_chain_of_crashes_each_in_the_recovery_from_the_last_changes_nothing() -> None:
    disk, random = SimulatedDisk(ManualClock(), seed=3), Random(3)
    Workload(disk, 3).run(40)
    before = everything(open_log(disk))
    for _ in range(10):
        found: list[SimulatedDisk] = [disk.crash(random)]

        def crash(call: Call, disk: SimulatedDisk = found[0], found: list[SimulatedDisk] = found) -> None:
            if call.changing and random.random() < 0.1:
                found.append(disk.crash(random))

        found[0].on_call = crash
        assert everything(open_log(found[0])) == before
        disk = found[-1]


def everything(log: Log) -> dict[TopicPartition, list[Record]]:
    return {live.topic_partition: list(log.read(live.topic, live.number)) for live in log.partitions()}
