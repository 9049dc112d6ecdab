"""State to test with: few keys, half of whose hashes collide, with values of plain and nested types."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headwater.clock import ManualClock
from headwater.flow.state import HASH, RunInfo, StateSchema, StateStore, plan_merge, shard_of
from headwater.flow.state.files import DiskFiles, StateFiles
from headwater.flow.state.runs.merge_plan import TASK_BYTES_MAX
from headwater.flow.state.shard import StateHandle
from headwater.log.storage.simulated import SimulatedDisk

Content = dict[int, int]
"""What a version holds: key number -> value."""

SCHEMA = StateSchema(
    pa.schema([("name", pa.string()), ("part", pa.int32())]),
    pa.schema([("n", pa.int64()), ("tags", pa.list_(pa.struct({"t": pa.int64()})))]),
)


def hash_of(key: int) -> int:
    """Keys 0 and 1 share a hash, 2 and 3 another; some are negative."""
    return (key // 2) * 3 - 7


def name_of(key: int) -> str | None:
    return None if key == 0 else f"key {key}"


def rows_of(changes: Mapping[int, int | None]) -> pa.RecordBatch:
    """Rows as an operator writes them; None deletes a key."""
    keys, values = list(changes), list(changes.values())
    columns = {
        "name": pa.array([name_of(key) for key in keys], pa.string()),
        "part": pa.array(keys, pa.int32()),
        "n": pa.array(values, pa.int64()),
        "tags": pa.array(
            [None if value is None else [{"t": value}] for value in values], SCHEMA.values.field("tags").type
        ),
        HASH: pa.array([hash_of(key) for key in keys], pa.int64()),
        "_deleted": pa.array([value is None for value in values], pa.bool_()),
    }
    return pa.RecordBatch.from_pydict(columns)


def hashes_of(rows: pa.RecordBatch) -> np.ndarray:
    return np.asarray(rows.column(HASH).to_numpy())


def for_shard(rows: pa.RecordBatch, shard: int, shards: int) -> pa.RecordBatch:
    return rows.filter(pa.array(shard_of(hashes_of(rows), shards) == shard))


def written(store: StateStore, handle: StateHandle, changes: Mapping[int, int | None]) -> list[RunInfo]:
    """What the tasks of a batch do."""
    rows = rows_of(changes)
    runs = [store.shard(handle, shard).write(for_shard(rows, shard, handle.shards)) for shard in range(handle.shards)]
    return [run for run in runs if run is not None]


def run_batch(store: StateStore, version: int, changes: Mapping[int, int | None], base: int | None = None) -> None:
    base = version - 1 if base is None else base
    handle = store.begin(base)
    store.commit(version, base, written(store, handle, changes))


def content_of(store: StateStore, version: int) -> Content:
    """What a scan of a version finds; also that values of both types are of the same row."""
    found: Content = {}
    manifest = store.manifest(version)
    handle = handle_of(store, version)
    for shard in range(handle.shards):
        before = len(found)
        for batch in store.shard(handle, shard).scan():
            for row in batch.to_pylist():
                assert row["part"] not in found, "a key twice"
                assert row["name"] == name_of(row["part"])
                assert row["tags"] == [{"t": row["n"]}]
                found[row["part"]] = row["n"]
        assert len(found) - before == manifest.shards[shard].keys, "the count of keys"
    return found


def looked_up(store: StateStore, version: int, keys: range) -> Content:
    """The same by look-ups, of keys that are there and keys that are not."""
    rows = rows_of(dict.fromkeys(keys, 0))
    found: Content = {}
    handle = handle_of(store, version)
    for shard in range(handle.shards):
        asked = for_shard(rows, shard, handle.shards)
        answer = store.shard(handle, shard).lookup(hashes_of(asked), asked)
        assert answer.values.num_rows == asked.num_rows
        for key, there, row in zip(
            asked.column("part").to_pylist(), answer.mask, answer.values.to_pylist(), strict=True
        ):
            assert row == ({"n": row["n"], "tags": [{"t": row["n"]}]} if there else {"n": None, "tags": None})
            if there:
                found[key] = row["n"]
    return found


def handle_of(store: StateStore, version: int) -> StateHandle:
    manifest = store.manifest(version)
    runs = tuple(shard.runs for shard in manifest.shards)
    return StateHandle(store.files.url, version, manifest.token, manifest.schema, runs)


def merge_all(store: StateStore, version: int) -> list[RunInfo]:
    return [store.merge(plan) for plan in plan_merge(store.manifest(version))]


def store_on(files: StateFiles, shards: int = 2, *, task_bytes_max: int = TASK_BYTES_MAX) -> StateStore:
    return StateStore(files, SCHEMA, shards=shards, fingerprint="counts", task_bytes_max=task_bytes_max)


def store_on_disk(disk: SimulatedDisk, shards: int = 2, *, task_bytes_max: int = TASK_BYTES_MAX) -> StateStore:
    return store_on(DiskFiles(disk, "job/state"), shards, task_bytes_max=task_bytes_max)


def new_disk() -> tuple[SimulatedDisk, ManualClock]:
    clock = ManualClock()
    return SimulatedDisk(clock), clock


def applied(content: Content, changes: Mapping[int, int | None]) -> Content:
    merged = {**content, **changes}
    return {key: value for key, value in merged.items() if value is not None}
