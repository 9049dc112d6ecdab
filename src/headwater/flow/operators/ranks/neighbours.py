"""Values of other rows of the group beside each row of a table, in the order of the group (pure).

    lag      the row so many before it          first    the first row of its group
    lead     the row so many after it           last     the last one

Rows equal in the order are ordered by the key of their table. A change in a group reads the group, for any row of it
may be the neighbour of another; it emits those rows whose values change: the row itself, and those beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.operators.joins.emission import paired_changes
from headwater.flow.operators.joins.tables import touched_rows
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
from headwater.flow.operators.tables.step import TableStep
from headwater.flow.state.manifest import StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import ShardState

LAG, LEAD, FIRST, LAST = WAYS = ("lag", "lead", "first", "last")
ROWS = "rows"


@dataclass(frozen=True)
class Neighbour:
    """A column `into` with the value that `column` has in another row; of `default` where there is no such row."""

    into: str
    column: str
    how: str
    offset: int = 1
    default: str = ""
    """A column of the row itself; empty for null."""


@dataclass(frozen=True)
class Neighbours:
    ordered: Ordered
    values: tuple[Neighbour, ...]

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return {ROWS: self.ordered.state}

    @property
    def columns(self) -> pa.Schema:
        own = self.ordered.side.columns
        made = [pa.field(one.into, own.field(one.column).type) for one in self.values]
        return pa.schema([*(pa.field(field.name, field.type) for field in own), *made])


def neighbours_step(work: Neighbours, state: ShardState, given: pa.RecordBatch | None) -> TableStep:
    """`given` are both sides of every change of the table."""
    ordered = work.ordered
    touched = touched_rows(ordered.side, given)
    groups = TouchedGroups.by(ordered.side, touched)
    looked = looked_at(ordered, touched, groups, state.matches(groups.hashes, groups.keys))
    high, own = heights(ordered, looked.rows), own_places(ordered, looked.rows)
    before, after = (
        _beside(work, looked.rows, placed, numbered(placed, high, own, looked.groups))
        for placed in (looked.before, looked.after)
    )
    return TableStep(paired_changes(before, after, ordered.side.key), {ROWS: written(ordered, state, touched)})


def _beside(work: Neighbours, rows: pa.RecordBatch, placed: Placed, found: Numbered) -> pa.RecordBatch:
    """The rows of a time, group by group in their order, with the values of others."""
    places = placed.places[found.order]
    index = np.arange(len(places))
    begins = index - found.row_number + 1
    sizes = np.bincount(placed.groups, minlength=1)[placed.groups[found.order]]
    own = rows.take(pa.array(places))
    made = []
    for one in work.values:
        others = _others(one, index, begins, begins + sizes - 1)
        there = (others >= begins) & (others < begins + sizes)
        value = own.column(one.column).take(pa.array(others, mask=~there))
        made.append(_or_default(one, value, own, there))
    return pa.RecordBatch.from_arrays([*own.columns, *made], schema=work.columns)


def _others(one: Neighbour, index: Integers, first: Integers, last: Integers) -> Integers:
    if one.how in (FIRST, LAST):
        return first if one.how == FIRST else last
    return index - one.offset if one.how == LAG else index + one.offset


def _or_default(one: Neighbour, value: pa.Array, own: pa.RecordBatch, there: Mask) -> pa.Array:
    return pc.if_else(pa.array(there), value, own.column(one.default)) if one.default else value
