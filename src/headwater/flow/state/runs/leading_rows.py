"""The first rows of some keys, in the order of runs, without reading what lies behind them.

    run      4 4 7 9 9 | 12 15 …          each run is read up to a count, and says what it goes on with: its edge
    run      3 5 | 8 8 11 …
    certain  3 4 4 5 7                    what lies before the lowest edge is known of all runs

Behind the lowest edge one run may hide, delete or precede what another says. If too few rows are left before it, for
many are deleted or stand at the same place of the order, more is read of these keys.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.state.manifest import DELETED, StateSchema
from headwater.flow.state.runs.equality import Integers, rows_equal
from headwater.flow.state.runs.run import Run
from headwater.flow.state.runs.run_union import hidden, order_of
from headwater.flow.state.runs.sorting import sorted_order

NO_EDGE = 2**63 - 1
"""Behind all: the first column of order must be below it."""
MORE = 4
"""So many times as much is read of keys of which it was not enough."""


class Leading(NamedTuple):
    """Live rows, sorted as runs are, and the place of each one's key among those asked for."""

    places: Integers
    rows: pa.RecordBatch


class _Read(NamedTuple):
    places: Integers
    rows: pa.RecordBatch
    edges: Integers


def leading_rows(
    runs: Sequence[Run], schema: StateSchema, hashes: Integers, keys: pa.RecordBatch, counts: Integers
) -> Leading:
    """Of each key at least so many rows as counted, or all it has; runs are given from the newest to the oldest."""
    order = sorted_order([hashes])
    limits = first_limits(counts)
    places, pieces = [np.empty(0, np.int64)], [pa.RecordBatch.from_pylist([], schema.rows)]
    while len(order):
        read = _read(runs, schema, hashes[order], keys.take(pa.array(order)), limits[order])
        found = np.bincount(read.places, minlength=len(order))
        enough = (found >= counts[order]) | (read.edges == NO_EDGE)
        chosen = enough[read.places]
        places.append(order[read.places[chosen]])
        pieces.append(read.rows.filter(pa.array(chosen)))
        order = order[~enough]
        limits[order] *= MORE
    return Leading(np.concatenate(places), pa.concat_batches(pieces))


def first_limits(counts: Integers) -> Integers:
    """A little more than is asked for: a few of the rows may be deleted."""
    return counts + counts // 4 + 4


def _read(runs: Sequence[Run], schema: StateSchema, wanted: Integers, keys: pa.RecordBatch, limits: Integers) -> _Read:
    """What is certain after reading each run up to its limit; `wanted` are ascending hashes."""
    edges = np.full(len(wanted), NO_EDGE)
    places, pieces = [np.empty(0, np.int64)], [pa.RecordBatch.from_pylist([], schema.rows)]
    for run in runs:
        for part in run.leading(wanted, limits, schema.order[0]):
            places.append(part.among)
            pieces.append(part.batch.take(part.rows))
            edges[part.goes_on] = np.minimum(edges[part.goes_on], part.edges)
    found, rows = np.concatenate(places), pa.concat_batches(pieces)
    same = rows_equal(rows.select(keys.schema.names).columns, keys.take(pa.array(found)).columns, len(found))
    if not same.all():
        found, rows = found[same], rows.filter(pa.array(same))
    order = order_of(rows, schema)
    live = ~hidden(rows, order, schema) & ~np.asarray(rows.column(DELETED).to_numpy(zero_copy_only=False))[order]
    certain = rows.column(schema.order[0]).to_numpy()[order] < edges[found[order]]
    order = order[live & certain]
    return _Read(found[order], rows.take(order), edges)
