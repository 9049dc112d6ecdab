"""Any split of rows into batches, in any order, each run any number of times, gives what one batch of all gives."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.operators.aggregation.aggregates import Aggregate, state_schema
from headwater.flow.operators.keyed import Step, aggregate_step, latest_step
from headwater.flow.operators.latest import Latest
from headwater.flow.state import HASH, StateStore
from tests.flow.operators.reference import Row, result
from tests.flow.operators.subjects import TIME, Table, hash_of, new_store, reduced, spec

PAIR = pa.struct({"a": pa.int64(), "b": pa.string()})
cents = st.integers(-99_999, 99_999).map(lambda number: Decimal(number).scaleb(-2))
# Halves add up without rounding, so that the order of additions does not show.
halves = st.integers(-9, 9).map(lambda number: number / 2) | st.just(float("nan"))
pairs = st.builds(lambda a, b: {"a": a, "b": b}, st.none() | st.integers(0, 2), st.sampled_from("xy"))
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any], str]] = [
    (pa.int64(), st.integers(-1000, 1000), "count sum avg min max first last collect collect_set"),
    (pa.int32(), st.integers(-1000, 1000), "sum avg min collect_set"),
    (pa.float64(), halves, "sum avg min max collect_set"),
    (pa.decimal128(7, 2), cents, "sum avg min max last"),
    (pa.string(), st.sampled_from(["", "a", "ä", "b", "a" * 20]), "count min max first collect collect_set"),
    (pa.bool_(), st.booleans(), "min max collect_set"),
    (PAIR, pairs, "min max collect_set last"),
    (pa.list_(pa.int64()), st.lists(st.integers(0, 2), max_size=2), "count first last collect"),
]


@st.composite
def workloads(draw: st.DrawFn) -> tuple[tuple[Aggregate, ...], list[list[Row]], list[int]]:
    kind, values, names = draw(st.sampled_from(VALUES))
    aggregates = st.lists(st.sampled_from(names.split()), min_size=1, max_size=3, unique=True)
    specs = tuple(spec(name, kind) for name in draw(aggregates))
    given_rows = st.tuples(st.integers(0, 4), st.none() | values, st.none() | st.integers(0, 5))
    rows = [Row(key, x, time, offset) for offset, (key, x, time) in enumerate(draw(st.lists(given_rows, max_size=25)))]
    shuffled = draw(st.permutations(rows))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    batches = [shuffled[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    return specs, batches, draw(st.lists(st.integers(1, 3), min_size=len(batches), max_size=len(batches)))


def run(store: StateStore, version: int, step: Callable[..., Step], *arguments: Any) -> Step:
    done = step(store.shard(store.begin(version - 1), 0), *arguments)
    store.commit(version, version - 1, filter(None, [done.run]))
    return done


def times(rows: list[Row]) -> list[Row]:
    """The same rows with times as pyarrow gives them back."""
    zero = datetime.datetime.fromtimestamp(0, datetime.UTC)
    return [row if row.time is None else row._replace(time=zero + datetime.timedelta(seconds=row.time)) for row in rows]


@given(workloads())
def test_any_split_into_batches_gives_the_same_results(
    workload: tuple[tuple[Aggregate, ...], list[list[Row]], list[int]],
) -> None:
    specs, batches, repeats = workload
    batches = [times(batch) for batch in batches]
    store, table = new_store(state_schema(specs)), Table()
    for version, (batch, often) in enumerate(zip(batches, repeats, strict=True)):
        incoming = reduced(specs, batch)
        steps = [run(store, version, aggregate_step, specs, incoming) for _ in range(often)]
        assert all(again.changes.equals(steps[0].changes) or "nan" in str(again.changes.to_pydict()) for again in steps)
        table.apply(steps[0].changes)
    rows = [row for batch in batches for row in batch]
    keys = sorted({row.key for row in rows})
    expected = {
        key: {each.name: result(each, [row for row in rows if row.key == key]) for each in specs} for key in keys
    }
    assert repr(dict(sorted(table.rows.items()))) == repr(expected)


LATEST = Latest(pa.schema([("at", TIME), ("offset", pa.int64())]), pa.schema([("x", pa.string())]))


def newest(rows: list[Row]) -> Row:
    def place(row: Row) -> tuple[bool, Any, int]:
        return row.time is not None, row.time or 0, row.offset

    return max(rows, key=place)


def latest_rows(rows: list[Row]) -> pa.RecordBatch:
    kept = [newest([row for row in rows if row.key == key]) for key in sorted({row.key for row in rows})]
    columns = {
        HASH: pa.array([hash_of(row.key) for row in kept], pa.int64()),
        "key": pa.array([row.key for row in kept], pa.int64()),
        "_order_at": pa.array([row.time for row in kept], TIME),
        "_order_offset": pa.array([row.offset for row in kept], pa.int64()),
        "x": pa.array([row.x for row in kept], pa.string()),
        "_gone": pa.array([row.x is None for row in kept], pa.bool_()),
    }
    return pa.RecordBatch.from_pydict(columns)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.none() | st.sampled_from("ab"), st.none() | st.integers(0, 4)), max_size=20
    ),
    st.lists(st.integers(0, 20), max_size=5),
    st.randoms(use_true_random=False),
    st.integers(1, 2),
)
def test_the_latest_row_is_the_same_however_rows_arrive(
    given_rows: list[tuple[int, str | None, int | None]], cuts: list[int], random: Any, often: int
) -> None:
    rows = [Row(key, x, time, offset) for offset, (key, x, time) in enumerate(given_rows)]
    shuffled = random.sample(rows, len(rows))
    store, table = new_store(LATEST.state), Table()
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for version, (begin, end) in enumerate(pairwise(places)):
        incoming = latest_rows(shuffled[begin:end])
        steps = [run(store, version, latest_step, LATEST, incoming) for _ in range(often)]
        assert all(step.changes.equals(steps[0].changes) for step in steps)
        table.apply(steps[0].changes)
    final = [newest([row for row in rows if row.key == key]) for key in sorted({row.key for row in rows})]
    assert dict(sorted(table.rows.items())) == {row.key: {"x": row.x} for row in final if row.x is not None}


def test_a_row_that_is_not_newer_changes_nothing_and_writes_nothing() -> None:
    store = new_store(LATEST.state)
    run(store, 0, latest_step, LATEST, latest_rows([Row(1, "new", 5, 5)]))
    for stale in (Row(1, "old", 4, 9), Row(1, "tie", 5, 4), Row(1, "again", 5, 5), Row(1, None, 1, 1)):
        done = run(store, 1, latest_step, LATEST, latest_rows([stale]))
        assert (done.changes.num_rows, done.run) == (0, None)


def test_an_older_row_does_not_bring_a_deleted_key_back() -> None:
    store = new_store(LATEST.state)
    steps = [
        run(store, version, latest_step, LATEST, latest_rows([row]))
        for version, row in enumerate([Row(1, "a", 1, 1), Row(1, None, 5, 5), Row(1, "late", 3, 9), Row(1, "b", 6, 10)])
    ]
    assert [step.changes.column("_op").to_pylist() for step in steps] == [["c"], ["d"], [], ["c"]]


def test_deleting_what_was_never_there_says_nothing_but_is_remembered() -> None:
    store = new_store(LATEST.state)
    first = run(store, 0, latest_step, LATEST, latest_rows([Row(1, None, 5, 5)]))
    second = run(store, 1, latest_step, LATEST, latest_rows([Row(1, "late", 4, 6)]))
    assert (first.changes.num_rows, second.changes.num_rows) == (0, 0)
    assert first.run is not None


def test_a_key_whose_result_did_not_change_says_nothing_though_its_state_is_kept() -> None:
    highest = (spec("max", pa.int64()),)
    store = new_store(state_schema(highest))
    incoming = [reduced(highest, [Row(1, value, None, value)]) for value in (5, 3, 7)]
    steps = [run(store, version, aggregate_step, highest, rows) for version, rows in enumerate(incoming)]
    assert [step.changes.num_rows for step in steps] == [1, 0, 1]
    assert steps[2].changes.to_pylist() == [{"_op": "u", "key": 1, "max of x": 7, "_before": {"max of x": 5}}]
