"""The first rows of each group of a table, in an order, as one list: kept right whatever is changed or deleted.

How rows are kept and which of them are looked at is in ranks/ordered.py; rows whose group is null are of none. What the
list was and is comes from the rows themselves.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.joins.pairing import without_nulls
from headwater.flow.operators.joins.tables import Side, touched_rows
from headwater.flow.operators.order_codes import Order
from headwater.flow.operators.ranks.ordered import (
    Numbered,
    Ordered,
    Placed,
    TouchedGroups,
    heights,
    looked_at,
    numbered,
    own_places,
    written,
)
from headwater.flow.state.manifest import RunInfo, StateSchema
from headwater.flow.state.runs.equality import Mask
from headwater.flow.state.shard import ShardState


@dataclass(frozen=True)
class Newest:
    """For each value of `side.on` the rows with the highest `order`, at most `limit` of them, as column `into`."""

    side: Side
    order: str
    limit: int
    into: str

    @cached_property
    def ordered(self) -> Ordered:
        return Ordered(self.side, (Order(self.order, descending=True, nulls_first=False),))

    @property
    def state(self) -> StateSchema:
        return self.ordered.state

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
    ordered = work.ordered
    touched = touched_rows(work.side, given)
    groups = TouchedGroups.by(work.side, touched)
    # What a batch takes away may leave room at the end of a list; it is among the first, or further down.
    found = state.leading(groups.hashes, groups.keys, work.limit + groups.taken)
    looked = looked_at(ordered, touched, groups, found)
    high, own = heights(ordered, looked.rows), own_places(ordered, looked.rows)
    before, after = (
        _lists(work, looked.rows, placed, numbered(placed, high, own, looked.groups), looked.groups)
        for placed in (looked.before, looked.after)
    )
    changes = merge_changes(looked.keys, before.there, before.values, after.there, after.values)
    return NewestStep(changes, written(ordered, state, touched, without_nulls(touched.keys)))


class Lists(NamedTuple):
    there: Mask
    values: pa.RecordBatch


def _lists(work: Newest, rows: pa.RecordBatch, placed: Placed, found: Numbered, count: int) -> Lists:
    """The list of each group."""
    chosen = found.order[found.row_number <= work.limit]
    lengths = np.bincount(placed.groups[chosen], minlength=count)
    elements = rows.select(work.element.names).take(pa.array(placed.places[chosen]))
    struct = pa.StructArray.from_arrays(elements.columns, fields=list(work.element))
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, struct, type=pa.list_(work.element))
    return Lists(lengths > 0, pa.RecordBatch.from_arrays([lists], schema=work.values))
