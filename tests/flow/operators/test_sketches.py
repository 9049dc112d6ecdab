"""Sketches hold to their errors, merge to that of the union, and are read by the library whose formats they are in."""

from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from headwater.flow import sketches
from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema
from headwater.flow.operators.aggregation.kinds.approx_distinct import Hll
from headwater.flow.operators.aggregation.kinds.hashed import Bloom, CountMin
from headwater.flow.operators.aggregation.kinds.kind import Options
from headwater.flow.operators.aggregation.kinds.percentiles import Kll
from headwater.flow.operators.aggregation.kinds.top_k import Frequent
from headwater.flow.operators.aggregation.merging import absorbed, finish_all
from headwater.flow.operators.sketches import bloom, count_min, frequent, hll, kll
from headwater.flow.operators.windows.folding import fold_groups

MILLIONS = pytest.mark.parametrize(
    "count", [pytest.param(1_000_000, id="short"), pytest.param(10_000_000, id="long", marks=pytest.mark.torture)]
)
RANKS = np.array([0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999])


def hll_of(values: Any, lg_k: int = 12) -> bytes:
    sketch = datasketches.hll_sketch(lg_k, datasketches.tgt_hll_type.HLL_8)
    for value in values:
        sketch.update(value)
    return hll.of_spark(sketch.serialize_updatable())


# -- percentiles -------------------------------------------------------------------------------------------------------


@MILLIONS
def test_percentiles_of_millions_of_values_are_within_the_error_of_rank(count: int) -> None:
    values = np.random.default_rng(7).lognormal(3, 2, count)
    whole: Any = None
    for part in np.array_split(values, 500):
        one = kll.of_values(part, 200)
        assert one is not None
        whole = one if whole is None else kll.merged(whole, one)
    ordered = np.sort(values)
    found = np.searchsorted(ordered, kll.quantiles(whole, RANKS)) / count
    assert np.abs(found - RANKS).max() < kll.rank_error(200)
    assert whole.n == count
    assert len(kll.to_bytes(whole)) < 6000
    theirs = datasketches.kll_doubles_sketch.deserialize(kll.to_bytes(whole))
    assert theirs.get_quantiles(RANKS.tolist(), True) == kll.quantiles(whole, RANKS).tolist()
    assert theirs.normalized_rank_error(False) == pytest.approx(kll.rank_error(200))


def test_a_stream_that_repeats_itself_does_not_add_up_its_errors() -> None:
    part = kll.of_values(np.arange(1000.0), 200)
    assert part is not None
    whole = part
    for _ in range(2000):
        whole = kll.merged(whole, part)
    assert np.abs(kll.quantiles(whole, RANKS) / 1000 - RANKS).max() < kll.rank_error(200) + 0.001


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 10**6), max_size=400), min_size=1, max_size=6), st.integers(8, 64))
def test_any_split_of_values_has_percentiles_within_the_error(parts: list[list[int]], k: int) -> None:
    values = np.sort(np.array([float(one) for part in parts for one in part]))
    made = [one for part in parts if (one := kll.of_values(np.array(part, np.float64), k)) is not None]
    if not made:
        return
    whole = made[0]
    for one in made[1:]:
        whole = kll.merged(whole, one)
    assert (whole.n, whole.least, whole.greatest) == (len(values), values[0], values[-1])
    assert sum(len(level) << height for height, level in enumerate(whole.levels)) == len(values)
    found = kll.quantiles(whole, RANKS)
    slack = 4 * kll.rank_error(k) + 1 / len(values)
    assert (np.searchsorted(values, found, "left") / len(values) <= RANKS + slack).all()
    assert (np.searchsorted(values, found, "right") / len(values) >= RANKS - slack).all()
    assert kll.to_bytes(kll.from_bytes(kll.to_bytes(whole))) == kll.to_bytes(whole)
    theirs = datasketches.kll_doubles_sketch.deserialize(kll.to_bytes(whole))
    assert (theirs.n, theirs.num_retained) == (whole.n, sum(map(len, whole.levels)))


def test_a_sketch_that_the_library_made_is_merged_with_ours() -> None:
    theirs = datasketches.kll_doubles_sketch(200)
    for value in np.arange(5000.0):
        theirs.update(value)
    ours = kll.of_values(np.arange(5000.0, 10_000.0), 200)
    assert ours is not None
    both = kll.merged(kll.from_bytes(theirs.serialize()), ours)
    assert both.n == 10_000
    assert abs(kll.quantiles(both, np.array([0.5]))[0] - 5000) < 10_000 * 2 * kll.rank_error(200)


# -- distinct ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 1500)), min_size=1, max_size=5), st.randoms())
def test_any_split_of_values_makes_the_same_distinct_sketch(ranges: list[tuple[int, int]], order: Any) -> None:
    parts = [list(range(begin, begin + length)) for begin, length in ranges]
    everything = [value for part in parts for value in part]
    order.shuffle(everything)
    whole = hll_of([])
    for part in parts:
        order.shuffle(part)
        whole = hll.united(whole, hll_of(part), 12)
    assert whole == hll_of(everything)
    assert abs(hll.estimate(whole) - len(set(everything))) <= max(1, 5 * hll.relative_error(12) * len(everything))


def test_united_sketches_estimate_what_the_library_says_of_them() -> None:
    one, other = hll_of(range(4000)), hll_of(range(2000, 9000))
    union = datasketches.hll_union(12)
    for sketch in (one, other):
        union.update(datasketches.hll_sketch.deserialize(sketch))
    theirs = union.get_result(datasketches.tgt_hll_type.HLL_8)
    assert hll.estimate(hll.united(one, other, 12)) == round(theirs.get_estimate())


# -- frequent values ---------------------------------------------------------------------------------------------------


def zipf(count: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return np.minimum(np.random.default_rng(3).zipf(1.2, count), 10**6).astype(np.int64)


@MILLIONS
def test_counts_of_millions_of_values_are_within_the_error(count: int) -> None:
    values = zipf(count)
    lg = frequent.lg_size(1000)
    whole: Any = None
    for part in np.array_split(values, 50):
        one = frequent.of_counts(*_counts(part), lg)
        whole = one if whole is None else frequent.merged(whole, one)
    true = np.bincount(values)
    items, counts = frequent.top(whole, 20)
    exact = true[items.to_numpy()]
    assert (counts >= exact).all()
    assert (counts - exact).max() <= whole.error < 2.7 * count / 2**lg
    assert set(np.argsort(true)[::-1][:5].tolist()) <= set(items.to_pylist())
    assert len(whole.counts) <= frequent.held_max(lg)


def _counts(values: Any) -> tuple[pa.Array, Any]:
    found, counts = np.unique(values, return_counts=True)
    return pa.array(found), counts


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.float64()])
@settings(max_examples=50)
@given(parts=st.lists(st.lists(st.integers(0, 20), max_size=60), min_size=1, max_size=6))
def test_any_split_of_values_is_counted_within_the_error(kind: pa.DataType, parts: list[list[int]]) -> None:
    lg, whole = 3, None
    for part in parts:
        found, counts = np.unique(np.array(part, np.int64), return_counts=True)
        one = frequent.of_counts(pa.array(found).cast(kind), counts, lg)
        whole = one if whole is None else frequent.merged(whole, one)
    assert whole is not None
    everything = [value for part in parts for value in part]
    assert whole.n == len(everything)
    assert whole.error <= 2.7 * len(everything) / 2**lg
    upper = dict(zip(whole.values.to_pylist(), (whole.counts + whole.error).tolist(), strict=True))
    for value in set(everything):
        (named,) = pa.array([value]).cast(kind).to_pylist()
        assert 0 <= upper.get(named, whole.error) - everything.count(value) <= whole.error
    again = frequent.from_bytes(frequent.to_bytes(whole), kind)
    assert frequent.to_bytes(again) == frequent.to_bytes(whole)


def test_the_library_reads_our_frequent_strings() -> None:
    ours = frequent.of_counts(pa.array(["ä", "b", "c"]), np.array([5, 3, 9]), 8)
    theirs = datasketches.frequent_strings_sketch.deserialize(frequent.to_bytes(ours))
    found = theirs.get_frequent_items(datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES)
    assert sorted((item, estimate) for item, estimate, _, _ in found) == [("b", 3), ("c", 9), ("ä", 5)]
    assert theirs.total_weight == 17


# -- members and frequencies -------------------------------------------------------------------------------------------


def hashes(values: Any) -> tuple[Any, Any]:
    keys = [int(value).to_bytes(8, "little", signed=True) for value in values]
    first = [xxh64_intdigest(key, bloom.SEED) for key in keys]
    second = [xxh64_intdigest(key, one) for key, one in zip(keys, first, strict=True)]
    return tuple(np.array(side, np.uint64).view(np.int64) for side in (first, second))  # type: ignore[return-value]


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), min_size=1, max_size=4))
def test_any_split_makes_the_same_filter_and_nothing_that_was_there_is_denied(parts: list[list[int]]) -> None:
    shape = bloom.shape_for(100, 0.01)
    whole = bloom.filled(*hashes([]), shape)
    for part in parts:
        whole = bloom.united(whole, bloom.filled(*hashes(part), shape), shape)
    everything = [value for part in parts for value in part]
    assert whole == bloom.filled(*hashes(everything), shape)
    assert all(sketches.bloom_contains(whole, everything))


@MILLIONS
def test_a_filter_takes_others_for_its_own_no_more_often_than_promised(count: int) -> None:
    random = np.random.default_rng(1)
    mine, others = (random.integers(-(2**63), 2**63 - 1, (2, many), dtype=np.int64) for many in (count, 1_000_000))
    shape = bloom.shape_for(count, 0.01)
    whole = bloom.filled(*hashes([]), shape)
    for part in np.array_split(mine, 10, axis=1):
        whole = bloom.united(whole, bloom.filled(part[0].copy(), part[1].copy(), shape), shape)
    assert bloom.contains(whole, mine[0], mine[1]).all()
    assert bloom.contains(whole, others[0], others[1]).mean() < 0.012
    assert len(whole) == shape.bytes


@settings(max_examples=30)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "ä", "c", "d"]), max_size=20), min_size=1, max_size=4))
def test_any_split_makes_the_same_count_min_sketch(parts: list[list[str]]) -> None:
    whole = count_min.counted([], [], 64, 4)
    for part in parts:
        names = sorted(set(part))
        whole = count_min.united(whole, count_min.counted(names, [part.count(name) for name in names], 64, 4))
    everything = [value for part in parts for value in part]
    theirs = datasketches.count_min_sketch(4, 64)
    for value in everything:
        theirs.update(value)
    assert whole == theirs.serialize()
    asked = ["a", "ä", "never"]
    found = sketches.count_min_estimate(whole, asked)
    assert all(one >= everything.count(value) for one, value in zip(found, asked, strict=True))


@MILLIONS
def test_a_count_min_sketch_is_never_too_small_and_seldom_too_large(count: int) -> None:
    values = zipf(count) % 50_000
    true = np.bincount(values, minlength=50_000)
    there = np.flatnonzero(true)
    buckets, rows = count_min.shape_for(0.001, 0.99)
    whole = count_min.counted(there.tolist(), true[there].tolist(), buckets, rows)
    asked = there[:5000]
    over = np.array(sketches.count_min_estimate(whole, asked.tolist())) - true[asked]
    assert (over >= 0).all()
    assert (over > 0.001 * len(values)).mean() < 0.01


def test_what_is_no_text_or_number_is_not_asked_for() -> None:
    with pytest.raises(Exception, match=r"a sketch is asked for 1\.5\. Ask for a text or a whole number of 64 bits\."):
        sketches.bloom_contains(bloom.filled(*hashes([1]), bloom.shape_for(10, 0.1)), [1.5])  # type: ignore[list-item]


# -- as aggregates -----------------------------------------------------------------------------------------------------

OPTIONS: dict[str, tuple[pa.DataType, Options]] = {
    "percentile": (pa.float64(), Kll((0.5, 0.9), several=True)),
    "top_k": (pa.string(), Frequent(2, 8, 100)),
    "count_min": (pa.string(), CountMin(64, 4)),
    "bloom": (pa.struct({"first": pa.int64(), "second": pa.int64()}), Bloom(640, 7)),
    "distinct": (pa.int64(), Hll()),
}
EXAMPLES: dict[str, Any] = {
    "percentile": [[1.0, 2.0, 3.0, 4.0], [], None, [10.0]],
    "top_k": [["a", "b", "a"], [], None, ["b", "b", "a"]],
    "count_min": [["a", "b", "a"], [], None, ["b"]],
    "bloom": [[{"first": 1, "second": 2}], [], None, [{"first": 5, "second": 7}]],
    "distinct": [hll_of([1, 2]), None, None, hll_of([2, 3])],
}
RESULTS: dict[str, Any] = {
    "percentile": [[2.0, 4.0], None, [10.0, 10.0]],
    "top_k": [
        [{"item": "a", "count": 2}, {"item": "b", "count": 1}], [],
        [{"item": "b", "count": 2}, {"item": "a", "count": 1}],
    ],
    "distinct": [2, 0, 2],
}  # fmt: skip


@pytest.mark.parametrize("kind", OPTIONS)
def test_what_spark_makes_of_a_batch_is_absorbed_and_folded(kind: str) -> None:
    type_, options = OPTIONS[kind]
    specs = (Aggregate(kind, "z", "x", type_, options=options),)
    incoming = pa.RecordBatch.from_arrays(
        [pa.array(EXAMPLES[kind], field.type) for field in given_schema(specs)], schema=given_schema(specs)
    )
    kept = absorbed(specs, incoming)
    folded = fold_groups(specs, kept, np.array([True, True, False, True]))
    assert folded.column(0).null_count == 1, "of nothing there is nothing"
    results = finish_all(specs, folded).column(0)
    assert results.to_pylist() == RESULTS.get(kind, folded.column(0).to_pylist())
    everything = fold_groups(specs, kept, np.array([True, False, False, False]))
    assert everything.column(0).null_count == 0
    assert absorbed(specs, incoming.slice(0, 0)).num_rows == 0
