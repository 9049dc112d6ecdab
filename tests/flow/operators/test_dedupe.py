"""The first row of each key within a time, for any cut into batches."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.dedupe import KEPT_AT, dedupe_step, state_of
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.manifest import HASH
from headwater.flow.state.store import StateStore
from headwater.testing import MemoryStorage

KEY = pa.schema([pa.field("id", pa.string())])


def store() -> StateStore:
    return StateStore(DiskFiles(MemoryStorage(), ""), state_of(KEY), shards=1)


def batch_of(rows: list[tuple[str, int]]) -> pa.RecordBatch:
    names = [name for name, _ in rows]
    hashes = [hash_of(name) for name in names]
    return pa.RecordBatch.from_arrays([pa.array(hashes, pa.int64()), pa.array(names)], names=[HASH, "id"])


def hash_of(name: str) -> int:
    return sum(name.encode()) % 3  # few of them: keys share hashes


def run(kept: StateStore, version: int, rows: list[tuple[str, int]], within: int, **options: Any) -> list[bool]:
    handle = kept.begin(version - 1)
    times = np.array([time for _, time in rows], np.int64)
    position = [np.arange(len(rows))]
    expired = options.get("expired_us")
    passed = dedupe_step(kept.shard(handle, 0), batch_of(rows), times, position, within, expired_us=expired)
    kept.commit(version, version - 1, filter(None, [passed.run]))
    return [bool(flag) for flag in passed.rows]


def reference(rows: list[tuple[str, int]], within: int) -> list[bool]:
    """Rows in the order of the log, where times of a key never go back."""
    newest: dict[str, int] = {}
    flags = []
    for name, time in rows:
        passes = name not in newest or time - newest[name] > within
        flags.append(passes)
        if passes:
            newest[name] = time
    return flags


steps = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 5)), max_size=30)


@given(steps, st.integers(0, 10), st.lists(st.integers(0, 30), max_size=4))
def test_any_cut_into_batches_lets_the_same_rows_through(
    moves: list[tuple[str, int]], within: int, cuts: list[int]
) -> None:
    time, rows = 0, []
    for name, more in moves:
        time += more
        rows.append((name, time))
    kept, found = store(), []
    bounds = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    for version, (start, end) in enumerate(pairwise(bounds)):
        found += run(kept, version, rows[start:end], within)
    assert found == reference(rows, within)


def test_a_row_before_the_one_let_through_repeats_it_too() -> None:
    kept = store()
    assert run(kept, 0, [("a", 100)], 10) == [True]
    assert run(kept, 1, [("a", 95), ("a", 80)], 10) == [False, True]
    assert run(kept, 2, [("a", 105)], 10) == [False], "the newest row counts, not the one that came last"


def test_keys_that_nothing_can_repeat_any_more_are_forgotten() -> None:
    kept = store()
    run(kept, 0, [("a", 100), ("b", 500)], 10)
    run(kept, 1, [("c", 600), ("a", 700)], 10, expired_us=400)
    rows = [row for batch in kept.shard(kept.begin(1), 0).scan() for row in batch.to_pylist()]
    assert {row["id"]: row[KEPT_AT] for row in rows} == {"a": 700, "b": 500, "c": 600}
    run(kept, 2, [("d", 900)], 10, expired_us=650)
    rows = [row for batch in kept.shard(kept.begin(2), 0).scan() for row in batch.to_pylist()]
    assert {row["id"] for row in rows} == {"a", "d"}
