"""Centres that learn window by window: what they are by definition, however windows are cut into batches."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import InvalidDeclaration
from headwater.flow.operators.clustering.kmeans import Model, distances, learned
from headwater.flow.operators.clustering.learning import KMeans, learning_step
from headwater.flow.state import EMPTY, HASH, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk

BY = pa.schema([("key", pa.int64())])
WORK = KMeans(BY, ("x", "y"), 2, half_life_us=20)


def test_clusters_that_lie_apart_are_found() -> None:
    random = np.random.default_rng(5)
    truth = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0], [5.0, 20.0]])
    model = None
    for minute in range(1, 11):
        points = truth[random.integers(0, 5, 400)] + random.normal(0, 0.5, (400, 2))
        model = learned(model, points, minute * 60, k=5, half_life_us=600)
    assert model is not None
    nearest = distances(model.centres, truth).argmin(axis=0)
    assert sorted(nearest.tolist()) == [0, 1, 2, 3, 4]
    assert np.abs(model.centres[nearest] - truth).max() < 0.2


def test_centres_follow_clusters_that_move_and_half_is_forgotten_in_a_half_life() -> None:
    start = learned(None, np.array([[0.0], [0.0], [8.0], [8.0]]), 0, k=2, half_life_us=10)
    assert sorted(zip(start.centres.ravel(), start.weights, strict=True)) == [(0.0, 2.0), (8.0, 2.0)]
    later = learned(start, np.array([[3.0]]), 10, k=2, half_life_us=10)
    assert sorted(zip(later.centres.ravel(), later.weights, strict=True)) == [(1.5, 2.0), (8.0, 1.0)]
    forever = learned(start, np.array([[3.0]]), 10, k=2, half_life_us=None)
    assert sorted(zip(forever.centres.ravel(), forever.weights, strict=True)) == [(1.0, 3.0), (8.0, 2.0)]


def test_a_centre_that_nothing_comes_to_any_more_becomes_a_half_of_the_largest() -> None:
    model = Model(0, np.array([[0.0], [100.0]]), np.array([1.0, 1.0]))
    later = learned(model, np.array([[0.5]] * 4), 10**6, k=2, half_life_us=1)
    assert np.allclose(later.centres, 0.5, atol=1e-6)
    assert later.weights.tolist() == pytest.approx([2.0, 2.0])


def plain(model: Any, points: list[tuple[float, float]], fade: float) -> list[Any]:
    """One window for centres that are all there: by the definition, one point after another."""
    sums = [[c[0] * w * fade, c[1] * w * fade, w * fade, 0] for c, w in model]
    for point in points:
        nearest = min(range(len(model)), key=lambda one: (math.dist(model[one][0], point) ** 2, one))
        for place, value in enumerate((*point, 1.0, 1)):
            sums[nearest][place] += value
    return [((s[0] / s[2], s[1] / s[2]), s[2]) if s[3] else (c, s[2]) for s, (c, _) in zip(sums, model, strict=True)]


coordinates = st.integers(-8, 8).map(float)
point_lists = st.lists(st.tuples(coordinates, coordinates), max_size=6)


@settings(max_examples=150)
@given(point_lists, st.integers(1, 40))
def test_a_window_moves_centres_as_defined(points: list[tuple[float, float]], elapsed: int) -> None:
    centres = [((-5.0, 0.25), 3.0), ((4.0, 4.5), 2.0), ((0.5, -6.0), 5.0)]
    model = Model(0, np.array([c for c, _ in centres]), np.array([w for _, w in centres]))
    found = learned(model, np.array(points).reshape(-1, 2), elapsed, k=3, half_life_us=10)
    expected = plain(centres, points, 0.5 ** (elapsed / 10))
    assert np.allclose(found.centres, [c for c, _ in expected])
    assert np.allclose(found.weights, [w for _, w in expected])


windows = st.lists(st.tuples(st.integers(0, 2), point_lists), max_size=12)
"""The key of each, in the order of time."""


@settings(max_examples=60, deadline=None)
@given(windows, st.data())
def test_any_cut_into_batches_gives_the_same_centres(lessons: list[tuple[int, Any]], data: st.DataObject) -> None:
    store = StateStore(DiskFiles(SimulatedDisk(), "state"), WORK.state, shards=1)
    rows = [
        {HASH: key // 2, "key": key, "window_end": 10 * place, "points": [{"x": x, "y": y} for x, y in points]}
        for place, (key, points) in enumerate(lessons, 1)
    ]
    kind = pa.list_(pa.struct({"x": pa.float64(), "y": pa.float64()}))
    schema = pa.schema([(HASH, pa.int64()), ("key", pa.int64()), ("window_end", pa.int64()), ("points", kind)])
    table: dict[Any, Any] = {}
    version = EMPTY
    while rows:
        size = data.draw(st.integers(1, len(rows)))
        some = data.draw(st.permutations(rows[:size]))
        rows = rows[size:]
        for _ in range(data.draw(st.integers(1, 2))):  # a batch may come again
            shard = store.shard(store.begin(version), 0)
            step = learning_step(shard, WORK, pa.RecordBatch.from_pylist(some, schema=schema))
        version += 1
        store.commit(version, version - 1, filter(None, [step.run]))
        for change in step.changes.to_pylist():
            key = change.pop("key"), change.pop("cluster")
            operation, before = change.pop("_op"), change.pop("_before")
            assert before == table.get(key)
            assert operation == ("u" if key in table else "c")
            table[key] = change
    expected = {}
    for name in {one for one, _ in lessons}:
        own = [
            (10 * place, [{"x": x, "y": y} for x, y in points])
            for place, (one, points) in enumerate(lessons, 1)
            if one == name
        ]
        for centre in WORK.centres(WORK.after(None, own)):
            expected[name, centre["cluster"]] = (centre["x"], centre["y"], centre["weight"])
    assert {key: (row["x"], row["y"], row["weight"]) for key, row in table.items()} == expected


@pytest.mark.parametrize(
    "window, given, said",
    [
        (hw.session("5s"), {"columns": ["x"], "k": 2}, "is of windows that overlap or depend on their rows"),
        (hw.tumbling("5s"), {"columns": [], "k": 2}, "is of columns ()"),
        (hw.tumbling("5s"), {"columns": ["weight"], "k": 2}, "not called cluster, weight, until"),
        (hw.tumbling("5s"), {"columns": "x", "k": 0}, "is to find 0 clusters"),
        (
            hw.tumbling("5s"),
            {"columns": "x", "k": 1, "half_life": "0s"},
            "the half-life of kmeans() at test_km",
        ),
    ],
)
def test_what_cannot_be_learned_is_refused_where_it_is_written(window: Any, given: Any, said: str) -> None:
    stream = hw.App("a").stream("s", "x double, weight double, at timestamp", time="at")
    with pytest.raises(InvalidDeclaration) as refused:
        stream.window(window).kmeans(**given)
    assert said in str(refused.value)
