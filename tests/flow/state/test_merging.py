from hypothesis import given
from hypothesis import strategies as st

from headwater.flow.state import RunInfo, plan_merge
from headwater.flow.state.manifest import Manifest, Shard
from headwater.flow.state.runs.merge_plan import RUNS_MAX, SMALL_BYTES, absorbed, span_to_merge, weight
from tests.flow.state.subjects import SCHEMA


def run(name: str, size: int) -> RunInfo:
    return RunInfo(0, name, size, size * SMALL_BYTES, 0, 0, 0)


def manifest(*shards: list[int]) -> Manifest:
    runs = (
        tuple(run(f"{number}-{place}", size) for place, size in enumerate(sizes)) for number, sizes in enumerate(shards)
    )
    return Manifest(1, 0, "", SCHEMA, tuple(Shard(0, named) for named in runs))


def test_a_write_takes_in_three_runs_of_its_size() -> None:
    assert absorbed([1000, 10, 10, 10], 10) == 3
    assert absorbed([1000, 10, 10], 10) == 0


def test_a_write_that_becomes_large_enough_takes_in_the_next_size_too() -> None:
    assert absorbed([1000, 40, 40, 40, 10, 10, 10], 10) == 6


def test_a_write_never_merges_more_than_its_bound() -> None:
    assert absorbed([40, 40, 40, 10, 10, 10], 10, limit=100) == 3
    assert absorbed([10, 10, 10], 10, limit=39) == 0


def test_the_bound_gives_way_where_nobody_merges_beside_the_batches() -> None:
    sizes: list[int] = []
    for _ in range(200):
        taken = absorbed(sizes, 10, limit=0)
        sizes = [*sizes[: len(sizes) - taken], 10 + sum(sizes[len(sizes) - taken :])]
    assert len(sizes) <= RUNS_MAX


def test_an_empty_shard_needs_no_merging() -> None:
    assert absorbed([], 10) == 0
    assert span_to_merge([]) is None


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=300))
def test_runs_stay_few_whatever_is_written(writes: list[int]) -> None:
    sizes: list[int] = []
    for incoming in writes:
        taken = absorbed(sizes, incoming)
        sizes = [*sizes[: len(sizes) - taken], incoming + sum(sizes[len(sizes) - taken :])]
    assert len(sizes) <= 3 * 18  # at most three of a size, and there are fewer than 18 doublings from 1 to 300,000


@given(st.lists(st.integers(1, 20), min_size=200, max_size=400))
def test_merging_beside_the_batches_keeps_runs_few_and_rewrites_little(writes: list[int]) -> None:
    sizes: list[int] = []
    rewritten = 0
    for incoming in writes:
        sizes.append(incoming)
        if span := span_to_merge(sizes):
            merged = sum(sizes[slice(*span)])
            rewritten += merged
            sizes = [*sizes[: span[0]], merged, *sizes[span[1] :]]
    assert len(sizes) <= 24
    assert rewritten <= 12 * sum(writes)


def test_runs_of_a_size_side_by_side_are_merged_first_where_most_is_gained() -> None:
    planned = plan_merge(manifest([1000, 10, 10, 10, 10], [1], [5, 5, 5, 5, 5, 5]))
    assert [(plan.shard, [r.name for r in plan.runs], plan.reaches_oldest) for plan in planned] == [
        (2, [f"2-{place}" for place in range(6)], True),
        (0, ["0-1", "0-2", "0-3", "0-4"], False),
    ]


def test_a_plan_touches_no_busy_run() -> None:
    assert plan_merge(manifest([1000, 10, 10, 10, 10]), busy={"0-3"}) == []


def test_all_small_runs_are_of_one_size() -> None:
    assert weight(1) == weight(SMALL_BYTES) < weight(SMALL_BYTES + 1)
