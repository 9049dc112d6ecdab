"""Fold partial rows of aggregates: all rows of a group to one, or all rows of each of many ranges (pure).

Most aggregates are found for all rows of a group at once (reduction.py). All of them merge two rows into one, and
sketches and those of users do no more. That is done for whole columns at a time: neighbours are merged, then what came
of them, and so on, so that the number of steps grows with the logarithm of the largest group.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, partials, state_schema
from headwater.flow.operators.aggregation.merging import merge_all
from headwater.flow.operators.aggregation.reduction import combine
from headwater.flow.operators.windows.blocks import Blocks
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import empty_rows


def fold_groups(specs: Sequence[Aggregate], rows: pa.RecordBatch, firsts: Mask) -> pa.RecordBatch:
    """One row for each group; rows of a group lie side by side, and `firsts` says where one begins."""
    if firsts.all():
        return rows
    at_once = tuple(spec for spec in specs if all(part.given is None for part in partials(spec)))
    others = tuple(spec for spec in specs if spec not in at_once)
    folded = [combine(at_once, rows, firsts), _folded(others, rows.select(state_schema(others).names), firsts)]
    columns = {name: column for part in folded for name, column in zip(part.schema.names, part.columns, strict=True)}
    schema = state_schema(tuple(specs))
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


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
    return merge_all(specs, later, earlier)


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
