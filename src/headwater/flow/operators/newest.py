"""The first rows of each group of a table, in an order, as one list: kept right whatever is changed or deleted.

All rows of a group are kept, for any of them may be the next when one of the first goes. They lie in that order, and
only the first of them are read: as many as the list may have, and as a batch takes away. What the list was and is comes
from the rows themselves, and nothing else has to be kept beside them. Rows of one place in the order are told apart by
the key of their table.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.joins.events import groups_of
from headwater.flow.operators.joins.pairing import renamed, without_nulls
from headwater.flow.operators.joins.tables import ROW, Side, Touched, touched_rows, untouched_rows
from headwater.flow.operators.order_codes import falling_codes
from headwater.flow.operators.ordering import sorted_places
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, rows_equal
from headwater.flow.state.shard import ShardState

PLACE = "_place"
"""Where a row stands in the order, the highest value first (order_codes.py)."""


@dataclass(frozen=True)
class Newest:
    """For each value of `side.on` the rows with the highest `order`, at most `limit` of them, as column `into`."""

    side: Side
    order: str
    limit: int
    into: str

    @property
    def state(self) -> StateSchema:
        """That of a side of a join, sorted by the order first."""
        side = self.side.state
        return StateSchema(side.key.append(pa.field(PLACE, pa.int64())), side.values, (PLACE, ROW))

    @property
    def key(self) -> pa.Schema:
        return pa.schema([pa.field(name, self.side.columns.field(name).type) for name in self.side.on])

    @property
    def element(self) -> pa.StructType:
        others = [field for field in self.side.columns if field.name not in self.side.on]
        return pa.struct([pa.field(field.name, field.type) for field in others])

    @property
    def values(self) -> pa.Schema:
        return pa.schema([pa.field(self.into, pa.list_(self.element))])


class NewestStep(NamedTuple):
    changes: pa.RecordBatch
    run: RunInfo | None


def newest_step(work: Newest, state: ShardState, given: pa.RecordBatch | None) -> NewestStep:
    """`given` are both sides of every change of the table, as for a join."""
    touched = touched_rows(work.side, given)
    (groups,) = groups_of([(touched.hashes, touched.keys)])
    count = int(groups.max()) + 1 if len(groups) else 0
    _, first = np.unique(groups, return_index=True)
    keys = renamed(touched.keys.take(pa.array(first)), work.side.on)
    # What a batch takes away may leave room at the end of a list; it is among the first, or further down.
    taken = np.bincount(groups[touched.before >= 0], minlength=count)
    found = state.leading(touched.hashes[first], keys, work.limit + taken)
    untouched = untouched_rows(work.side, touched, found.rows)
    kept = found.rows.filter(pa.array(untouched)).select(work.side.columns.names)
    rows = pa.concat_batches([touched.rows, pa.RecordBatch.from_arrays(kept.columns, schema=touched.rows.schema)])
    there = touched.rows.num_rows + np.arange(kept.num_rows)
    of_kept = np.arange(count)[found.places[untouched]]
    ranks = _ranks(work, rows)
    before, after = (
        _lists(work, rows, ranks, Placed(_with(groups[own >= 0], of_kept), _with(own[own >= 0], there)), count)
        for own in (touched.before, touched.after)
    )
    run = _written(work, state, touched)
    return NewestStep(merge_changes(keys, before.there, before.values, after.there, after.values), run)


def _written(work: Newest, state: ShardState, touched: Touched) -> RunInfo | None:
    """A row that gets another place in the order is written there, and deleted where it was."""
    places = falling_codes(touched.rows.column(work.order))
    is_, was = touched.after >= 0, touched.before >= 0
    stays = is_ & was & (places[touched.before] == places[touched.after])
    known = without_nulls(touched.keys)
    put, gone = np.flatnonzero(known & is_), np.flatnonzero(known & was & ~stays)
    entities, at = _with(put, gone), _with(touched.after[put], touched.before[gone])
    deleted = np.arange(len(entities)) >= len(put)
    columns = {HASH: pa.array(touched.hashes[entities]), ROW: pa.array(touched.own[entities])}
    columns |= {PLACE: pa.array(places[at]), DELETED: pa.array(deleted)}
    rows = touched.rows.take(pa.array(at))
    batch = pa.RecordBatch.from_arrays([*columns.values(), *rows.columns], names=[*columns, *rows.schema.names])
    return state.write(batch, existed=deleted | stays[entities])


class Lists(NamedTuple):
    there: Mask
    values: pa.RecordBatch


def _ranks(work: Newest, rows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """Of each row: how high its value of the order is, and its place by the key of the table."""
    order = sorted_places([rows.column(work.order)])
    column = rows.column(work.order).take(pa.array(order))
    same = rows_equal([column.slice(1)], [column.slice(0, max(len(order) - 1, 0))], max(len(order) - 1, 0))
    height, place = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    height[order] = np.cumsum(np.append(False, ~same))[: len(order)]
    place[sorted_places([rows.column(name) for name in work.side.key])] = np.arange(len(order))
    return height, place


class Placed(NamedTuple):
    """Rows that are there at a time: their groups and their places."""

    groups: Integers
    places: Integers


def _with(one: Integers, other: Integers) -> Integers:
    return np.concatenate([one, other])


def _lists(work: Newest, rows: pa.RecordBatch, ranks: tuple[Integers, Integers], placed: Placed, count: int) -> Lists:
    """The list of each group."""
    groups, places = placed
    height, place = ranks
    order = np.lexsort([place[places], -height[places], groups])
    begins = np.searchsorted(groups[order], np.arange(count), side="left")
    chosen = order[np.arange(len(order)) - begins[groups[order]] < work.limit] if len(order) else order
    lengths = np.bincount(groups[chosen], minlength=count)
    elements = rows.select(work.element.names).take(pa.array(places[chosen]))
    struct = pa.StructArray.from_arrays(elements.columns, fields=list(work.element))
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, struct, type=pa.list_(work.element))
    return Lists(lengths > 0, pa.RecordBatch.from_arrays([lists], schema=work.values))
