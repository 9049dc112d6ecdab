"""A table beside the single row of another (pure): its columns in every row, or whether rows are let through by it.

The rows of the table lie in the shards of their own keys, and the single row in all of them: it is kept under each of
so many hashes that every shard has one of them, however many shards there are. A change of the single row changes
every row, and reads them; no other change reads more than what it touches.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operators.joins.emission import paired_changes
from headwater.flow.operators.joins.pairing import taken_or_null
from headwater.flow.operators.joins.tables import Side, Touched, touched_rows, untouched_rows, write_all
from headwater.flow.operators.tables.step import TableStep
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, rows_equal, valid
from headwater.flow.state.shard import ShardState, conformed, empty_rows

PLACES = 256
"""Under so many hashes the single row is kept; there are no more shards than that."""
TABLE, SINGLE = "table", "row"
EMPTY, HAS_NULL = "empty", "has_null"
"""Columns of the single row that says of a table what NOT IN has to know."""


@dataclass(frozen=True)
class Beside:
    """`guarded`: the column that NOT IN looks at; then no columns are added, and rows are let through."""

    table: Side
    single: Side
    where: str
    """Where it was declared, for people."""
    prefix: str = ""
    guarded: str = ""

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return {TABLE: self.table.state, SINGLE: self.single.state}

    @property
    def columns(self) -> pa.Schema:
        own = [pa.field(one.name, one.type) for one in self.table.columns]
        added = [] if self.guarded else [pa.field(self.prefix + one.name, one.type) for one in self.single.columns]
        return pa.schema([*own, *added])


def beside_step(
    work: Beside, states: Mapping[str, ShardState], given: tuple[pa.RecordBatch | None, pa.RecordBatch | None],
    shard: int,
) -> TableStep:  # fmt: skip
    """`given` are both sides of the changes of both tables."""
    touched = touched_rows(work.table, given[0])
    of_single = touched_rows(work.single, given[1])
    before, after = _single_rows(work, states[SINGLE], of_single, shard)
    rows, was, is_ = touched.rows, touched.before[touched.before >= 0], touched.after[touched.after >= 0]
    if not _same(before, after):
        kept = _untouched(work, states[TABLE], touched)
        there = rows.num_rows + np.arange(kept.num_rows)
        rows = pa.concat_batches([rows, kept])
        was, is_ = np.concatenate([was, there]), np.concatenate([is_, there])
    made = _made_by(work)
    changes = paired_changes(made(rows, was, before), made(rows, is_, after), work.table.key)
    runs = {
        TABLE: write_all(work.table, states[TABLE], touched),
        SINGLE: write_all(work.single, states[SINGLE], of_single),
    }
    return TableStep(changes, runs)


def _single_rows(
    work: Beside, state: ShardState, touched: Touched, shard: int
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The single row before and after the batch: none, or one."""
    found = state.matches(np.array([shard], np.int64), touched.rows.select([]).slice(0, 0))
    kept = found.rows.filter(pa.array(untouched_rows(work.single, touched, found.rows)))
    kept = conformed(kept.select(work.single.columns.names), touched.rows.schema)
    mine = touched.hashes == shard
    both = []
    for places in (touched.before[mine], touched.after[mine]):
        rows = pa.concat_batches([kept, touched.rows.take(pa.array(places[places >= 0]))])
        if rows.num_rows > 1:
            raise FlowError(
                f"with_scalar at {work.where} is given a table of {rows.num_rows} rows where one is expected",
                "Aggregate it to one row, for example with table.agg(...), or join on a column.",
            )
        both.append(rows)
    return both[0], both[1]


def _same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    if one.num_rows != other.num_rows:
        return False
    return bool(rows_equal(one.columns, other.columns, one.num_rows).all())


def _untouched(work: Beside, state: ShardState, touched: Touched) -> pa.RecordBatch:
    """All other rows of the table in this shard."""
    pieces = [empty_rows(touched.rows.schema, 0)]
    for batch in state.scan():
        kept = batch.filter(pa.array(untouched_rows(work.table, touched, batch)))
        pieces.append(conformed(kept.select(work.table.columns.names), touched.rows.schema))
    return pa.concat_batches(pieces)


Made = Callable[[pa.RecordBatch, Integers, pa.RecordBatch], pa.RecordBatch]


def _made_by(work: Beside) -> Made:
    """The rows of the result at a time, of the places of rows that are there and of the single row."""

    def added(rows: pa.RecordBatch, places: Integers, single: pa.RecordBatch) -> pa.RecordBatch:
        own = rows.take(pa.array(places))
        ones = taken_or_null(single, np.full(len(places), single.num_rows - 1))
        return pa.RecordBatch.from_arrays([*own.columns, *ones.columns], schema=work.columns)

    def guarded(rows: pa.RecordBatch, places: Integers, single: pa.RecordBatch) -> pa.RecordBatch:
        own = rows.take(pa.array(places))
        return pa.RecordBatch.from_arrays(own.columns, schema=work.columns).filter(
            pa.array(_passing(work, own, single))
        )

    return guarded if work.guarded else added


def _passing(work: Beside, rows: pa.RecordBatch, single: pa.RecordBatch) -> Mask:
    """Rows that met none of the other table: whether it is certain that they would meet none, whatever a null is."""
    everything = np.ones(rows.num_rows, np.bool_)
    if not single.num_rows or single.column(EMPTY)[0].as_py():
        return everything
    return ~everything if single.column(HAS_NULL)[0].as_py() else valid(rows.column(work.guarded))
