"""The newest rows of each group are right after any batches of changes, whatever is deleted."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.joins.tables import AFTER, ROW, Side
from headwater.flow.operators.newest import Newest, newest_step
from headwater.flow.state import EMPTY, HASH, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.runs import leading_rows as leading
from headwater.log.storage.simulated import SimulatedDisk

COLUMNS = pa.schema([("id", pa.int64()), ("user", pa.string()), ("at", pa.float64())])
LIMIT = 2
Rows = dict[int, tuple[str, float | None]]


class Change(NamedTuple):
    id: int
    row: tuple[str, float | None] | None


def incoming(before: Rows, after: Rows) -> pa.RecordBatch | None:
    rows = [
        {HASH: len(row[0]), ROW: id // 2, AFTER: is_after, "id": id, "user": row[0], "at": row[1]}
        for id in {*before, *after} if before.get(id) != after.get(id)
        for row, is_after in ((before.get(id), False), (after.get(id), True)) if row is not None
    ]  # fmt: skip
    fields = [(HASH, pa.int64()), (ROW, pa.int64()), (AFTER, pa.bool_()), *COLUMNS]
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields)) if rows else None


def newest(rows: Rows) -> dict[str, list[tuple[int, float | None]]]:
    """Plain Python's idea of it."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    for id, (user, at) in sorted(rows.items(), key=lambda one: (-(-1 if one[1][1] is None else one[1][1]), one[0])):
        found.setdefault(user, []).append((id, at))
    return {user: several[:LIMIT] for user, several in found.items()}


changes = st.builds(
    Change,
    st.integers(0, 6),
    st.none() | st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from([0.0, 1.0, 2.0])),
)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_read_in_advance() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading, "first_limits", lambda counts: counts.copy())
        yield


@settings(max_examples=100)
@given(st.lists(st.tuples(st.lists(changes, max_size=5), st.integers(1, 2)), max_size=6))
def test_after_every_batch_each_list_has_the_rows_of_the_highest_order(batches: list[tuple[list[Change], int]]) -> None:
    work = Newest(Side(COLUMNS, ("id",), ("user",)), "at", LIMIT, "rows")
    store = StateStore(DiskFiles(SimulatedDisk(), "state"), work.state, shards=1)
    table, result = Rows(), dict[str, Any]()
    for version, (drawn, again) in enumerate(batches):
        now = dict(table)
        for id, row in drawn:
            now.pop(id, None)
            if row is not None:
                now[id] = row
        for _ in range(again):
            step = newest_step(work, store.shard(store.begin(version + EMPTY), 0), incoming(table, now))
            store.commit(version, version + EMPTY, filter(None, [step.run]))
        table = now
        for change in step.changes.to_pylist():
            before = change["_before"] and change["_before"]["rows"]
            assert result.pop(change["user"], None) == before
            if change["_op"] != "d":
                result[change["user"]] = change["rows"]
        emitted = {user: [(row["id"], row["at"]) for row in rows] for user, rows in result.items()}
        assert emitted == newest(table)
