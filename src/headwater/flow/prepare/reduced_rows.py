"""Partial aggregation: the rows of a task to one for each key, or for each key and part of a window (pure).

Shards receive several such rows of a group, one or more from each task that had some, and combine them: those of a key
here (`combined_rows`), those of a window where they are merged with its state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.operate.reports import ROWS
from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema
from headwater.flow.operators.aggregation.reduction import combine, reduce_rows
from headwater.flow.operators.joins.events import OFFSET, PARTITION, SOURCE, TIME
from headwater.flow.operators.keyed import ALL, inner_keys
from headwater.flow.operators.spark_hashes import shard_hashes
from headwater.flow.operators.windows.assignment import Assigned, times_of
from headwater.flow.operators.windows.grouping import Groups, grouped, taken
from headwater.flow.operators.windows.window import Window
from headwater.flow.rows.prepared_blocks import Prepared
from headwater.flow.state.manifest import HASH
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import conformed

EVENT_TIME = "_event_time"
MOMENT = pa.timestamp("us", "UTC")
SPREAD = np.uint64(0x9E3779B97F4A7C15)
WORTH = 0.8
"""So many groups among some rows, or fewer, are worth the sorting."""


@dataclass(frozen=True)
class ReduceByKey:
    """Reduces rows to one for each key, with the columns that aggregates take in."""

    key: pa.Schema
    specs: tuple[Aggregate, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(HASH, pa.int64()), *self.key, *given_schema(self.specs), (ROWS, pa.int64())])

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        keys = normal_keys(inner_keys(rows, self.key), self.key)
        hashes = key_hashes(keys)
        groups = grouped([hashes], keys) if worth_reducing([hashes]) else apart(rows.num_rows)
        made = reduced(self.specs, rows, keys, hashes, groups)
        return Prepared(conformed(made, self.schema))


@dataclass(frozen=True)
class ReduceByWindow:
    """Reduces rows to one for each key and part of a window; late rows are left out, and counted."""

    by: pa.Schema
    window: Window
    specs: tuple[Aggregate, ...]
    schema: pa.Schema
    watermark_us: int | None
    horizon_us: int
    processed_us: int | None = None
    """The time of all rows, of windows by processing time."""
    counted: bool = True
    """Rows count as read; not those that a late replay brings back."""

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        times_us, known = times_of(rows.column(TIME))
        if self.processed_us is not None:
            times_us, known = np.full(rows.num_rows, self.processed_us), np.ones(rows.num_rows, np.bool_)
        late = self.window.late(times_us, self.watermark_us, self.horizon_us, known)
        timely = known & ~late
        if not timely.all():
            rows, times_us = rows.filter(pa.array(timely)), times_us[timely]
        if not rows.num_rows:
            return Prepared(rows, late=int(late.sum()))
        return Prepared(self._reduced(rows, times_us), late=int(late.sum()))

    def _reduced(self, rows: pa.RecordBatch, times_us: Integers) -> pa.RecordBatch:
        position = {
            name: rows.column(own).cast(pa.int64()).to_numpy()
            for name, own in (("source", SOURCE), ("partition", PARTITION), ("offset", OFFSET))
        }
        assigned = self.window.assign(times_us, position)
        groups = list(self.window.group(assigned).values())
        keys = normal_keys(rows.select(self.by.names), self.by)
        hashes = self._hashes(keys, assigned, rows.num_rows)
        found = grouped([hashes, *groups], keys) if worth_reducing([hashes, *groups]) else apart(rows.num_rows)
        parts = self.window.combined(assigned, found.order, np.flatnonzero(found.firsts))
        made = conformed(reduced(self.specs, rows, keys, hashes, found, parts), self.schema)
        if self.counted:
            return made
        return made.set_column(made.schema.get_field_index(ROWS), ROWS, pa.array(np.zeros(made.num_rows, np.int64)))

    def _hashes(self, keys: pa.RecordBatch, assigned: Assigned, count: int) -> Integers:
        """Windows that depend on no other row are spread over the shards; others lie in the shard of their key."""
        columns = list(keys.columns)
        if self.window.disjoint:
            columns += [pa.array(one) for one in assigned.values()]
        return shard_hashes(columns, count) if columns else np.zeros(count, np.int64)


def worth_reducing(same: Sequence[Integers]) -> bool:
    """Whether bringing rows of a group together makes them notably fewer; from those of every sixteenth group."""
    mixed = np.zeros(len(same[0]), np.uint64)
    for column in same:
        mixed = (mixed ^ column.view(np.uint64)) * SPREAD
    sample = mixed[(mixed >> np.uint64(60)) == 0]
    return len(np.unique(sample)) <= WORTH * len(sample)


def apart(rows: int) -> Groups:
    """Every row as a group of its own."""
    return Groups(np.arange(rows), np.ones(rows, np.bool_))


def reduced(
    specs: Sequence[Aggregate], rows: pa.RecordBatch, keys: pa.RecordBatch, hashes: Integers, groups: Groups,
    parts: Assigned | None = None,
) -> pa.RecordBatch:  # fmt: skip
    """One row for each group, with its hash, key, part of a window, what aggregates take in, and its number of rows."""
    begins = np.flatnonzero(groups.firsts)
    heads = groups.order[begins]
    given = reduce_rows(specs, taken(_inputs(specs, rows), groups.order), groups.firsts)
    counts = np.diff(np.append(begins, len(groups.order)))
    columns = [pa.array(hashes[heads]), *taken(keys, heads).columns]
    columns += [pa.array(one) for one in (parts or {}).values()]
    columns += [*given.columns, pa.array(counts)]
    names = [HASH, *keys.schema.names, *(parts or {}), *given.schema.names, ROWS]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _inputs(specs: Sequence[Aggregate], rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that aggregates are computed from, and where rows lie for those that depend on their order."""
    names = dict.fromkeys(
        name for spec in specs for name in (spec.column, spec.other, spec.time) if name and name != EVENT_TIME
    )
    columns = {name: rows.column(name) for name in names}
    if any(spec.rules.timed for spec in specs):
        columns |= {
            EVENT_TIME: rows.column(TIME).cast(MOMENT), "_topic": rows.column(SOURCE).cast(pa.string()),
            PARTITION: rows.column(PARTITION), OFFSET: rows.column(OFFSET),
        }  # fmt: skip
    if not columns:
        columns = {"_nothing": pa.nulls(rows.num_rows)}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def combined_rows(specs: Sequence[Aggregate], rows: pa.RecordBatch, keys: pa.Schema) -> pa.RecordBatch:
    """Reduced rows of several tasks to one for each key."""
    order, firsts = grouped([rows.column(HASH).to_numpy()], rows.select(keys.names))
    if firsts.all():
        return rows
    begins = np.flatnonzero(firsts)
    given = combine(specs, rows.select(given_schema(tuple(specs)).names).take(pa.array(order)), firsts)
    counts = np.add.reduceat(rows.column(ROWS).to_numpy()[order], begins)
    made = {name: given.column(name) for name in given.schema.names}
    made[ROWS] = pa.array(counts)
    heads = pa.array(order[begins])
    columns = [made[name] if name in made else rows.column(name).take(heads) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def key_hashes(keys: pa.RecordBatch) -> Integers:
    """By which rows find their shard. What has no key lies in the first."""
    if keys.schema.names == [ALL]:
        return np.zeros(keys.num_rows, np.int64)
    return shard_hashes(keys.columns, keys.num_rows)


def normal_keys(keys: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Keys as Spark groups them: 0.0 for −0.0, and one value for all that is not a number."""
    columns = [_normal(column) for column in keys.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else keys


def _normal(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    plain = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), column.type), plain)
