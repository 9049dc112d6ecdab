"""The first rows of each group of a table with their places, kept right whatever is changed or deleted (pure).

    row_number    1 2 3 4 5     rows equal in the order are ordered by the key of their table
    rank          1 2 2 4 5
    dense_rank    1 2 2 3 4

Only rows whose place is within the limit are in the result. A change in a group reads its first rows alone: as many as
may be in the result, and as the batch takes away (ordered.py). For `dense_rank` it is not known beforehand how many
that are, so more is read until they are enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.emission import paired_changes
from headwater.flow.operators.joins.tables import touched_rows
from headwater.flow.operators.ranks.ordered import (
    Looked,
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
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import ShardState

ROW_NUMBER, RANK, DENSE_RANK = WAYS = ("row_number", "rank", "dense_rank")
ROWS = "rows"
MORE = 4
"""So many times as much is read of groups of which it was not enough."""


@dataclass(frozen=True)
class Rank:
    """For each value of `ordered.side.on` the rows whose place is at most `limit`, with it as column `into`."""

    ordered: Ordered
    how: str
    limit: int
    into: str

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return {ROWS: self.ordered.state}

    @property
    def columns(self) -> pa.Schema:
        own = [pa.field(field.name, field.type) for field in self.ordered.side.columns]
        return pa.schema([*own, pa.field(self.into, pa.int32())])


def rank_step(work: Rank, state: ShardState, given: pa.RecordBatch | None) -> TableStep:
    """`given` are both sides of every change of the table."""
    ordered = work.ordered
    touched = touched_rows(ordered.side, given)
    groups = TouchedGroups.by(ordered.side, touched)
    wanted = work.limit + groups.taken
    while True:
        found = state.leading(groups.hashes, groups.keys, wanted)
        looked = looked_at(ordered, touched, groups, found)
        high, own = heights(ordered, looked.rows), own_places(ordered, looked.rows)
        before, after = (numbered(placed, high, own, looked.groups) for placed in (looked.before, looked.after))
        # Fewer than were asked for are all that there are.
        ended = np.bincount(found.places, minlength=looked.groups) < wanted
        short = ~ended & ~(_reached(work, looked.before, before, looked) & _reached(work, looked.after, after, looked))
        if work.how != DENSE_RANK or not short.any():
            break
        wanted = np.where(short, wanted * MORE, wanted)
    ranked = [_ranked(work, looked.rows, *one) for one in ((looked.before, before), (looked.after, after))]
    changes = paired_changes(ranked[0], ranked[1], ordered.side.key)
    return TableStep(changes, {ROWS: written(ordered, state, touched)})


def _places(work: Rank, rows: Numbered) -> Integers:
    return {ROW_NUMBER: rows.row_number, RANK: rows.rank, DENSE_RANK: rows.dense_rank}[work.how]


def _reached(work: Rank, placed: Placed, rows: Numbered, looked: Looked) -> np.ndarray:
    """Of which groups as many places are known as may be in the result."""
    highest = np.zeros(looked.groups, np.int64)
    np.maximum.at(highest, placed.groups[rows.order], _places(work, rows))
    return np.asarray(highest > work.limit)


def _ranked(work: Rank, rows: pa.RecordBatch, placed: Placed, found: Numbered) -> pa.RecordBatch:
    places = _places(work, found)
    chosen = places <= work.limit
    own = rows.take(pa.array(placed.places[found.order[chosen]]))
    return pa.RecordBatch.from_arrays([*own.columns, pa.array(places[chosen], pa.int32())], schema=work.columns)
