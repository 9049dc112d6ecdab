"""Two tables joined in any batches of changes are what joining them as they stand gives, after every batch."""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operators.joins.pairing import EXISTENCE, HOWS, SEMI, Condition, Pairing
from headwater.flow.operators.joins.splitting import results_of
from headwater.flow.operators.joins.tables import (
    AFTER,
    ROW,
    JoinStep,
    Side,
    TableJoin,
    asked_of,
    touched_rows,
    write_touched,
)
from headwater.flow.state import EMPTY, HASH, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.runs import leading_rows
from headwater.flow.state.shard import ShardState
from headwater.log.storage.simulated import SimulatedDisk

LEFT = pa.schema([("id", pa.int64()), ("user", pa.string()), ("kind", pa.int64()), ("price", pa.float64())])
RIGHT = pa.schema([("number", pa.int64()), ("name", pa.string()), ("sort", pa.int64()), ("limit", pa.float64())])
ON = (("user", "name"), ("kind", "sort"))
WAYS = (*HOWS, *EXISTENCE)
Rows = dict[int, tuple[Any, ...]]
Given = tuple[pa.RecordBatch | None, pa.RecordBatch | None]


def table_join_step(
    join: TableJoin, left: ShardState, right: ShardState, given: tuple[pa.RecordBatch | None, pa.RecordBatch | None]
) -> JoinStep:
    """`given` are rows of each side with `_hash`, that of what they are joined on, `_row` and `_after`."""
    touched = touched_rows(join.left, given[0]), touched_rows(join.right, given[1])
    before, after = results_of(join)(join, left, right, touched, asked_of(*touched))
    runs = write_touched(join.left, left, touched[0]), write_touched(join.right, right, touched[1])
    return JoinStep(before, after, runs)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_read_in_advance() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading_rows, "first_limits", lambda counts: counts.copy())
        yield


class Change(NamedTuple):
    """Of a side: the row of a key is now this one, or gone."""

    side: int
    key: int
    row: tuple[Any, ...] | None


def join_of(how: str, *, further: bool = False) -> TableJoin:
    compared = (Condition("price", "<=", "limit"),) if further else ()
    pairing = Pairing(LEFT, RIGHT, ON, how, compared)
    return TableJoin(Side(LEFT, ("id",), ("user", "kind")), Side(RIGHT, ("number",), ("name", "sort")), pairing)


def hash_of(row: tuple[Any, ...]) -> int:
    """Many join keys share one."""
    return len(row[1] or "") * 2 + (row[2] or 0) % 2


def own_hash(key: int) -> int:
    """Of a row's own key: two keys share one, and they are spread as hashes are."""
    return (key // 2 % 16 - 8) * 2**59


def incoming(schema: pa.Schema, before: Rows, after: Rows) -> pa.RecordBatch | None:
    """What a batch changes, as both sides of each change."""
    rows = []
    for key in {*before, *after}:
        sides = [(before.get(key), False), (after.get(key), True)]
        for row, is_after in sides if before.get(key) != after.get(key) else []:
            if row is not None:
                named = dict(zip(schema.names, row, strict=True))
                rows.append({HASH: hash_of(row), ROW: own_hash(row[0]), AFTER: is_after, **named})
    fields = [(HASH, pa.int64()), (ROW, pa.int64()), (AFTER, pa.bool_()), *schema]
    return pa.RecordBatch.from_pylist(rows, pa.schema(fields)) if rows else None


def meets(join: TableJoin, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if None in one[1:3] or one[1:3] != other[1:3]:
        return False
    return not join.pairing.further or (None not in (one[3], other[3]) and one[3] <= other[3])


def joined(join: TableJoin, left: Rows, right: Rows) -> list[tuple[Any, ...]]:
    """Plain Python's idea of it."""
    pairs = [(one, other) for one, other in product(left.values(), right.values()) if meets(join, one, other)]
    if join.pairing.how in EXISTENCE:
        met = {one for one, _ in pairs}
        return sorted((one for one in left.values() if (one in met) == (join.pairing.how == SEMI)), key=repr)
    found = [(*one, other[0], other[3]) for one, other in pairs]
    if join.pairing.keeps_left:
        found += [(*one, None, None) for one in left.values() if one not in [pair[0] for pair in pairs]]
    if join.pairing.keeps_right:
        alone = [other for other in right.values() if other not in [pair[1] for pair in pairs]]
        found += [(None, other[1], other[2], None, other[0], other[3]) for other in alone]
    return sorted(found, key=repr)


class Running:
    """A join in one shard, and the table that its results make."""

    def __init__(self, join: TableJoin) -> None:
        self.join, self.version = join, EMPTY
        self.stores = [
            StateStore(DiskFiles(SimulatedDisk(), "state"), side.state, shards=1) for side in (join.left, join.right)
        ]
        self.tables: tuple[Rows, Rows] = ({}, {})
        self.result: list[tuple[Any, ...]] = []

    def step(self, left: ShardState, right: ShardState, given: Given) -> JoinStep:
        return table_join_step(self.join, left, right, given)

    def batch(self, changes: list[Change], again: int = 1) -> None:
        now: tuple[Rows, Rows] = (dict(self.tables[0]), dict(self.tables[1]))
        for side, key, row in changes:
            now[side].pop(key, None)
            if row is not None:
                now[side][key] = (key, *row)
        given = incoming(LEFT, self.tables[0], now[0]), incoming(RIGHT, self.tables[1], now[1])
        for _ in range(again):
            left, right = (store.shard(store.begin(self.version), 0) for store in self.stores)
            step = self.step(left, right, given)
            for store, run in zip(self.stores, step.runs, strict=True):
                store.commit(self.version + 1, self.version, filter(None, [run]))
        self.version += 1
        self.tables = now
        for row in map(as_tuple, step.before.to_pylist()):
            self.result.remove(row)
        self.result += map(as_tuple, step.after.to_pylist())


def as_tuple(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


prices = st.sampled_from([0.0, 1.0, 2.0, None])
# Few join keys, so that many rows share one.
row = st.tuples(st.sampled_from([*["a"] * 6, "b", None]), st.sampled_from([*[0] * 6, 1, None]), prices)
rows = st.one_of(row, row, row, st.none())
changes = st.builds(Change, st.integers(0, 1), st.integers(0, 3), rows)
batches = st.lists(st.tuples(st.lists(changes, min_size=1, max_size=5), st.integers(1, 2)), min_size=3, max_size=6)


@settings(max_examples=150)
@given(how=st.sampled_from(WAYS), further=st.booleans(), batches=batches)
def test_after_every_batch_the_result_is_that_of_the_tables_as_they_stand(
    how: str, further: bool, batches: list[tuple[list[Change], int]]
) -> None:
    running = Running(join_of(how, further=further))
    for changes, again in batches:
        running.batch(changes, again)
        assert sorted(running.result, key=repr) == joined(running.join, *running.tables)


def test_a_row_that_moves_to_another_join_key_leaves_its_old_partners_and_meets_new_ones() -> None:
    running = Running(join_of("inner"))
    running.batch([Change(0, 1, ("a", 0, 1.0)), Change(1, 7, ("a", 0, 2.0)), Change(1, 8, ("b", 0, 3.0))])
    running.batch([Change(0, 1, ("b", 0, 1.0))])
    assert running.result == [(1, "b", 0, 1.0, 8, 3.0)]


def test_a_second_partner_is_no_news_for_a_row_that_had_one() -> None:
    running = Running(join_of("full"))
    running.batch([Change(0, 1, ("a", 0, 1.0)), Change(1, 7, ("a", 0, 2.0))])
    running.batch([Change(1, 8, ("a", 0, 3.0))])
    running.batch([Change(0, 2, ("a", 0, 1.0))])
    running.batch([Change(1, 7, None), Change(0, 1, None)])
    assert running.result == [(2, "a", 0, 1.0, 8, 3.0)]


@pytest.mark.parametrize("gone", [[1], [3], [5], [1, 3]])
def test_a_row_that_loses_some_of_its_partners_still_has_one(gone: list[int]) -> None:
    semi, anti = Running(join_of("semi")), Running(join_of("anti"))
    for running in (semi, anti):
        running.batch([Change(0, 1, ("a", 0, 1.0)), *(Change(1, number, ("a", 0, 2.0)) for number in (1, 3, 5))])
        running.batch([Change(1, number, None) for number in gone])
    assert (semi.result, anti.result) == ([(1, "a", 0, 1.0)], [])


def test_rows_that_can_meet_none_are_not_kept() -> None:
    running = Running(join_of("left"))
    running.batch([Change(0, 1, (None, 0, 1.0))])
    assert running.result == [(1, None, 0, 1.0, None, None)]
    assert running.stores[0].manifest(0).shards[0].keys == 0
    running.batch([Change(0, 1, None)])
    assert running.result == []


def test_a_batch_looks_only_at_pairs_of_rows_that_it_touches() -> None:
    """One more follower of somebody with many posts, and not all followers of theirs."""
    running = Running(join_of("inner"))
    crowd = [Change(0, number, ("a", 0, 1.0)) for number in range(100)]
    posts = [Change(1, number, ("a", 0, 1.0)) for number in range(5)]
    running.batch([*crowd, *posts])
    left, right = (store.shard(store.begin(0), 0) for store in running.stores)
    step = table_join_step(running.join, left, right, (incoming(LEFT, {}, {500: (500, "a", 0, 1.0)}), None))
    assert (step.before.num_rows, step.after.num_rows) == (0, 5)
