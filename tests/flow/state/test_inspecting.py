import pytest

from headwater.errors import FlowError
from headwater.flow.state import EMPTY, StateStore, describe, show
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.state.subjects import run_batch, store_on_disk


@pytest.fixture
def store() -> StateStore:
    store = store_on_disk(SimulatedDisk(), 2)
    run_batch(store, 0, {0: 1, 1: 10, 2: 20, 3: 30}, EMPTY)
    run_batch(store, 1, {1: None, 2: 21})
    return store


def test_versions_are_described_with_their_shards(store: StateStore) -> None:
    first, second = describe(store.files)
    assert (first.version, first.keys, second.version, second.base, second.keys) == (0, 4, 1, 0, 3)
    assert [(shard.keys, shard.runs) for shard in second.shards] == [(2, 2), (1, 2)]
    assert second.bytes == sum(shard.bytes for shard in second.shards) > 0
    assert second.columns[:3] == ("name string", "part int32", "n int64")
    assert second.fingerprint == "counts"


def test_live_rows_of_the_newest_version_are_shown(store: StateStore) -> None:
    assert sorted(show(store.files).column("n").to_pylist()) == [1, 21, 30]


def test_rows_of_an_older_version_are_shown_if_asked(store: StateStore) -> None:
    assert sorted(show(store.files, version=0).column("n").to_pylist()) == [1, 10, 20, 30]


def test_rows_are_chosen_by_their_key(store: StateStore) -> None:
    assert show(store.files, {"name": "key 2"}).to_pylist() == [
        {"name": "key 2", "part": 2, "n": 21, "tags": [{"t": 21}]}
    ]
    assert show(store.files, {"name": None}).column("part").to_pylist() == [0]
    assert show(store.files, {"name": "key 2", "part": 3}).num_rows == 0


def test_no_more_rows_are_shown_than_asked_for(store: StateStore) -> None:
    assert show(store.files, limit=2).num_rows == 2


def test_a_column_that_is_not_of_the_key_is_refused_with_those_that_are(store: StateStore) -> None:
    with pytest.raises(FlowError, match=r'"n" is not a column of the key\. The key is \(name, part\)\.'):
        show(store.files, {"n": 1})


def test_a_store_without_versions_says_so() -> None:
    with pytest.raises(FlowError, match=r"there is no state in memory\. Run the app first"):
        show(store_on_disk(SimulatedDisk()).files)
