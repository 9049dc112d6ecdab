"""The first rows of a key are found without reading those behind them, however they are spread over runs."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.state import EMPTY, HASH, StateSchema, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.runs import leading_rows as leading
from headwater.flow.state.shard import ShardState
from headwater.log.storage.simulated import SimulatedDisk

SCHEMA = StateSchema(
    pa.schema([("group", pa.string()), ("_place", pa.int64()), ("_row", pa.int64())]),
    pa.schema([("text", pa.string())]),
    ("_place", "_row"),
)


class Put(NamedTuple):
    """A row is written, or deleted."""

    group: str
    place: int
    row: int
    there: bool


def store_of(batches: list[list[Put]]) -> StateStore:
    """Each batch is a run of its own."""
    store = StateStore(DiskFiles(SimulatedDisk(), "state"), SCHEMA, shards=1, task_bytes_max=0)
    for version, puts in enumerate(batches):
        last = {put[:3]: put for put in puts}
        rows = [
            {HASH: 7, "group": put.group, "_place": put.place, "_row": put.row, "text": f"{version}",
             "_deleted": not put.there}
            for put in last.values()
        ]  # fmt: skip
        schema = pa.schema([(HASH, pa.int64()), *SCHEMA.key, *SCHEMA.values, ("_deleted", pa.bool_())])
        run = shard_of(store, version + EMPTY).write(pa.RecordBatch.from_pylist(rows, schema))
        store.commit(version, version + EMPTY, filter(None, [run]))
    return store


def shard_of(store: StateStore, version: int) -> ShardState:
    return store.shard(store.begin(version), 0)


def live(batches: list[list[Put]]) -> dict[str, list[tuple[int, int, str]]]:
    """Plain Python's idea of what is there, in order."""
    table = {put[:3]: (version, put.there) for version, puts in enumerate(batches) for put in puts}
    found: dict[str, list[tuple[int, int, str]]] = {}
    for (group, place, row), (version, there) in sorted(table.items()):
        if there:
            found.setdefault(group, []).append((place, row, f"{version}"))
    return found


puts = st.builds(Put, st.sampled_from("ab"), st.integers(0, 12), st.integers(0, 2), st.booleans())


@settings(max_examples=200)
@given(st.lists(st.lists(puts, max_size=25), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 12))
def test_the_first_rows_are_there_and_none_between_them_is_missing(
    batches: list[list[Put]], at_first: int, wanted: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading, "first_limits", lambda counts: np.full(len(counts), at_first))
        state = shard_of(store_of(batches), len(batches) - 1)
        keys = pa.RecordBatch.from_pydict({"group": ["b", "a"]})
        found = state.leading(np.array([7, 7]), keys, np.array([wanted, wanted]))
    kept: dict[str, list[tuple[int, int, str]]] = {}
    for row in found.rows.to_pylist():
        kept.setdefault(row["group"], []).append((row["_place"], row["_row"], row["text"]))
    assert [keys.column(0)[place].as_py() for place in found.places] == found.rows.column("group").to_pylist()
    for group, rows in live(batches).items():
        own = kept.get(group, [])
        assert own == rows[: len(own)]
        assert len(own) >= min(wanted, len(rows))


def test_of_a_large_group_only_the_first_rows_are_read() -> None:
    store = store_of([[Put("a", place, 0, there=True) for place in range(5000)], [Put("a", 3, 0, there=False)]])
    found = shard_of(store, 1).leading(np.array([7]), pa.RecordBatch.from_pydict({"group": ["a"]}), np.array([10]))
    assert found.rows.num_rows < 30
    assert found.rows.column("_place").to_pylist()[:4] == [0, 1, 2, 4]
