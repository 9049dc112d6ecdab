import pyarrow as pa
import pytest

from headwater.clock import ManualClock
from headwater.errors import FlowError, StateDamaged, StateMismatch, StateMissing
from headwater.flow.state import EMPTY, StateSchema, StateStore, plan_merge
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.state.subjects import (
    SCHEMA,
    applied,
    content_of,
    merge_all,
    new_disk,
    run_batch,
    store_on_disk,
    written,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk(clock: ManualClock) -> SimulatedDisk:
    return SimulatedDisk(clock)


@pytest.fixture
def store(disk: SimulatedDisk) -> StateStore:
    return store_on_disk(disk, 2)


def test_a_new_store_has_no_versions_and_begins_from_nothing(store: StateStore) -> None:
    assert store.versions() == []
    assert content_of(store, EMPTY) == {}


def test_versions_share_what_did_not_change(store: StateStore) -> None:
    run_batch(store, 0, {1: 10, 2: 20})
    run_batch(store, 1, {2: 21})
    assert store.manifest(0).run_names() < store.manifest(1).run_names()
    assert (content_of(store, 0), content_of(store, 1)) == ({1: 10, 2: 20}, {1: 10, 2: 21})


def test_a_commit_without_runs_is_a_version_of_the_same_content(store: StateStore) -> None:
    run_batch(store, 0, {1: 10})
    store.commit(1, 0, [])
    store.commit(2, 1, [])
    assert content_of(store, 2) == {1: 10}


def test_a_batch_may_be_run_again_from_the_same_base_after_it_was_committed(store: StateStore) -> None:
    run_batch(store, 0, {1: 10})
    for value in (20, 20, 21):
        run_batch(store, 1, {2: value}, 0)
    assert content_of(store, 1) == {1: 10, 2: 21}
    assert content_of(store, 0) == {1: 10}


def test_of_several_attempts_only_the_committed_one_counts(store: StateStore) -> None:
    handle = store.begin(EMPTY)
    attempts = [written(store, handle, {1: value}) for value in (10, 11, 12)]
    store.commit(0, EMPTY, attempts[1])
    assert content_of(store, 0) == {1: 11}


def test_a_version_that_is_not_there_is_said_with_those_that_are(store: StateStore) -> None:
    run_batch(store, 3, {1: 10}, EMPTY)
    with pytest.raises(StateMissing, match=r"has no version 7\. It has 3: .* rebuild the view"):
        store.begin(7)


def test_going_back_to_an_older_batch_gives_up_the_versions_above_it(store: StateStore) -> None:
    for version in range(4):
        run_batch(store, version, {version: version})
    run_batch(store, 1, {1: 100})
    assert store.versions() == [0, 1]


def test_runs_that_were_written_from_another_version_are_refused(store: StateStore) -> None:
    run_batch(store, 0, {1: 10})
    runs = written(store, store.begin(EMPTY), {2: 20})
    with pytest.raises(FlowError, match=r"was written from version -1-.*, and version 0-.* is to be continued"):
        store.commit(1, 0, runs)
    assert store.versions() == [0]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"fingerprint": "sums"}, "the operator 'counts', and now 'sums' is wanted"),
        ({"shards": 3}, 'a number of shards of 2, and now 3 is wanted. Change it with "headwater state reshard"'),
        ({"schema": StateSchema(SCHEMA.key, pa.schema([("n", pa.string())]))}, "and now (_hash int64, name string"),
    ],
)
def test_state_that_does_not_fit_is_refused_in_a_sentence(
    disk: SimulatedDisk, store: StateStore, change: dict[str, object], said: str
) -> None:
    run_batch(store, 0, {1: 10})
    wanted: dict[str, object] = {"schema": SCHEMA, "shards": 2, "fingerprint": "counts", **change}
    with pytest.raises(StateMismatch) as refused:
        StateStore(DiskFiles(disk, "job/state"), **wanted).begin(0)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_cleaning_keeps_the_newest_versions_and_their_runs(store: StateStore, clock: ManualClock) -> None:
    content: dict[int, int] = {}
    for version in range(10):
        clock.advance(1000)
        run_batch(store, version, {version: version, version - 3: None})
        content = applied(content, {version: version, version - 3: None})
    store.clean(2)
    assert store.versions() == [8, 9]
    assert content_of(store, 9) == content
    assert {f"runs/{file.name}" for file in store.files.list("runs")} >= store.manifest(8).run_names()
    assert store.check() == []


def test_leftovers_of_tasks_are_cleaned_once_no_version_is_as_old(store: StateStore, clock: ManualClock) -> None:
    run_batch(store, 0, {1: 10})
    written(store, store.begin(0), {2: 20})
    written(store, store.begin(0), {2: 20})
    for version in (1, 2):
        clock.advance(1000)
        run_batch(store, version, {2: version})
    assert len(store.clean(2)) == 2
    named = store.manifest(1).run_names() | store.manifest(2).run_names()
    assert {f"runs/{file.name}" for file in store.files.list("runs")} == named


def test_cleaning_leaves_the_work_of_running_tasks_alone(store: StateStore, clock: ManualClock) -> None:
    for version in range(3):
        clock.advance(1000)
        run_batch(store, version, {1: version})
    clock.advance(1000)
    runs = written(store, store.begin(2), {2: 20})
    store.clean(1)
    store.commit(3, 2, runs)
    assert content_of(store, 3) == {1: 2, 2: 20}


def test_cleaning_leaves_merges_that_wait_for_adoption_alone(clock: ManualClock, disk: SimulatedDisk) -> None:
    store = store_on_disk(disk, 1, task_bytes_max=0)
    for version in range(5):
        run_batch(store, version, {version: version})
    merged = merge_all(store, 4)
    for version in (5, 6):
        clock.advance(1000)
        run_batch(store, version, {version: version})
    store.clean(1, spare={run.name for run in merged})
    store.commit(7, 6, [], merged=merged)
    assert len(store.manifest(7).shards[0].runs) == 3
    assert content_of(store, 7) == {version: version for version in range(7)}


def test_cleaning_an_empty_store_does_nothing(store: StateStore) -> None:
    assert store.clean(2) == []


def test_a_merge_is_adopted_by_the_next_commit(disk: SimulatedDisk) -> None:
    store = store_on_disk(disk, 1, task_bytes_max=0)
    for version in range(5):
        run_batch(store, version, {version: version, 0: None})
    merged = merge_all(store, 4)
    assert [len(run.replaces) for run in merged] == [4]
    runs = written(store, store.begin(4), {9: 9, 1: None})
    store.commit(5, 4, runs, merged=merged)
    assert len(store.manifest(5).shards[0].runs) == 2
    assert content_of(store, 5) == {2: 2, 3: 3, 4: 4, 9: 9}


def test_a_merge_whose_runs_are_gone_is_left_out(disk: SimulatedDisk) -> None:
    store = store_on_disk(disk, 1, task_bytes_max=0)
    for version in range(5):
        run_batch(store, version, {version: version})
    merged = merge_all(store, 4)
    store_on_disk(disk, 1).commit(5, 4, written(store_on_disk(disk, 1), store_on_disk(disk, 1).begin(4), {9: 9}))
    assert len(store.manifest(5).shards[0].runs) == 1
    store.commit(6, 5, [], merged=merged)
    assert content_of(store, 6) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 9: 9}


def test_all_keys_may_go_and_come_again(store: StateStore) -> None:
    run_batch(store, 0, {1: 10, 2: 20})
    for version in range(1, 6):
        run_batch(store, version, {1: None, 2: None})
    assert content_of(store, 5) == {}
    run_batch(store, 6, {2: 22})
    assert content_of(store, 6) == {2: 22}
    assert sum(len(shard.runs) for shard in store.manifest(6).shards) <= 5


def test_a_full_merge_forgets_deleted_keys(disk: SimulatedDisk) -> None:
    store = store_on_disk(disk, 1, task_bytes_max=0)
    run_batch(store, 0, {key: key for key in range(8)})
    for version in range(1, 8):
        run_batch(store, version, {version: None})
    store.commit(8, 7, [], merged=merge_all(store, 7))
    assert [run.rows for run in store.manifest(8).shards[0].runs] == [1]


def test_a_check_names_every_damaged_file_and_says_what_to_do(store: StateStore, disk: SimulatedDisk) -> None:
    run_batch(store, 0, {1: 10})
    run_batch(store, 1, {2: 20})
    paths = [path for path in disk.files() if path.endswith((".arrow", "000000000000.json"))]
    for path in paths:
        disk.flip_bit(path, disk.size(path) * 4)
    found = store.check()
    assert len(found) == len(paths) == 3
    assert all("is damaged" in problem and "rebuild the view from the log" in problem for problem in found)
    assert all(any(path.removeprefix("job/state/") in problem for problem in found) for path in paths)


def test_a_manifest_under_a_wrong_name_is_noticed(store: StateStore) -> None:
    run_batch(store, 0, {1: 10})
    store.files.replace("versions/000000000005.json", store.files.read("versions/000000000000.json"))
    with pytest.raises(StateDamaged, match="it holds version 0"):
        store.manifest(5)


def test_one_shard_and_many_hold_the_same() -> None:
    contents = []
    for shards in (1, 2, 7, 50):
        disk, _ = new_disk()
        store = store_on_disk(disk, shards)
        for version in range(5):
            run_batch(store, version, dict.fromkeys(range(version, 20, version + 1), version) | {version * 3: None})
        contents.append(content_of(store, 4))
    assert all(content == contents[0] for content in contents)


def test_a_commit_costs_a_run_for_each_changed_shard_and_a_manifest(store: StateStore, disk: SimulatedDisk) -> None:
    run_batch(store, 0, {key: key for key in range(20)})
    before = set(disk.files())
    run_batch(store, 1, {1: 100})
    assert sorted(path.split("/")[2] for path in set(disk.files()) - before) == ["runs", "versions"]


def test_plans_are_made_from_what_is_committed(disk: SimulatedDisk) -> None:
    store = store_on_disk(disk, 1, task_bytes_max=0)
    for version in range(4):
        run_batch(store, version, {version: version})
    assert [len(plan.runs) for plan in plan_merge(store.manifest(3))] == [4]
    assert plan_merge(store.manifest(2)) == []
