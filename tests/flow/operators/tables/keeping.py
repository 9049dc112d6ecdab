"""A table kept by an operator, batch by batch, as tasks keep it: prepared, sent to shards, worked on, committed.

What it emits is added up to a table; each change has to fit what was there. A row that goes to another shard is told by
both.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.exchange.blocks import Inputs
from headwater.flow.operators.joins.emission import AFTER_SIDE, BEFORE_SIDE, SIDE
from headwater.flow.rows.prepared_blocks import Prepare
from headwater.flow.state import EMPTY, HASH, StateStore
from headwater.flow.state.files import DiskFiles
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.shard import ShardState, shard_of
from headwater.log.storage.simulated import SimulatedDisk

SHARDS = 2
Row = tuple[Any, ...]
Content = dict[Any, Row]
"""Rows of a table by their key."""
Emitted = tuple[Iterable[dict[str, Any]], Mapping[str, RunInfo | None]]
"""Rows with `_side`, and the runs of each store."""
Step = Callable[[Mapping[str, ShardState], Inputs, int], Emitted]


class Keeping:
    """`parts` are its stores, `schemas` the columns of its inputs, `key` names columns of the result."""

    def __init__(
        self, step: Step, parts: Mapping[str, StateSchema], prepares: Sequence[Prepare], schemas: Sequence[pa.Schema],
        key: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._step, self._prepares, self._schemas, self._key = step, prepares, schemas, key
        disk = SimulatedDisk()
        self._stores = {
            name: StateStore(DiskFiles(disk, f"state{name}"), schema, shards=SHARDS) for name, schema in parts.items()
        }
        self._version = 0
        self.result: dict[Row, dict[str, Any]] = {}

    def batch(self, changed: Sequence[tuple[list[Row], list[Row]]], times: int = 1) -> None:
        """Rows that are no longer and rows that are, of each input; a batch may come again."""
        emitted: list[dict[str, Any]] = []
        for _ in range(times):
            emitted = self._run(changed)
        self._version += 1
        for row in (one for one in emitted if one[SIDE] == BEFORE_SIDE):
            assert self.result.pop(self._key_of(row), None) == _plain(row), row
        for row in (one for one in emitted if one[SIDE] == AFTER_SIDE):
            assert self.result.setdefault(self._key_of(row), _plain(row)) == _plain(row), row

    def _run(self, changed: Sequence[tuple[list[Row], list[Row]]]) -> list[dict[str, Any]]:
        prepared = [
            None if not (was or is_) else prepare.prepare(_sided(schema, was, is_)).rows
            for prepare, schema, (was, is_) in zip(self._prepares, self._schemas, changed, strict=True)
        ]
        emitted: list[dict[str, Any]] = []
        version, runs = self._version + EMPTY, dict[str, list[RunInfo]]()
        handles = {name: store.begin(version) for name, store in self._stores.items()}
        for shard in range(SHARDS):
            given = [None if rows is None else _of_shard(rows, shard) for rows in prepared]
            if all(rows is None for rows in given):
                continue
            states = {name: self._stores[name].shard(handle, shard) for name, handle in handles.items()}
            rows, written = self._step(states, given, shard)
            emitted += rows
            for name, run in written.items():
                runs.setdefault(name, []).extend([run] if run else [])
        for name, store in self._stores.items():
            store.commit(self._version, version, runs.get(name, []))
        return emitted

    def _key_of(self, row: Mapping[str, Any]) -> Row:
        return tuple(row[name] for name in self._key)


def _sided(schema: pa.Schema, was: list[Row], is_: list[Row]) -> pa.RecordBatch:
    rows = [
        {**dict(zip(schema.names, row, strict=True)), SIDE: side}
        for side, several in ((BEFORE_SIDE, was), (AFTER_SIDE, is_))
        for row in several
    ]
    return pa.RecordBatch.from_pylist(rows, schema.append(pa.field(SIDE, pa.int32())))


def _of_shard(rows: pa.RecordBatch, shard: int) -> pa.RecordBatch | None:
    own = rows.filter(pc.equal(pa.array(shard_of(rows.column(HASH).to_numpy(), SHARDS)), shard))
    return own if own.num_rows else None


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != SIDE}


def sides_of(changes: pa.RecordBatch) -> list[dict[str, Any]]:
    """Both sides of changes, as rows."""
    found = []
    for change in changes.to_pylist():
        operation, before = change.pop("_op"), change.pop("_before")
        if operation != "c":
            found.append({**change, **before, SIDE: BEFORE_SIDE})
        if operation != "d":
            found.append({**change, SIDE: AFTER_SIDE})
    return found


def difference(before: Content, after: Content) -> tuple[list[Row], list[Row]]:
    """Both sides of what changed of a table."""
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [before[key] for key in changed if key in before], [after[key] for key in changed if key in after]


def answer(query: str, tables: Mapping[str, tuple[str, Iterable[Row]]]) -> list[Row]:
    """SQLite's, over tables with their columns."""
    with sqlite3.connect(":memory:") as connection:
        for name, (columns, rows) in tables.items():
            connection.execute(f"create table {name} ({columns})")
            places = ", ".join("?" * len(columns.split(",")))
            connection.executemany(f"insert into {name} values ({places})", list(rows))
        return connection.execute(query).fetchall()
