"""Tables that are joined: what tasks do with changes, against plain dictionaries."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.flow.operate.reports import Operator
from headwater.flow.operators.changes import BEFORE, OPERATION, change_schema
from headwater.flow.operators.joins.emission import moved_together, paired_changes
from headwater.flow.operators.joins.tables import AFTER, ROW, Side
from headwater.flow.operators.latest import GONE, Latest
from headwater.flow.operators.spark_hashes import xxhash64
from headwater.flow.prepare.join_sides import PrepareTable
from headwater.flow.prepare.newest_rows import newest_of
from headwater.flow.rows.result_rows import both_sides
from headwater.flow.state.manifest import HASH

ORDER = pa.schema([("_at_partition", pa.int32()), ("_at_offset", pa.int64())])
KEY = pa.schema([("id", pa.int64())])
VALUES = pa.schema([("k", pa.string()), ("v", pa.float64())])
TABLE = Operator("rows", KEY, Latest(ORDER, VALUES))
COLUMNS = pa.schema([*KEY, *VALUES])
SIDE = Side(COLUMNS, ("id",), ("k",))
GIVEN = pa.schema([(HASH, pa.int64()), *KEY, *TABLE.state.values])
ORDER_PARTITION, ORDER_OFFSET = "_order__at_partition", "_order__at_offset"

names = st.sampled_from(["a", "b", None])
values = st.tuples(names, st.sampled_from([0.0, 1.5, float("nan"), None]))
contents = st.dictionaries(st.integers(0, 4), values, max_size=5)
Content = dict[int, tuple[str | None, float | None]]
Row = dict[str, Any]


def newest_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    assert isinstance(TABLE.work, Latest)
    return newest_of(TABLE.work, TABLE.key, rows)


def prepared_sides(changes: pa.RecordBatch, *, keeps: bool) -> list[pa.RecordBatch]:
    """Rows that are no longer and rows that are, as a join is given them."""
    prepare = PrepareTable(SIDE, keeps_nulls=keeps)
    return [prepare.prepare(rows).rows for rows in both_sides(changes, tuple(KEY.names))]


def batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def sayable(rows: list[Row]) -> list[str]:
    """In any order; a value that is no number is equal to itself."""
    return sorted(repr(sorted(row.items())) for row in rows)


@settings(max_examples=80, deadline=None)
@given(ids=st.lists(st.integers(0, 5), min_size=1, max_size=14), chance=st.randoms(use_true_random=False))
def test_of_rows_of_a_key_the_one_that_lies_last_is_the_newest(ids: list[int], chance: Random) -> None:
    places = [(partition, offset) for partition in range(2) for offset in range(10)]
    chance.shuffle(places)
    rows: list[Row] = [
        # Different keys have one hash, some of the time.
        {HASH: one % 3, "id": one, ORDER_PARTITION: partition, ORDER_OFFSET: offset, "v": float(number), GONE: False}
        for number, (one, (partition, offset)) in enumerate(zip(ids, places, strict=False))
    ]
    newest: dict[int, Row] = {}
    for row in rows:
        place = (row[ORDER_PARTITION], row[ORDER_OFFSET])
        known = newest.get(row["id"])
        if known is None or place > (known[ORDER_PARTITION], known[ORDER_OFFSET]):
            newest[row["id"]] = row
    found = newest_rows(batch(rows, GIVEN)).to_pylist()
    assert sayable(found) == sayable(batch([*newest.values()], GIVEN).to_pylist())


def changes_between(before: Content, after: Content) -> list[Row]:
    found: list[Row] = []
    for one in sorted({*before, *after}):
        was, is_ = before.get(one), after.get(one)
        if repr(was) == repr(is_):
            continue
        operation = "c" if was is None else "d" if is_ is None else "u"
        k, v = is_ or (None, None)
        old = None if was is None else {"k": was[0], "v": was[1]}
        found.append({OPERATION: operation, "id": one, "k": k, "v": v, BEFORE: old})
    return found


def rows_of(content: Content, changed: set[int]) -> list[Row]:
    return [{"id": one, "k": k, "v": v} for one, (k, v) in sorted(content.items()) if one in changed]


@settings(max_examples=80, deadline=None)
@given(before=contents, after=contents, keeps=st.booleans())
def test_a_change_is_the_row_that_was_and_the_row_that_is(before: Content, after: Content, keeps: bool) -> None:
    emitted = changes_between(before, after)
    changed = {change["id"] for change in emitted}
    sides = prepared_sides(batch(emitted, change_schema(KEY, VALUES)), keeps=keeps)
    for content, rows, is_after in zip((before, after), sides, (False, True), strict=True):
        wanted = [row for row in rows_of(content, changed) if keeps or row["k"] is not None]
        assert sayable(rows.select(COLUMNS.names).to_pylist()) == sayable(wanted)
        assert rows.column(AFTER).to_pylist() == [is_after] * len(wanted)
        own = xxhash64([rows.column("id")], rows.num_rows)
        assert rows.column(ROW).to_pylist() == [int(one) >> 1 for one in own]


def test_rows_that_are_joined_on_the_same_come_to_the_same_shard_and_those_on_nothing_do_not() -> None:
    nobody: Content = dict.fromkeys(range(10, 40), (None, None))
    after: Content = {number: ("ab"[number % 2], None) for number in range(10)} | nobody
    emitted = batch(changes_between({}, after), change_schema(KEY, VALUES))
    _, rows = prepared_sides(emitted, keeps=True)
    hashes = rows.column(HASH).to_numpy()
    assert len({*hashes[:10:2].tolist()}) == len({*hashes[1:10:2].tolist()}) == 1
    assert hashes[0] != hashes[1]
    assert len({*hashes[10:].tolist()}) == 30, "each by its own key"


PAIRS = pa.schema([("id", pa.int64()), ("n", pa.string()), ("v", pa.float64())])
pairs = st.dictionaries(st.tuples(st.integers(0, 3), names), st.sampled_from([1.5, float("nan"), None]), max_size=6)
Pairs = dict[tuple[int, str | None], float | None]


def pair_rows(content: Pairs) -> list[Row]:
    return [{"id": one, "n": n, "v": v} for (one, n), v in content.items()]


@settings(max_examples=80, deadline=None)
@given(before=pairs, after=pairs)
def test_results_that_were_and_results_that_are_become_changes(before: Pairs, after: Pairs) -> None:
    found = paired_changes(batch(pair_rows(before), PAIRS), batch(pair_rows(after), PAIRS), ("id", "n"))
    wanted = []
    for one, n in {**before, **after}:
        was, is_ = before.get((one, n)), after.get((one, n))
        existed, exists = (one, n) in before, (one, n) in after
        if existed and exists and repr(was) == repr(is_):
            continue
        operation = "u" if existed and exists else "c" if exists else "d"
        wanted.append({OPERATION: operation, "id": one, "n": n, "v": is_, BEFORE: {"v": was} if existed else None})
    assert sayable(found.to_pylist()) == sayable(wanted)


EMITTED = pa.schema([(OPERATION, pa.string()), *PAIRS])


@settings(max_examples=80, deadline=None)
@given(before=pairs, after=pairs, shards=st.integers(1, 3), chance=st.randoms(use_true_random=False))
def test_a_row_that_one_shard_has_lost_and_another_has_won_was_updated(
    before: Pairs, after: Pairs, shards: int, chance: Random
) -> None:
    wanted: dict[tuple[int, str | None], str] = {}
    emitted: list[list[Row]] = [[] for _ in range(shards)]
    for one, n in {**before, **after}:
        existed, exists, own = (one, n) in before, (one, n) in after, {"id": one, "n": n}
        wanted[one, n] = "u" if existed and exists else "c" if exists else "d"
        here, there = (chance.randrange(shards) for _ in range(2))
        if existed and exists and here == there:
            emitted[here].append({OPERATION: "u", **own, "v": after[one, n]})
            continue
        if existed:
            emitted[here].append({OPERATION: "d", **own, "v": None})
        if exists:
            emitted[there].append({OPERATION: "c", **own, "v": after[one, n]})
    changes = pa.Table.from_batches([batch(rows, EMITTED) for rows in emitted])
    found = moved_together(changes, ("id", "n")).to_pylist()
    made = [{OPERATION: said, "id": one, "n": n, "v": after.get((one, n))} for (one, n), said in wanted.items()]
    assert sayable(found) == sayable(made)


@pytest.mark.parametrize("count", [0, 3])
def test_changes_of_which_none_has_moved_are_given_on_as_they_are(count: int) -> None:
    changes = pa.Table.from_batches([batch([{OPERATION: "d", "id": one} for one in range(count)], EMITTED)])
    assert moved_together(changes, ("id", "n")) is changes


def test_rows_that_are_all_of_different_keys_are_not_copied() -> None:
    columns = {HASH: np.arange(3), "id": np.arange(3), ORDER_PARTITION: np.zeros(3), ORDER_OFFSET: np.arange(3)}
    rows = batch([{name: int(column[place]) for name, column in columns.items()} for place in range(3)], GIVEN)
    assert newest_rows(rows) is rows
