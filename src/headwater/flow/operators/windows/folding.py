"""Fold partial rows of aggregates: all rows of a group to one, or all rows of each of many ranges (pure).

Every aggregate merges two rows into one. Here that is done for whole columns at a time: neighbours are merged, then
what came of them, and so on, so that the number of steps grows with the logarithm of the largest group. Sums and
extremes of numbers are found for all rows of a group at once (reducing.py).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregates import Aggregate, partials, state_schema
from headwater.flow.operators.merging import merge_all
from headwater.flow.operators.windows.blocks import Blocks
from headwater.flow.operators.windows.reducing import reduced_groups
from headwater.flow.state.equality import Integers, Mask
from headwater.flow.state.shard import empty_rows


def fold_groups(specs: Sequence[Aggregate], rows: pa.RecordBatch, firsts: Mask) -> pa.RecordBatch:
    """One row for each group; rows of a group lie side by side, and `firsts` says where one begins."""
    if firsts.all():
        return rows
    begins = np.flatnonzero(firsts)
    at_once = {place: reduced_groups(spec, rows, begins) for place, spec in enumerate(specs)}
    others = tuple(specs[place] for place, found in at_once.items() if found is None)
    folded = _folded(others, rows.select(state_schema(others).names), firsts)
    columns = [
        column
        for place, spec in enumerate(specs)
        for column in (at_once[place] or [folded.column(part.name) for part in partials(spec)])
    ]
    return pa.RecordBatch.from_arrays(columns, schema=state_schema(tuple(specs)))


def _folded(specs: Sequence[Aggregate], rows: pa.RecordBatch, firsts: Mask) -> pa.RecordBatch:
    while specs and not firsts.all():
        rows, firsts = _halved(specs, rows, firsts)
    return rows


def _halved(specs: Sequence[Aggregate], rows: pa.RecordBatch, firsts: Mask) -> tuple[pa.RecordBatch, Mask]:
    """Each second row of a group merged into the one before it."""
    places = np.arange(len(firsts))
    begins = np.maximum.accumulate(np.where(firsts, places, 0))
    even = (places - begins) % 2 == 0
    kept, merged = np.flatnonzero(even), np.flatnonzero(~even)
    both = merge_two(specs, rows.take(merged - 1), rows.take(merged))
    return scattered(rows.take(kept), np.searchsorted(kept, merged - 1), both), firsts[kept]


def merge_two(specs: Sequence[Aggregate], earlier: pa.RecordBatch, later: pa.RecordBatch) -> pa.RecordBatch:
    """Merge rows with those beside them; rows that are all null are of nothing."""
    return merge_all(specs, later, np.ones(later.num_rows, np.bool_), earlier)


def scattered(rows: pa.RecordBatch, places: Integers, others: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with others put in the place of some of them."""
    if not len(places):
        return rows
    if len(places) == rows.num_rows:
        return others.take(np.argsort(places)) if (np.diff(places) != 1).any() else others
    source = np.arange(rows.num_rows)
    source[places] = rows.num_rows + np.arange(len(places))
    return pa.concat_batches([rows, others]).take(source)


def nothing(specs: Sequence[Aggregate], length: int) -> pa.RecordBatch:
    """Rows of aggregates over no rows at all."""
    empty = empty_rows(state_schema(tuple(specs)), length)
    return merge_two(specs, empty, empty)


def fold_ranges(specs: Sequence[Aggregate], panes: pa.RecordBatch, blocks: Blocks, ranges: int) -> pa.RecordBatch:
    """For each of so many ranges the fold of its panes, of which there may be none. What blocks of panes hold is folded
    once for all ranges, in an order that depends on nothing but their times (blocks.py).
    """
    for left, right in blocks.merges:
        panes = pa.concat_batches([panes, merge_two(specs, panes.take(left), panes.take(right))])
    folds = nothing(specs, ranges)
    for places, block in blocks.rounds:
        folds = scattered(folds, places, merge_two(specs, folds.take(places), panes.take(block)))
    return folds
