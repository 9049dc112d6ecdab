"""Rows of a table that meet some row of another, or none (pure): semi and anti joins.

    semi   the left's rows for which there is a row on the right: IN, EXISTS
    anti   those for which there is none: NOT EXISTS

Without further conditions all that matters of the right is whether a join key has any row: so many of its rows are read
as the batch takes away, and one more. Rows of the left that the batch does not touch are read where that has changed.
With further conditions all rows of the right of the join keys that a batch touches are looked at.
"""

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.pairing import SEMI, renamed
from headwater.flow.operators.joins.tables import (
    ALL_ROWS,
    Asked,
    Both,
    Bounds,
    Entities,
    TableJoin,
    Touched,
    entities_of,
    pairs_of,
    untouched_rows,
)
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import ShardState

Sides = tuple[pa.RecordBatch, pa.RecordBatch]


def existing_rows(
    join: TableJoin,
    left: ShardState,
    right: ShardState,
    touched: Both,
    asked: Asked,
    bounds: tuple[Bounds, Bounds] = (ALL_ROWS, ALL_ROWS),
) -> Sides:
    """Rows of the result that are no longer, and those that are; of the left's rows kept, those within bounds."""
    if join.pairing.further:
        return _by_condition(join, left, right, touched, asked, bounds[0])
    there = _there(join, right, touched[1], asked)
    wanted = (there[0] != there[1]) & asked.can_meet
    ours = entities_of(join.left, left, touched[0], asked, asked.left, wanted, bounds[0])
    return (
        _chosen(join, ours, ours.before, there[0][ours.groups]),
        _chosen(join, ours, ours.after, there[1][ours.groups]),
    )


def _there(join: TableJoin, right: ShardState, touched: Touched, asked: Asked) -> tuple[Mask, Mask]:
    """Which join keys have a row on the right, before and after the batch."""
    count = len(asked.hashes)
    was, is_ = (np.bincount(asked.right[own >= 0], minlength=count) for own in (touched.before, touched.after))
    places = np.flatnonzero(asked.can_meet)
    keys = renamed(asked.keys.take(pa.array(places)), join.right.on)
    found = right.leading(asked.hashes[places], keys, was[places] + 1)
    untouched = untouched_rows(join.right, touched, found.rows)
    others = np.bincount(places[found.places[untouched]], minlength=count)
    return (was + others > 0) & asked.can_meet, (is_ + others > 0) & asked.can_meet


def _by_condition(
    join: TableJoin, left: ShardState, right: ShardState, touched: Both, asked: Asked, bounds: Bounds
) -> Sides:
    of_right = np.bincount(asked.right, minlength=len(asked.hashes)) > 0
    ours = entities_of(join.left, left, touched[0], asked, asked.left, of_right & asked.can_meet, bounds)
    theirs = entities_of(join.right, right, touched[1], asked, asked.right, asked.can_meet, ALL_ROWS)
    pairs = pairs_of(ours, theirs, asked, everything=True)
    made = []
    for mine, other in ((ours.before, theirs.before), (ours.after, theirs.after)):
        both = np.flatnonzero((mine[pairs.left] >= 0) & (other[pairs.right] >= 0))
        met = join.pairing.meets(ours.rows, theirs.rows, mine[pairs.left[both]], other[pairs.right[both]])
        has = np.bincount(pairs.left[both[met]], minlength=len(mine)) > 0
        made.append(_chosen(join, ours, mine, has))
    return made[0], made[1]


def _chosen(join: TableJoin, ours: Entities, places: Integers, has: Mask) -> pa.RecordBatch:
    """Rows of the left that are there at a time, of those that have a partner or of the others."""
    chosen = (places >= 0) & (has if join.pairing.how == SEMI else ~has)
    rows = ours.rows.take(pa.array(places[chosen])).select(join.pairing.columns.names)
    return pa.RecordBatch.from_arrays(rows.columns, schema=join.pairing.columns)
