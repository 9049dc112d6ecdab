"""What a task does with its part of a batch of a join: bring the changed rows of both sides together with what is kept.

State has a part for each side, in a store of its own: `<operator>.left`, `<operator>.right`. Pairs of keys with very
many rows are made by several tasks (hot_key_slices.py), each of a slice; only the shard's task writes, and reports.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.joins.hot_key_slices import SLICE
from headwater.flow.joins.join_rows import WHICH, flat_name, row_column
from headwater.flow.operate.reports import COMMIT, ShardReport, by_shard, with_report, without_report
from headwater.flow.operators.changes import change_schema
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.operators.joins.splitting import HOT_ROWS, LEFT, RIGHT, owner_step, slice_bounds, slice_step
from headwater.flow.operators.joins.tables import AFTER, ALL_ROWS, ROW, Bounds, JoinStep, TableJoin
from headwater.flow.state.manifest import HASH, StateSchema
from headwater.flow.state.shard import ShardState, StateHandle

PARTS = ("left", "right")
SIDE = "_side"
BESIDE = (HASH, ROW, AFTER)
"""What rows of a table have with them."""
Given = tuple[pa.RecordBatch | None, pa.RecordBatch | None]


@dataclass(frozen=True)
class TableJoinOperator:
    """`key` names columns of the result."""

    name: str
    key: tuple[str, ...]
    work: TableJoin
    hot: tuple[HotKey, ...] = ()
    """Keys that are split in this batch."""
    hot_rows: int = HOT_ROWS

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return {"left": self.work.left.state, "right": self.work.right.state}

    @property
    def fingerprint(self) -> str:
        sides = [(side.key, side.on) for side in (self.work.left, self.work.right)]
        return hashlib.sha256(f"join {sides}".encode()).hexdigest()[:16]

    @property
    def output(self) -> pa.Schema:
        """The changes that come of it."""
        columns = self.work.pairing.columns
        values = pa.schema([field for field in columns if field.name not in self.key])
        changes = change_schema(pa.schema([columns.field(name) for name in self.key]), values)
        return changes.append(pa.field(COMMIT, pa.string()))

    @property
    def told(self) -> pa.Schema:
        """What tasks tell: rows that are no longer and rows that are, apart by `_side`."""
        return self.work.pairing.columns.append(pa.field(SIDE, pa.int32())).append(pa.field(COMMIT, pa.string()))


@dataclass(frozen=True)
class TableJoinTask:
    operator: TableJoinOperator
    handles: Mapping[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handles = [StateHandle.from_json(self.handles[part]) for part in PARTS]
        for shard, rows in by_shard(batches, handles[0].shards):
            left, right = (ShardState(handle, shard) for handle in handles)
            for number, part in slices_in(rows):
                given = side_rows(part, 0, BESIDE), side_rows(part, 1, BESIDE)
                if number is None:
                    yield from self._shard(shard, left, right, given)
                else:
                    yield from self._slice(slice_bounds(number, handles[0].shards), left, right, given)

    def _shard(self, shard: int, left: ShardState, right: ShardState, given: Given) -> Iterator[pa.RecordBatch]:
        step, told = self.worked(shard, left, right, given)
        yield with_report(marked(step.before, 0), told[0], self.operator.told)
        yield with_report(marked(step.after, 1), told[1], self.operator.told)

    def worked(
        self, shard: int, left: ShardState, right: ShardState, given: Given
    ) -> tuple[JoinStep, list[ShardReport]]:
        """What a shard makes of its rows, and what is to be told of each part of the state."""
        operator = self.operator
        step, hot = owner_step(operator.work, left, right, given, operator.hot, operator.hot_rows)
        told = [
            ShardReport(operator.name, shard, 0, (run,) if run else (), part=part)
            for part, run in zip(PARTS, step.runs, strict=True)
        ]
        return step, [replace(told[0], hot=hot), told[1]]

    def _slice(self, own: Bounds, left: ShardState, right: ShardState, given: Given) -> Iterator[pa.RecordBatch]:
        """Keys whose left is split, and those whose right is."""
        for side, bounds in ((LEFT, (own, ALL_ROWS)), (RIGHT, (ALL_ROWS, own))):
            hashes = pa.array([one.hash for one in self.operator.hot if one.side == side], pa.int64())
            ours, theirs = (
                None if rows is None else rows.filter(pc.is_in(rows.column(HASH), hashes)) for rows in given
            )
            before, after = slice_step(self.operator.work, left, right, (ours, theirs), bounds)
            yield without_report(marked(before, 0), self.operator.told)
            yield without_report(marked(after, 1), self.operator.told)


def slices_in(rows: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Rows of a shard that are its own, and those of each slice."""
    if SLICE not in rows.schema.names:
        yield None, rows
        return
    slices = rows.column(SLICE)
    for number in pc.unique(slices).to_pylist():
        wanted = slices.is_null() if number is None else pc.fill_null(pc.equal(slices, number), False)
        yield number, rows.filter(wanted)


def side_rows(rows: pa.RecordBatch | None, side: int, beside: tuple[str, ...]) -> pa.RecordBatch | None:
    """Rows of one side as they were, and some columns beside them."""
    if rows is None:
        return None
    mine = np.flatnonzero(rows.column(WHICH).to_numpy() == side)
    if not len(mine):
        return None
    before = flat_name(row_column(side), "")
    own = [name for name in rows.schema.names if name.startswith(before)]
    names = [*beside, *(bytes.fromhex(name.removeprefix(before)).decode() for name in own)]
    return rows.select([*beside, *own]).take(pa.array(mine)).rename_columns(names)


def marked(rows: pa.RecordBatch, side: int) -> pa.RecordBatch:
    return rows.append_column(SIDE, pa.array(np.full(rows.num_rows, side, np.int32)))
