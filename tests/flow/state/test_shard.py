import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import FlowError, HeadwaterError
from headwater.flow.state import DELETED, EMPTY, HASH, ShardState, StateHandle, StateSchema, StateStore, shard_of
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import Call, SimulatedDisk
from tests.flow.state.subjects import (
    content_of,
    hashes_of,
    looked_up,
    rows_of,
    run_batch,
    store_on,
    store_on_disk,
    written,
)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def store(disk: SimulatedDisk) -> StateStore:
    return store_on_disk(disk, 1)


def test_a_shard_is_the_hash_modulo_the_number_of_shards_and_never_negative() -> None:
    hashes = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
    assert shard_of(hashes, 3).tolist() == [value % 3 for value in hashes.tolist()]
    assert shard_of(hashes, 1).tolist() == [0, 0, 0, 0, 0]


def test_an_empty_shard_finds_nothing(store: StateStore) -> None:
    rows = rows_of({1: 1, 2: 2})
    found = store.shard(store.begin(EMPTY), 0).lookup(hashes_of(rows), rows)
    assert found.mask.tolist() == [False, False]
    assert found.values.to_pylist() == [{"n": None, "tags": None}] * 2
    assert list(store.shard(store.begin(EMPTY), 0).scan()) == []


def test_a_look_up_answers_in_the_order_it_was_asked(store: StateStore) -> None:
    run_batch(store, 0, {1: 10, 2: 20, 3: 30})
    run_batch(store, 1, {3: 31, 9: 90})
    rows = rows_of(dict.fromkeys([9, 4, 3, 0, 1, 2], 0))
    found = store.shard(store.begin(1), 0).lookup(hashes_of(rows), rows)
    assert found.mask.tolist() == [True, False, True, False, True, True]
    assert found.values.column("n").to_pylist() == [90, None, 31, None, 10, 20]


def test_a_look_up_of_no_keys_answers_no_rows(store: StateStore) -> None:
    run_batch(store, 0, {1: 10})
    found = store.shard(store.begin(0), 0).lookup(np.array([], np.int64), rows_of({}))
    assert (found.mask.tolist(), found.values.num_rows) == ([], 0)


def test_keys_that_share_a_hash_are_told_apart(store: StateStore) -> None:
    run_batch(store, 0, {1: 10})
    assert looked_up(store, 0, range(4)) == {1: 10}
    run_batch(store, 1, {0: 5})
    assert looked_up(store, 1, range(4)) == {0: 5, 1: 10}


def test_many_keys_of_one_hash_are_all_found(disk: SimulatedDisk) -> None:
    schema = StateSchema(pa.schema([("k", pa.int64())]), pa.schema([("n", pa.int64())]))
    store = StateStore(DiskFiles(disk, "state"), schema, shards=1)
    keys = np.arange(100)
    rows = pa.RecordBatch.from_pydict({HASH: pa.array(keys // 50), "k": keys, "n": keys * 2})
    store.commit(0, EMPTY, filter(None, [store.shard(store.begin(EMPTY), 0).write(rows)]))
    found = store.shard(store.begin(0), 0).lookup(keys // 50, rows)
    assert found.mask.all()
    assert found.values.column("n").to_pylist() == (keys * 2).tolist()


def test_a_deleted_key_is_not_found_and_may_come_back(store: StateStore) -> None:
    run_batch(store, 0, {1: 10, 2: 20})
    run_batch(store, 1, {1: None})
    run_batch(store, 2, {1: 11})
    assert [content_of(store, version) for version in range(3)] == [{1: 10, 2: 20}, {2: 20}, {1: 11, 2: 20}]


def test_rows_that_do_not_say_so_are_not_deleted(store: StateStore) -> None:
    run = store.shard(store.begin(EMPTY), 0).write(rows_of({1: 10}).drop_columns([DELETED]))
    store.commit(0, EMPTY, filter(None, [run]))
    assert content_of(store, 0) == {1: 10}


def test_deleting_what_was_never_there_keeps_nothing(store: StateStore, disk: SimulatedDisk) -> None:
    run_batch(store, 0, {1: None, 2: None})
    assert store.manifest(0).shards[0].runs == ()
    assert [path for path in disk.files() if "runs" in path] == []


def test_no_changes_write_no_run(store: StateStore) -> None:
    assert store.shard(store.begin(EMPTY), 0).write(rows_of({})) is None


def test_keys_are_counted_whether_or_not_the_caller_says_which_existed(store: StateStore) -> None:
    run_batch(store, 0, {1: 10, 2: 20})
    handle = store.begin(0)
    rows = rows_of({1: None, 2: 21, 3: 30, 4: None})
    shard = store.shard(handle, 0)
    existed = shard.lookup(hashes_of(rows), rows).mask
    said, unsaid = shard.write(rows, existed=existed), shard.write(rows)
    assert said is not None
    assert unsaid is not None
    assert (said.keys_change, unsaid.keys_change) == (0, 0)


def test_a_row_of_another_shard_is_refused_in_a_sentence(disk: SimulatedDisk) -> None:
    store = store_on_disk(disk, 2)
    with pytest.raises(
        FlowError, match=r"row 0 of a write to shard 0 belongs to shard 1 of 2\. Partition rows by pmod"
    ):
        store.shard(store.begin(EMPTY), 0).write(rows_of({1: 1}))


def test_a_key_that_comes_twice_in_a_write_is_refused_in_a_sentence(store: StateStore) -> None:
    rows = pa.concat_batches([rows_of({1: 1}), rows_of({1: 2})])
    with pytest.raises(FlowError, match="has a key twice"):
        store.shard(store.begin(EMPTY), 0).write(rows)


def test_every_attempt_at_a_task_writes_a_file_of_its_own(store: StateStore) -> None:
    handle = store.begin(EMPTY)
    names = {written(store, handle, {1: 10})[0].name for _ in range(3)}
    assert len(names) == 3


def test_a_handle_is_plain_data_from_which_another_process_works(tmp_path: object) -> None:
    store = store_on(DiskFiles.at(str(tmp_path)), 1)
    run_batch(store, 0, {1: 10})
    handle = StateHandle.from_json(store.begin(0, reserved={"runs/x"}).to_json())
    assert handle.reserved == ("runs/x",)
    shard = ShardState(handle, 0)
    run = shard.write(rows_of({2: 20}))
    store.commit(1, 0, filter(None, [run]))
    assert content_of(store, 1) == {1: 10, 2: 20}


def test_small_runs_are_merged_where_a_task_writes(store: StateStore) -> None:
    for version in range(12):
        run_batch(store, version, {version: version})
    assert len(store.manifest(11).shards[0].runs) <= 3
    assert content_of(store, 11) == {version: version for version in range(12)}


def test_a_task_leaves_reserved_runs_alone(store: StateStore) -> None:
    for version in range(3):
        run_batch(store, version, {version: version})
    reserved = {store.manifest(2).shards[0].runs[1].name}
    run = store.shard(store.begin(2, reserved=reserved), 0).write(rows_of({9: 9}))
    assert run is not None
    assert run.replaces == ()


def test_a_few_keys_of_a_large_shard_are_found_without_reading_it(tmp_path: object) -> None:
    schema = StateSchema(pa.schema([("k", pa.int64())]), pa.schema([("n", pa.int64())]))
    keys = np.arange(400_000)
    hashes = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    rows = pa.RecordBatch.from_pydict({HASH: hashes, "k": keys, "n": keys})
    store = StateStore(DiskFiles.at(str(tmp_path)), schema, shards=1)
    store.commit(0, EMPTY, filter(None, [store.shard(store.begin(EMPTY), 0).write(rows)]))
    shard = store.shard(store.begin(0), 0)
    few = rows.take(pa.array([7, 399_999]))
    shard.lookup(few.column(HASH).to_numpy(), few)
    before = pa.total_allocated_bytes()
    found = shard.lookup(few.column(HASH).to_numpy(), few)
    assert found.values.column("n").to_pylist() == [7, 399_999]
    assert pa.total_allocated_bytes() - before < 10_000


def test_a_run_is_opened_once_however_often_it_is_looked_into(disk: SimulatedDisk) -> None:
    store = store_on_disk(disk, 1)
    run_batch(store, 0, {1: 10})
    calls: list[Call] = []
    looked_up(store, 0, range(4))
    disk.on_call = calls.append
    looked_up(store, 0, range(4))
    assert [call for call in calls if "runs" in call.path] == []


def test_columns_come_in_any_order_and_are_cast_to_what_is_kept(store: StateStore) -> None:
    rows = rows_of({1: 10, 2: 20})
    narrow = rows.set_column(rows.schema.get_field_index("n"), "n", rows.column("n").cast(pa.int32()))
    store.commit(
        0, EMPTY, filter(None, [store.shard(store.begin(EMPTY), 0).write(narrow.select(narrow.schema.names[::-1]))])
    )
    assert content_of(store, 0) == {1: 10, 2: 20}


def test_a_column_that_is_missing_is_an_error(store: StateStore) -> None:
    with pytest.raises((HeadwaterError, KeyError)):
        store.shard(store.begin(EMPTY), 0).write(rows_of({1: 10}).drop_columns(["n"]))


def test_state_may_have_no_values_at_all(disk: SimulatedDisk) -> None:
    schema = StateSchema(pa.schema([("k", pa.int64())]), pa.schema([]))
    store = StateStore(DiskFiles(disk, "state"), schema, shards=1)
    rows = pa.RecordBatch.from_pydict({HASH: [1, 2], "k": [1, 2]})
    store.commit(0, EMPTY, filter(None, [store.shard(store.begin(EMPTY), 0).write(rows)]))
    asked = pa.RecordBatch.from_pydict({HASH: [1, 5], "k": [1, 5]})
    assert store.shard(store.begin(0), 0).lookup(hashes_of(asked), asked).mask.tolist() == [True, False]
