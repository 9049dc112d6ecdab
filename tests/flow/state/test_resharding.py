from random import Random

import pytest

from headwater.clock import ManualClock
from headwater.errors import InvalidSetting
from headwater.flow.state import EMPTY, describe, reshard
from headwater.flow.state.resharding import sources_of
from headwater.log.storage.simulated import Call, SimulatedDisk
from tests.flow.state.subjects import content_of, looked_up, run_batch, store_on_disk

CONTENT = {key: key * 10 for key in range(0, 30, 2)}


def filled(disk: SimulatedDisk, shards: int) -> None:
    store = store_on_disk(disk, shards)
    run_batch(store, 0, dict.fromkeys(range(30), 1), EMPTY)
    run_batch(store, 1, {key: (None if key % 2 else key * 10) for key in range(30)})


@pytest.mark.parametrize("old, new", [(1, 4), (4, 1), (2, 3), (4, 6), (3, 3), (6, 4), (1, 60)])
def test_a_version_holds_the_same_in_another_number_of_shards(old: int, new: int) -> None:
    disk = SimulatedDisk()
    filled(disk, old)
    store = store_on_disk(disk, old)
    reshard(store, 1, new)
    again = store_on_disk(disk, new)
    assert content_of(again, 1) == looked_up(again, 1, range(40)) == CONTENT
    assert len(describe(again.files)[-1].shards) == new
    run_batch(again, 2, {1: 11, 2: None})
    assert content_of(again, 2) == {key: value for key, value in {**CONTENT, 1: 11}.items() if key != 2}


def test_older_versions_keep_their_shards() -> None:
    disk = SimulatedDisk()
    filled(disk, 2)
    store = store_on_disk(disk, 2)
    reshard(store, 1, 5)
    assert len(store.manifest(0).shards) == 2
    assert content_of(store, 0) == dict.fromkeys(range(30), 1)


def test_rows_of_a_shard_are_sought_only_where_they_can_be() -> None:
    for old in range(1, 9):
        for new in range(1, 9):
            for hash_ in range(-30, 30):
                assert hash_ % old in sources_of(hash_ % new, old, new)
    assert sources_of(5, 4, 8) == [1]


def test_a_power_cut_at_any_moment_leaves_the_old_shards_or_the_new() -> None:
    disk = SimulatedDisk(ManualClock())
    filled(disk, 2)
    seen: list[int] = []

    def cut(call: Call) -> None:
        if call.changing:
            after = store_on_disk(disk.crash(Random(call.number)))
            assert after.check() == []
            assert content_of(after, 1) == CONTENT
            seen.append(len(after.manifest(1).shards))

    disk.on_call = cut
    reshard(store_on_disk(disk, 2), 1, 3)
    assert set(seen) <= {2, 3}
    assert len(seen) > 8


@pytest.mark.parametrize("shards", [0, -1, 100_000])
def test_a_number_of_shards_that_cannot_be_is_refused(shards: int) -> None:
    disk = SimulatedDisk()
    filled(disk, 2)
    with pytest.raises(InvalidSetting, match="shards cannot be"):
        reshard(store_on_disk(disk, 2), 1, shards)
