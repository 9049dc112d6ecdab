"""What tasks do with tables that are joined right behind their topics (direct_reading.py).

    log ──► rows to the shard of their own key ──► newest of each key, merged with the table's state
                                               ──► both sides of each change, to the shard of what they are joined on
                                               ──► TableJoinTask

What the tables' tasks report travels as an input of its own, and is told by the join's: so it too comes from the very
attempt whose rows are used.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.exchange.blocks import Address, partitioned, received, report_block
from headwater.flow.joins.row_builders import spread_of
from headwater.flow.joins.table_join_task import BESIDE, PARTS, TableJoinTask, marked
from headwater.flow.operate.reports import COMMIT, Operator, ShardReport, reported
from headwater.flow.operators.changes import BEFORE, OPERATION, merge_changes
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.joins.tables import AFTER, ROW, JoinStep, Side
from headwater.flow.operators.keyed import latest_step
from headwater.flow.operators.latest import Latest
from headwater.flow.operators.spark_hashes import shard_hashes, xxhash64
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.prepare.newest_rows import newest_of
from headwater.flow.state.equality import Integers
from headwater.flow.state.manifest import HASH
from headwater.flow.state.shard import ShardState, StateHandle, conformed


@dataclass(frozen=True)
class ReadTable:
    """A table that is read for a join: what it keeps, its side of the join, and whether rows count that meet none."""

    operator: Operator
    handle: str
    side: Side
    keeps: bool

    @property
    def given(self) -> pa.Schema:
        """Rows as they are read."""
        return pa.schema([pa.field(HASH, pa.int64()), *self.operator.key, *self.operator.state.values])


def joined_schema(side: Side) -> pa.Schema:
    """What a join is given of a table."""
    return pa.schema([(HASH, pa.int64()), (ROW, pa.int64()), (AFTER, pa.bool_()), *side.columns])


@dataclass(frozen=True)
class TablesTask:
    """Merges rows of both tables with what these keep, and deals out what has changed."""

    tables: tuple[ReadTable, ReadTable]
    shards: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (found,) = received(batches, [[table.given for table in self.tables]])
        for shard, given in found.inputs.items():
            for which, (table, rows) in enumerate(zip(self.tables, given, strict=True)):
                if rows is not None:
                    yield from self._merged(shard, which, table, rows)

    def _merged(self, shard: int, which: int, table: ReadTable, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        operator, handle = table.operator, StateHandle.from_json(table.handle)
        assert isinstance(operator.work, Latest)
        step = latest_step(ShardState(handle, shard), operator.work, newest_of(operator.work, operator.key, rows))
        number = shard << 32
        for count, part in enumerate(both_sides(table, step.changes)):
            if part.num_rows:
                yield partitioned(part, self.shards, number + count, Address(input=which))
        told = ShardReport(operator.name, shard, rows.num_rows, (step.run,) if step.run else ())
        yield report_block(told, shard, number + which)


def both_sides(table: ReadTable, changes: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows that are no longer, and rows that are, as a join is given them."""
    operation = changes.column(OPERATION)
    keys = {name: changes.column(name) for name in table.operator.key.names}
    names = table.operator.values.names
    was = dict(zip(names, changes.column(BEFORE).flatten(), strict=True))
    is_ = {name: changes.column(name) for name in names}
    for values, gone, is_after in ((was, "c", False), (is_, "d", True)):
        there = pc.not_equal(operation, gone)
        columns = {**keys, **values}
        if not pc.all(there).as_py():
            columns = {name: column.filter(there) for name, column in columns.items()}
        yield _sided(table, columns, is_after=is_after)


def _sided(table: ReadTable, columns: dict[str, pa.Array], *, is_after: bool) -> pa.RecordBatch:
    side = table.side
    rows = pa.RecordBatch.from_arrays([columns[name] for name in side.columns.names], schema=_nullable(side.columns))
    if not table.keeps:
        able = without_nulls(rows.select(list(side.on)))
        rows = rows if able.all() else rows.filter(pa.array(able))
    found = {name: rows.column(name) for name in side.columns.names}
    own, keys = ([found[name] for name in names] for names in (side.key, side.on))
    spread = spread_of(keys, own, rows.num_rows)
    beside = [
        pa.array(shard_hashes([*keys, *([] if spread is None else [spread])], rows.num_rows)),
        pa.array(xxhash64(own, rows.num_rows) >> 1),  # halved, so that it lies within the bounds of every search
        pa.array(np.full(rows.num_rows, is_after)),
    ]
    made = pa.RecordBatch.from_arrays([*beside, *rows.columns], names=[*BESIDE, *side.columns.names])
    return conformed(made, joined_schema(side))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def paired_changes(before: pa.RecordBatch, after: pa.RecordBatch, key: tuple[str, ...]) -> pa.RecordBatch:
    """Results that are no longer and results that are, as changes: of each key there is one of either at most."""
    keys = [rows.select(list(key)) for rows in (before, after)]
    hashes = [xxhash64(columns.columns, columns.num_rows) for columns in keys]
    order, firsts = grouped([np.concatenate(hashes)], pa.concat_batches(keys))
    numbers = np.cumsum(firsts) - 1
    count = int(firsts.sum())
    places = np.full((2, count), -1)
    is_after = order >= before.num_rows
    places[0, numbers[~is_after]] = order[~is_after]
    places[1, numbers[is_after]] = order[is_after] - before.num_rows
    values = [name for name in after.schema.names if name not in key]
    existed, exists = (_taken(rows, values, at) for rows, at in zip((before, after), places, strict=True))
    own = pa.concat_batches(keys).take(pa.array(order[firsts]))
    return merge_changes(own, places[0] >= 0, existed, places[1] >= 0, exists)


def _taken(rows: pa.RecordBatch, names: list[str], places: Integers) -> pa.RecordBatch:
    return rows.select(names).take(pa.array(places, mask=places < 0))


def moved_together(changes: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Of a row that went from one join key to another, two shards tell: the one that it is gone, the other that it is
    there. Together that is an update. (The same to the bit it cannot be: what it is joined on is another.)
    """
    operation = changes[OPERATION]
    gone, made = (np.flatnonzero(np.asarray(pc.equal(operation, one))) for one in ("d", "c"))
    if not len(gone) or not len(made):
        return changes
    both = np.concatenate([gone, made])
    # Not combined by Arrow, which would cut keys of more than 2 GiB in two: this refuses them.
    keys = pa.concat_batches(changes.select(list(key)).take(pa.array(both)).to_batches())
    order, firsts = grouped([xxhash64(keys.columns, keys.num_rows)], keys)
    twice = np.flatnonzero(~firsts)
    pairs = both[np.concatenate([order[twice - 1], order[twice]])]
    is_gone = np.zeros(changes.num_rows, np.bool_)
    is_gone[gone] = True
    dropped, updated = np.zeros(changes.num_rows, np.bool_), np.zeros(changes.num_rows, np.bool_)
    dropped[pairs[is_gone[pairs]]] = True
    updated[pairs[~is_gone[pairs]]] = True
    told = pc.if_else(pa.array(updated), "u", operation)
    return changes.set_column(changes.schema.get_field_index(OPERATION), OPERATION, told).filter(pa.array(~dropped))


@dataclass(frozen=True)
class JoinedTablesTask:
    """A join whose rows come in pieces; with what its tables report. Where results are for the driver alone they are
    paired here, but for `moved_together`."""

    join: TableJoinTask
    straight: bool

    @property
    def told(self) -> pa.Schema:
        operator = self.join.operator
        return operator.output.remove(operator.output.get_field_index(BEFORE)) if self.straight else operator.told

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        handles = [StateHandle.from_json(self.join.handles[part]) for part in PARTS]
        work = self.join.operator.work
        (found,) = received(batches, [[joined_schema(work.left), joined_schema(work.right)]])
        if found.reports:
            yield self._handed_on(found.reports)
        for shard, (ours, theirs) in found.inputs.items():
            left, right = (ShardState(handle, shard) for handle in handles)
            step, told = self.join.worked(shard, left, right, (ours, theirs))
            yield from self._results(step, told)

    def _results(self, step: JoinStep, told: list[ShardReport]) -> Iterator[pa.RecordBatch]:
        if self.straight:
            changes = paired_changes(step.before, step.after, self.join.operator.key).drop_columns([BEFORE])
            yield from reported(changes, told[0], self.told)
            yield from reported(changes.slice(0, 0), told[1], self.told)
        else:
            yield from reported(marked(step.before, 0), told[0], self.told)
            yield from reported(marked(step.after, 1), told[1], self.told)

    def _handed_on(self, reports: list[str]) -> pa.RecordBatch:
        columns = [
            pa.array(reports) if field.name == COMMIT else pa.nulls(len(reports), field.type) for field in self.told
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.told)
