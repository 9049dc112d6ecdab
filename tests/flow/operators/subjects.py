"""Batches as Spark hands them to an operator, and the table that its changes make."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, partials, state_schema
from headwater.flow.state import HASH, StateSchema, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.log.storage.simulated import SimulatedDisk
from tests.flow.operators.reference import Row, partial

KEY = pa.schema([("key", pa.int64())])
TIME = pa.timestamp("us", "UTC")


def spec(kind: str, type: pa.DataType | None = None, **more: Any) -> Aggregate:
    column = None if type is None else "x"
    times = {"time": "at", "time_type": TIME} if kind in ("first", "last", "collect") else {}
    return Aggregate(kind, f"{kind} of x", column, type, **times, **more)


def hash_of(key: int) -> int:
    """Keys 0 and 1 share a hash."""
    return key // 2


def reduced(specs: Sequence[Aggregate], rows: Sequence[Row]) -> pa.RecordBatch:
    """One row for each key, with the partial columns."""
    keys = sorted({row.key for row in rows})
    columns: dict[str, list[Any]] = {part.name: [] for each in specs for part in partials(each)}
    for key in keys:
        mine = [row for row in rows if row.key == key]
        for each in specs:
            for part, value in zip(partials(each), partial(each, mine), strict=True):
                columns[part.name].append(value)
    arrays = [pa.array(columns[field.name], field.type) for field in state_schema(tuple(specs))]
    hashes = pa.array([hash_of(key) for key in keys], pa.int64())
    return pa.RecordBatch.from_arrays(
        [hashes, pa.array(keys, pa.int64()), *arrays], names=[HASH, "key", *state_schema(tuple(specs)).names]
    )


def new_store(values: pa.Schema) -> StateStore:
    return StateStore(DiskFiles(SimulatedDisk(), "state"), StateSchema(KEY, values), shards=1)


class Table:
    """What a sink makes of changes; it complains where they do not fit what is there."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}

    def apply(self, changes: pa.RecordBatch) -> None:
        for change in changes.to_pylist():
            operation, before, key = change.pop("_op"), change.pop("_before"), change.pop("key")
            assert repr(before) == repr(self.rows.get(key)), "before"
            assert (operation == "c") == (key not in self.rows)
            if operation == "d":
                assert set(change.values()) == {None}
                del self.rows[key]
            else:
                assert repr(change) != repr(before), "nothing changed"
                self.rows[key] = change


def as_table(content: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    return {key: dict(values) for key, values in content.items()}
