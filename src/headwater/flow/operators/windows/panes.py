"""Rows that are kept for each key and time: merge those of a batch with them, and see them beside their neighbours.

A pane is the smallest part of time that a kind of window distinguishes: a tumbling window, a hop's step, or a single
moment. What came in for a pane is merged with what was kept for it, and written to the slot that covers its time.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.merging import absorbed
from headwater.flow.operators.windows.blocks import blocks_of
from headwater.flow.operators.windows.folding import fold_groups, fold_ranges, merge_two
from headwater.flow.operators.windows.grouping import grouped, taken
from headwater.flow.operators.windows.state import Placed, Ranges, WindowState
from headwater.flow.state.manifest import HASH, RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.run_union import followers_of, hidden, order_of
from headwater.flow.state.runs.sorting import sorted_order
from headwater.flow.state.shard import conformed


class Panes(NamedTuple):
    """The panes of a batch, each once, sorted by slot, then as runs are: what they held before and hold after it."""

    hashes: Integers
    keys: pa.RecordBatch
    """The user's columns and the time, as the state's key has them."""
    times: Integers
    existed: Mask
    before: pa.RecordBatch
    after: pa.RecordBatch
    runs: list[RunInfo]

    def filter(self, wanted: Mask) -> "Panes":
        if wanted.all():
            return self
        mask = pa.array(wanted)
        keys, before, after = (part.filter(mask) for part in (self.keys, self.before, self.after))
        return Panes(self.hashes[wanted], keys, self.times[wanted], self.existed[wanted], before, after, self.runs)


def merge_panes(specs: Sequence[Aggregate], state: WindowState, incoming: pa.RecordBatch, ranges: Ranges) -> Panes:
    """`incoming` has `_hash`, the state's key and partial columns; several rows of a pane are folded."""
    time = state.schema.order[0]
    hashes, times = (incoming.column(name).to_numpy() for name in (HASH, time))
    keys = conformed(incoming, state.schema.key)
    placed = state.placed(times, ranges)
    order, firsts = grouped([placed.numbers, hashes, times], keys.drop_columns([time]))
    partials = fold_groups(specs, taken(absorbed(specs, incoming), order), firsts)
    first = order[firsts]
    placed, hashes, keys = Placed(placed.slots, placed.numbers[first]), hashes[first], taken(keys, first)
    found = state.lookup(placed, hashes, keys)
    after = merge_two(specs, found.values, partials) if found.mask.any() else partials
    rows = beside(pa.RecordBatch.from_arrays([pa.array(hashes)], [HASH]), keys, after)
    runs = state.write(placed, rows, found.mask)
    return Panes(hashes, keys, times[first], found.mask, found.values, after, runs)


def beside(*parts: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column for part in parts for column in part.columns]
    return pa.RecordBatch.from_arrays(columns, [name for part in parts for name in part.schema.names])


class Lines(NamedTuple):
    """Panes of keys in the order of time: `groups` is the number of the key, whose panes are [begins, ends)."""

    groups: Integers
    times: Integers
    existed: Mask
    before: pa.RecordBatch
    after: pa.RecordBatch
    touched: Mask
    begins: Integers
    ends: Integers
    keys: pa.RecordBatch
    """One row for each key, as `hashes`."""
    hashes: Integers

    def named(self, column: str, groups: Integers, times: Integers) -> pa.RecordBatch:
        """Hash, key and time, as rows of the state begin."""
        hashes = pa.RecordBatch.from_arrays([pa.array(self.hashes[groups])], [HASH])
        moments = pa.RecordBatch.from_arrays([pa.array(times)], [column])
        return beside(hashes, taken(self.keys, groups), moments)

    def range(self, groups: Integers, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Where the panes of some keys are whose time is in [low, high)."""
        begins, ends = self.begins[groups], self.ends[groups]
        return first_from(self.times, begins, ends, low), first_from(self.times, begins, ends, high)

    def folded(
        self, specs: Sequence[Aggregate], groups: Integers, low: Integers, high: Integers
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """What the panes of some keys whose time is in [low, high) held before the batch, and hold after it."""
        first, end = self.range(groups, low, high)
        blocks = blocks_of(self.times, first, end, low, high)
        after = fold_ranges(specs, self.after, blocks, len(first))
        return after if self.after is self.before else fold_ranges(specs, self.before, blocks, len(first)), after


def lines_around(
    state: WindowState, panes: Panes, reach: Callable[[Integers, Integers], tuple[Integers, Integers]]
) -> Lines:
    """The panes of a batch and all kept ones near them. `reach` says, of a key's first and last pane, how near."""
    time = state.schema.order[0]
    by = panes.keys.drop_columns([time])
    order, firsts = grouped([panes.hashes], by, within=[panes.times])
    first = order[firsts]
    groups = np.cumsum(firsts) - 1
    last = order[np.append(np.flatnonzero(firsts)[1:], len(order)) - 1] if len(order) else first
    keys = taken(by, first)
    fetched = kept_between(state, panes.hashes[first], keys, *reach(panes.times[first], panes.times[last]))
    values = state.schema.values.names
    mine = [taken(part, order) for part in (panes.before, panes.after)]
    return _woven(
        (keys, panes.hashes[first]),
        np.concatenate([groups, fetched.groups]),
        np.concatenate([panes.times[order], fetched.rows.column(time).to_numpy()]),
        np.append(panes.existed[order], np.ones(len(fetched.groups), np.bool_)),
        [pa.concat_batches([part, fetched.rows.select(values)]) for part in mine],
        len(order),
    )


class Kept(NamedTuple):
    groups: Integers
    rows: pa.RecordBatch


def kept_between(state: WindowState, hashes: Integers, keys: pa.RecordBatch, low: Integers, high: Integers) -> Kept:
    """All that is kept of some keys with a time in [low, high)."""

    def overlaps(slot: Slot) -> Mask:
        return np.asarray((low < slot.end) & (high > slot.begin), np.bool_)

    found = [part for _, part in state.fetch(hashes, keys, low, high, overlaps)]
    empty = pa.RecordBatch.from_pylist([], state.schema.rows)
    groups = np.concatenate([np.empty(0, np.int64), *(part.places for part in found)])
    return Kept(groups, pa.concat_batches([empty, *(part.rows for part in found)]))


def _woven(
    keys: tuple[pa.RecordBatch, Integers],
    groups: Integers,
    times: Integers,
    existed: Mask,
    states: list[pa.RecordBatch],
    touched: int,
) -> Lines:
    """Panes of the batch, which come first, hide what is kept for the same."""
    order = sorted_order([groups, times])
    order = order[~followers_of([groups[order], times[order]])]
    groups = groups[order]
    begins = np.searchsorted(groups, np.arange(len(keys[1]) + 1))
    before, after = (taken(part, order) for part in states)
    return Lines(groups, times[order], existed[order], before, after, order < touched, begins[:-1], begins[1:], *keys)


def lines_of(state: WindowState, rows: pa.RecordBatch) -> Lines:
    """Kept panes as lines: nothing of them has changed."""
    time = state.schema.order[0]
    by = rows.select([name for name in state.schema.key.names if name != time])
    hashes, times = (rows.column(name).to_numpy() for name in (HASH, time))
    order, firsts = grouped([hashes], by, within=[times])
    groups = np.cumsum(firsts) - 1
    begins = np.append(np.flatnonzero(firsts), len(order))
    kept = taken(rows.select(state.schema.values.names), order)
    flags = np.ones(len(order), np.bool_)
    first = order[firsts]
    keys = taken(by, first)
    return Lines(groups, times[order], flags, kept, kept, ~flags, begins[:-1], begins[1:], keys, hashes[first])


def not_among(schema: StateSchema, rows: pa.RecordBatch, others: pa.RecordBatch) -> Mask:
    """Which rows do not have the hash and key of one of the others."""
    keep = np.ones(rows.num_rows, np.bool_)
    if others.num_rows and rows.num_rows:
        both = pa.concat_batches([others, rows.select(others.schema.names)])
        order = order_of(both, schema)
        keep[order[hidden(both, order, schema)] - others.num_rows] = False
    return keep


@njit(cache=True, nogil=True)
def first_from(values: Integers, begins: Integers, ends: Integers, targets: Integers) -> Integers:
    """In each part [begin, end) of an array, which is ascending there, the first index not below the target.

    >>> first_from(np.array([1, 5, 0, 9]), np.array([0, 2]), np.array([2, 4]), np.array([2, 10])).tolist()
    [1, 4]
    """
    found = np.empty(len(targets), np.int64)
    for number in range(len(targets)):
        low, high, target = np.uintp(begins[number]), np.uintp(ends[number]), targets[number]
        while low < high:
            middle = (low + high) // np.uintp(2)
            if values[middle] < target:
                low = middle + np.uintp(1)
            else:
                high = middle
        found[number] = low
    return found
