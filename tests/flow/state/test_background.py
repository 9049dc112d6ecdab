from headwater.clock import ManualClock
from headwater.errors import StateUnavailable
from headwater.flow.state import EMPTY, BackgroundMerger, StateStore
from headwater.log.storage.simulated import Fault, SimulatedDisk
from tests.flow.state.subjects import content_of, run_batch, store_on_disk, written


def store_with_runs(disk: SimulatedDisk, runs: int) -> StateStore:
    store = store_on_disk(disk, 1, task_bytes_max=0)
    for version in range(runs):
        run_batch(store, version, {version: version}, version - 1 if version else EMPTY)
    return store


def test_a_merge_runs_beside_the_batches_and_is_adopted_by_a_later_commit() -> None:
    store = store_with_runs(SimulatedDisk(), 5)
    merger = BackgroundMerger(store)
    merger.offer(store.manifest(4))
    assert len(merger.reserved()) == 5
    merger.close()
    runs = written(store, store.begin(4, reserved=merger.reserved()), {9: 9})
    store.commit(5, 4, runs, merged=merger.finished())
    assert len(store.manifest(5).shards[0].runs) == 2
    assert content_of(store, 5) == {**{version: version for version in range(5)}, 9: 9}
    assert (merger.reserved(), merger.spared(), merger.finished()) == (set(), set(), [])


def test_the_run_of_a_merge_is_spared_until_it_is_adopted() -> None:
    clock = ManualClock()
    store = store_with_runs(SimulatedDisk(clock), 5)
    merger = BackgroundMerger(store)
    merger.offer(store.manifest(4))
    merger.close()
    clock.advance(1000)
    store.commit(5, 4, [])
    assert len(merger.spared()) == 1
    store.clean(1, spare=merger.spared())
    store.commit(6, 5, [], merged=merger.finished())
    assert len(store.manifest(6).shards[0].runs) == 1
    assert store.check() == []


def test_nothing_is_merged_while_all_is_in_good_order() -> None:
    store = store_with_runs(SimulatedDisk(), 2)
    merger = BackgroundMerger(store)
    merger.offer(store.manifest(1))
    assert merger.reserved() == set()
    assert merger.finished() == []
    merger.close()


def test_a_merge_that_fails_is_told_and_disturbs_nothing() -> None:
    disk = SimulatedDisk()
    store = store_with_runs(disk, 5)
    disk.fail(Fault(["write"]))
    merger = BackgroundMerger(store)
    merger.offer(store.manifest(4))
    merger.close()
    assert merger.finished() == []
    assert isinstance(merger.failure, StateUnavailable)
    store.commit(5, 4, [])
    assert content_of(store, 5) == {version: version for version in range(5)}
