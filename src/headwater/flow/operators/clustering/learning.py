"""One batch of windows on one shard of models: learn from them in the order of time, and say which centres changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.clustering.kmeans import Model, learned
from headwater.flow.operators.keyed import Step
from headwater.flow.state.manifest import HASH, StateSchema
from headwater.flow.state.shard import Found, ShardState, conformed

END, POINTS = "window_end", "points"
CLUSTER, WEIGHT, UNTIL = "cluster", "weight", "until"
ONLY = "_model"
"""The key of a model that is there once."""
MOMENT = pa.timestamp("us", "UTC")
KEPT = pa.schema(
    [(UNTIL, pa.int64()), ("centres", pa.list_(pa.list_(pa.float64()))), ("weights", pa.list_(pa.float64()))]
)


@dataclass(frozen=True)
class KMeans:
    """Centres in `columns`, for each key of `by`."""

    by: pa.Schema
    columns: tuple[str, ...]
    k: int
    half_life_us: int | None

    @property
    def own_key(self) -> pa.Schema:
        return self.by if self.by.names else pa.schema([(ONLY, pa.int32())])

    @property
    def state(self) -> StateSchema:
        return StateSchema(self.own_key, KEPT)

    @property
    def key(self) -> pa.Schema:
        return pa.schema([*self.by, pa.field(CLUSTER, pa.int32())])

    @property
    def values(self) -> pa.Schema:
        numbers = [pa.field(name, pa.float64()) for name in (*self.columns, WEIGHT)]
        return pa.schema([*numbers, pa.field(UNTIL, MOMENT)])

    def after(self, model: Model | None, windows: Iterable[tuple[int, Any]]) -> Model | None:
        """The model after windows that are in the order of time: the end of each, and its points."""
        for end, rows in windows:
            points = np.array([[row[name] for name in self.columns] for row in rows or ()], np.float64)
            points = points.reshape(-1, len(self.columns))
            model = learned(model, points, end, k=self.k, half_life_us=self.half_life_us)
        return model

    def centres(self, model: Model | None) -> list[dict[str, Any]]:
        """A row for each centre."""
        if model is None:
            return []
        return [
            {CLUSTER: place, **dict(zip(self.columns, centre.tolist(), strict=True)), WEIGHT: float(weight)}
            | {UNTIL: model.until_us}
            for place, (centre, weight) in enumerate(zip(model.centres, model.weights, strict=True))
        ]


def learning_step(state: ShardState, work: KMeans, rows: pa.RecordBatch) -> Step:
    """`rows` has `_hash`, the key, and of windows that are complete `window_end` and `points`, each window once."""
    names = work.own_key.names
    by_key: dict[tuple[Any, ...], list[int]] = {}
    keys = list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))
    for place, key in enumerate(keys):
        by_key.setdefault(key, []).append(place)
    firsts = pa.array([places[0] for places in by_key.values()], pa.int64())
    own, hashes = conformed(rows.take(firsts), work.own_key), rows.column(HASH).take(firsts)
    found = state.lookup(hashes.to_numpy(), own)
    before = models_of(found, len(work.columns))
    ends, points = rows.column(END).to_pylist(), rows.column(POINTS).to_pylist()
    after = [
        work.after(model, sorted(((ends[place], points[place]) for place in places), key=lambda one: one[0]))
        for model, places in zip(before, by_key.values(), strict=True)
    ]
    run = state.write(_kept(hashes, own, after), existed=found.mask)
    return Step(_changes(work, own, before, after), run)


def models_of(found: Found, dimensions: int) -> list[Model | None]:
    return [
        Model(
            row[UNTIL],
            np.array(row["centres"], np.float64).reshape(-1, dimensions),
            np.array(row["weights"], np.float64),
        )
        if there
        else None
        for row, there in zip(found.values.to_pylist(), found.mask.tolist(), strict=True)
    ]


def _kept(hashes: pa.Array, own: pa.RecordBatch, models: list[Model | None]) -> pa.RecordBatch:
    rows = [
        {UNTIL: model.until_us, "centres": model.centres.tolist(), "weights": model.weights.tolist()}
        for model in models
        if model is not None
    ]
    kept = pa.RecordBatch.from_pylist(rows, schema=KEPT)
    schema = pa.schema([pa.field(HASH, pa.int64()), *own.schema, *KEPT])
    return pa.RecordBatch.from_arrays([hashes, *own.columns, *kept.columns], schema=schema)


def _changes(
    work: KMeans, own: pa.RecordBatch, before: list[Model | None], after: list[Model | None]
) -> pa.RecordBatch:
    """Centres only become more, so that those after are all there are."""
    old, new = ([work.centres(model) for model in side] for side in (before, after))
    places = [number for number, rows in enumerate(new) for _ in rows]
    now = [row for rows in new for row in rows]
    then = [row for rows, them in zip(old, new, strict=True) for row in [*rows, *[None] * (len(them) - len(rows))]]
    by = own.select(work.by.names).take(pa.array(places, pa.int64()))
    clusters = pa.array([row[CLUSTER] for row in now], pa.int32())
    keys = pa.RecordBatch.from_arrays([*by.columns, clusters], schema=work.key)
    existed = np.array([row is not None for row in then], np.bool_)
    return merge_changes(keys, existed, _values(work, then), np.ones(len(now), np.bool_), _values(work, now))


def _values(work: KMeans, rows: list[Any]) -> pa.RecordBatch:
    columns = [pa.array([row and row[field.name] for row in rows], _plain(field.type)) for field in work.values]
    arrays = [column.cast(field.type) for column, field in zip(columns, work.values, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=work.values)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind
