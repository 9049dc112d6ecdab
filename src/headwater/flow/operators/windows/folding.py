"""Fold partial rows of aggregates: all rows of a group to one, or all rows of each of many ranges (pure).

Every aggregate merges two rows into one. Here that is done for whole columns at a time: neighbours are merged, then
what came of them, and so on, so that the number of steps grows with the logarithm of the largest group. Sums and
extremes of numbers are found for all rows of a group at once (reducing.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregates import Aggregate, partials, state_schema
from headwater.flow.operators.merging import merge_all
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


class Level(NamedTuple):
    """Blocks of a power of two of rows; one that holds rows of several groups is not to be used."""

    blocks: pa.RecordBatch
    groups: Integers


def fold_ranges(
    specs: Sequence[Aggregate], panes: pa.RecordBatch, groups: Integers, low: Integers, high: Integers
) -> pa.RecordBatch:
    """For each range the fold of panes[low:high], which are of one group; a range may be empty.

    A range consists of at most two blocks of each size. Blocks are folded once for all ranges.
    """
    low, high = low.copy(), np.maximum(high, low)
    left, right = nothing(specs, len(low)), nothing(specs, len(low))
    level = Level(panes, groups)
    while (low < high).any():
        begins = np.flatnonzero((low < high) & (low % 2 == 1))
        left = _joined(specs, left, begins, level.blocks.take(low[begins]), behind=True)
        low[begins] += 1
        ends = np.flatnonzero((low < high) & (high % 2 == 1))
        right = _joined(specs, right, ends, level.blocks.take(high[ends] - 1), behind=False)
        high[ends] -= 1
        low, high = low // 2, high // 2
        if (low < high).any():
            level = _doubled(specs, level)
    return merge_two(specs, left, right)


def _joined(
    specs: Sequence[Aggregate], folds: pa.RecordBatch, places: Integers, blocks: pa.RecordBatch, *, behind: bool
) -> pa.RecordBatch:
    if not len(places):
        return folds
    some = folds.take(places)
    merged = merge_two(specs, some, blocks) if behind else merge_two(specs, blocks, some)
    return scattered(folds, places, merged)


def _doubled(specs: Sequence[Aggregate], level: Level) -> Level:
    """Blocks of twice the size. Those of several groups are not merged: their sums might be more than fits."""
    count = level.blocks.num_rows
    even = np.arange(0, count, 2)
    odd = np.minimum(even + 1, count - 1)
    whole = np.flatnonzero((level.groups[even] == level.groups[odd]) & (level.groups[even] >= 0) & (even != odd))
    merged = merge_two(specs, level.blocks.take(even[whole]), level.blocks.take(odd[whole]))
    groups = np.full(len(even), -1)
    groups[whole] = level.groups[even[whole]]
    return Level(scattered(level.blocks.take(even), whole, merged), groups)
