"""Rows prepared by several tasks, in blocks that arrive in any order, are what one task would have prepared."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.exchange.blocks import Address, Exchange, received
from headwater.flow.operate.reports import ROWS
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.latest import GONE, Latest
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.kinds.session import Session
from headwater.flow.operators.windows.kinds.tumbling import Tumbling
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.window import Window, Windowed
from headwater.flow.prepare import reduced_rows
from headwater.flow.prepare.late_bounds import LateBounds
from headwater.flow.prepare.newest_rows import NewestByKey, newest_of
from headwater.flow.prepare.reduced_rows import ReduceByKey, ReduceByWindow, combined_rows
from headwater.flow.rows import prepared_blocks
from headwater.flow.rows.prepared_blocks import Preparation, Prepare
from headwater.flow.state import EMPTY, HASH, StateStore, shard_of
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk

SHARDS = 2
KEY = pa.schema([("key", pa.string())])
ROW = pa.schema(
    [("key", pa.string()), ("_in0", pa.int64()), ("_time", pa.int64()), ("_source", pa.int32()),
     ("_partition", pa.int32()), ("_offset", pa.int64())]
)  # fmt: skip
SPECS = (
    Aggregate("count", "n"),
    Aggregate("sum", "total", column="_in0", type=pa.int64()),
    Aggregate("max", "most", column="_in0", type=pa.int64()),
    Aggregate(
        "last", "latest", column="_in0", type=pa.int64(), time="_event_time", time_type=pa.timestamp("us", "UTC")
    ),
)

Row = tuple[str | None, int | None, int]
rows = st.lists(
    st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.integers(-9, 9), st.integers(0, 60)), max_size=30
)


def batch_of(some: Sequence[Row], first: int) -> pa.RecordBatch:
    columns = [
        [key for key, _, _ in some], [value for _, value, _ in some], [time for _, _, time in some],
        [0] * len(some), [0] * len(some), list(range(first, first + len(some))),
    ]  # fmt: skip
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW)


def prepared(
    prepare: Prepare, tasks: Sequence[Sequence[Row]], schema: pa.Schema, chance: Random
) -> list[pa.RecordBatch]:
    """What each shard receives of some tasks."""
    blocks: list[pa.RecordBatch] = []
    first = 0
    for number, some in enumerate(tasks):
        preparation = Preparation("operator", prepare, Address(), Exchange(SHARDS))
        sequence = number << 32
        for row in range(len(some)):  # one by one, as small chunks of the log would come
            blocks += preparation.add(batch_of(some[row : row + 1], first + row), sequence + row)
        blocks += preparation.flush(sequence + len(some))
        first += len(some)
    chance.shuffle(blocks)
    (found,) = received(blocks, [[schema]])
    return [inputs[0] for inputs in found.inputs.values() if inputs[0] is not None]


def cut(some: list[Row], cuts: list[int]) -> list[list[Row]]:
    edges = sorted({0, len(some), *(place % (len(some) + 1) for place in cuts)})
    return [some[begin:end] for begin, end in pairwise(edges)]


def in_order(parts: Sequence[pa.RecordBatch], by: Sequence[str]) -> list[dict[str, Any]]:
    found = [row for part in parts for row in part.to_pylist()]
    return sorted(found, key=lambda row: [(row[name] is None, row[name] or 0) for name in by])


@pytest.fixture(params=[0.0, 1.0], ids=["never reduced", "always reduced"], autouse=True)
def worth(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduced_rows, "WORTH", request.param)


@pytest.fixture(params=[1, 3, 1000], ids="{} rows at a time".format, autouse=True)
def buffer_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_blocks, "BUFFER_ROWS", request.param)


@given(some=rows, cuts=st.lists(st.integers(0, 30), max_size=3), chance=st.randoms())
def test_aggregates_by_key(some: list[Row], cuts: list[int], chance: Random) -> None:
    prepare = ReduceByKey(KEY, SPECS)
    shards = prepared(prepare, cut(some, cuts), prepare.schema, chance)
    found = in_order([combined_rows(SPECS, one, KEY) for one in shards], ["key"])
    partial_rows = [(row["key"], row["n__count"], row["total__sum"], row["most__max"], row[ROWS]) for row in found]
    keys = sorted({key for key, _, _ in some}, key=lambda key: (key is None, key or ""))
    assert partial_rows == [(key, *plain([value for one, value, _ in some if one == key])) for key in keys]
    newest = {
        key: max((time, place, value) for place, (one, value, time) in enumerate(some) if one == key)[2] for key in keys
    } if all(value is not None for _, value, _ in some) else {}  # fmt: skip
    assert {row["key"]: row["latest__last"]["value"] for row in found if newest} == newest


def plain(values: list[int | None]) -> tuple[int, int | None, int | None, int]:
    known = [value for value in values if value is not None]
    return len(values), sum(known) if known else None, max(known, default=None), len(values)


@pytest.mark.parametrize("window", [Tumbling(10, 0), Session(5)], ids=["tumbling", "session"])
@given(some=rows, cuts=st.lists(st.integers(0, 30), max_size=3), chance=st.randoms(), watermark=st.none() | st.just(20))
def test_parts_of_windows(
    window: Window, some: list[Row], cuts: list[int], chance: Random, watermark: int | None
) -> None:
    work = Windowed(window, KEY, SPECS)
    schema = pa.schema([(HASH, pa.int64()), *work.incoming, (ROWS, pa.int64())])
    prepare = ReduceByWindow(KEY, window, SPECS, schema, watermark, 0)
    shards = prepared(prepare, cut(some, cuts), schema, chance)
    whole = prepared(prepare, [some], schema, chance)
    assert emitted(work, shards, watermark) == emitted(work, whole, watermark)
    timely = [row for row in some if watermark is None or end_of(window, row[2]) > watermark or row[2] >= watermark]
    assert sum(row[ROWS] for one in shards for row in one.to_pylist()) == len(timely)


def emitted(work: Windowed, shards: Sequence[pa.RecordBatch], watermark: int | None) -> list[dict[str, Any]]:
    """What an operator without any state emits of its first batch."""
    store = StateStore(DiskFiles(SimulatedDisk(), "state"), work.state, shards=SHARDS)
    handle, clock = store.begin(EMPTY), WindowClock(None, watermark)
    owners = [int(shard_of(rows.column(HASH).to_numpy(), SHARDS)[0]) for rows in shards]
    steps = [
        work.step(WindowState(handle, shard, store.opened), rows, clock)
        for shard, rows in zip(owners, shards, strict=True)
    ]
    return in_order([step.changes for step in steps], work.key.names)


def end_of(window: Window, time: int) -> int:
    return time - time % 10 + 10 if isinstance(window, Tumbling) else time


@given(some=rows, cuts=st.lists(st.integers(0, 30), max_size=3), chance=st.randoms())
def test_the_newest_row_of_each_key(some: list[Row], cuts: list[int], chance: Random) -> None:
    order = pa.schema(
        [("_at_time", pa.timestamp("us", "UTC")), ("_at_partition", pa.int32()), ("_at_offset", pa.int64())]
    )
    work = Latest(order, pa.schema([("_in0", pa.int64())]))
    prepare = NewestByKey(KEY, work)
    shards = prepared(prepare, cut(some, cuts), prepare.schema, chance)
    found = in_order([newest_of(work, KEY, one) for one in shards], ["key"])
    keys = sorted({key for key, _, _ in some}, key=lambda key: (key is None, key or ""))
    newest = {
        key: max((time, place) for place, (one, _, time) in enumerate(some) if one == key)[1] for key in keys
    }  # fmt: skip
    assert [(row["key"], row["_order__at_offset"]) for row in found] == [(key, newest[key]) for key in keys]
    assert [row["_in0"] for row in found] == [some[newest[key]][1] for key in keys]
    assert sum(row[ROWS] for row in found) == len(some)
    assert not any(row[GONE] for row in found)


def test_each_partition_may_have_a_bound_of_its_own_and_no_row_without_a_time_is_late() -> None:
    some = pa.RecordBatch.from_pydict(
        {
            "_time": pa.array([5, 5, 15, None], pa.int64()),
            "_source": pa.array([0, 0, 1, 0], pa.int32()),
            "_partition": pa.array([0, 1, 1, 1], pa.int32()),
        }
    )
    assert LateBounds(3, {(0, 1): 9, (1, 1): 12}).late(some).tolist() == [False, True, False, False]
