import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.state.files import DiskFiles
from headwater.flow.state.runs import run as run_module
from headwater.flow.state.runs.run import Run, in_batches, open_run, write_run
from headwater.flow.state.runs.run_union import combined, newest_rows
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.state.subjects import SCHEMA, hash_of, rows_of

contents = st.dictionaries(st.integers(0, 40), st.none() | st.integers(0, 9), min_size=1, max_size=30)


def sorted_rows(content: dict[int, int | None]) -> pa.RecordBatch:
    ordered = dict(sorted(content.items(), key=lambda item: hash_of(item[0])))
    return rows_of(ordered).select(SCHEMA.rows.names).cast(SCHEMA.rows)


def a_run(content: dict[int, int | None]) -> Run:
    files = DiskFiles(SimulatedDisk(), "state")
    info = write_run(files, 0, "runs/a", SCHEMA.rows, in_batches(sorted_rows(content)))
    assert info is not None
    return open_run(files, info, SCHEMA.rows)


def newest(oldest_first: list[dict[int, int | None]]) -> dict[int, int | None]:
    return {key: value for content in oldest_first for key, value in content.items()}


@given(st.lists(contents, min_size=1, max_size=4), st.booleans(), st.sampled_from((1, 4, 1000)))
def test_each_key_has_what_the_newest_run_says(
    oldest_first: list[dict[int, int | None]], drop_deleted: bool, rows_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "BATCH_ROWS_MAX", rows_max)
        runs = [a_run(content) for content in reversed(oldest_first)]
        batches = list(combined(runs, SCHEMA, drop_deleted=drop_deleted))
    rows = [row for batch in batches for row in batch.to_pylist()]
    expected = {key: value for key, value in newest(oldest_first).items() if value is not None or not drop_deleted}
    assert len(rows) == len(expected)
    assert {row["part"]: row["n"] for row in rows} == expected
    hashes = [row["_hash"] for row in rows]
    assert hashes == sorted(hashes)


def test_keys_that_share_a_hash_are_told_apart_whatever_their_order() -> None:
    pieces = [sorted_rows({0: 1, 1: 2}), sorted_rows({1: 3, 0: 4}), sorted_rows({1: None})]
    assert newest_rows(pieces, SCHEMA, drop_deleted=False).column("n").to_pylist() == [1, 2]


def test_memory_is_bounded_by_ranges_of_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "BATCH_ROWS_MAX", 10)
    runs = [a_run(dict.fromkeys(range(200), 1)), a_run(dict.fromkeys(range(0, 200, 5), 2))]
    sizes = [batch.num_rows for batch in combined(runs, SCHEMA, drop_deleted=True)]
    assert sum(sizes) == 200
    assert max(sizes) <= 12
