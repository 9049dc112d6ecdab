"""Several sorted runs read as one: for each key what the newest of them says (pure).

The hashes of a shard are spread evenly, so that a range of hashes holds about the same share of each run. Runs are read
range by range, which bounds the memory by the size of a batch and not by that of the state.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headwater.flow.state.manifest import DELETED, HASH, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, as_mask, rows_equal
from headwater.flow.state.runs.run import Run, rows_per_batch, total_rows
from headwater.flow.state.runs.sorting import sorted_order


def combined(runs: Sequence[Run], schema: StateSchema, *, drop_deleted: bool) -> Iterator[pa.RecordBatch]:
    """All rows of some runs, given from the newest to the oldest, in batches of ascending hashes."""
    for pieces in ranges(runs):
        yield newest_rows(pieces, schema, drop_deleted=drop_deleted)


def ranges(runs: Sequence[Run]) -> Iterator[list[pa.RecordBatch]]:
    """Pieces of all runs for one range of hashes after the other; no hash is in two of them."""
    if not runs:
        return
    rows = total_rows(runs)
    limit = rows_per_batch(rows, sum(run.info.bytes for run in runs))
    largest = max(runs, key=lambda run: run.info.rows)
    step = max(1, largest.info.rows * limit // rows)
    cuts = [largest.hash_at(row) for row in range(step, largest.info.rows, step)]
    begins = [0] * len(runs)
    for cut in [*cuts, None]:
        ends = [run.info.rows if cut is None else run.place(cut) for run in runs]
        pieces = [
            piece for run, begin, end in zip(runs, begins, ends, strict=True) for piece in run.between(begin, end)
        ]
        begins = ends
        if pieces:
            yield pieces


def newest_rows(pieces: Sequence[pa.RecordBatch], schema: StateSchema, *, drop_deleted: bool) -> pa.RecordBatch:
    """The first row of each key among pieces that are given from the newest to the oldest, in the order of runs."""
    rows = pa.concat_batches(pieces) if len(pieces) > 1 else pieces[0]
    order = order_of(rows, schema)
    keep = ~hidden(rows, order, schema)
    if drop_deleted:
        keep &= ~as_mask(rows.column(DELETED))[order]
    if len(pieces) == 1 and keep.all():
        return rows
    return rows.take(order[keep])


def order_of(rows: pa.RecordBatch, schema: StateSchema) -> Integers:
    """Places of rows in the order of a run: by hash, then by the columns that order rows of the same hash."""
    return sorted_order(sort_columns(rows, schema))


def sort_columns(rows: pa.RecordBatch, schema: StateSchema) -> list[Integers]:
    return [rows.column(name).to_numpy() for name in (HASH, *schema.order)]


def hidden(rows: pa.RecordBatch, order: Integers, schema: StateSchema) -> Mask:
    """Which rows, in the given order, have a key that one before them has."""
    result = np.zeros(len(order), np.bool_)
    followers = followers_of([column[order] for column in sort_columns(rows, schema)])
    doubled = np.flatnonzero(followers)
    if not len(doubled):
        return result
    key = [name for name in schema.key.names if name not in schema.order]
    before, behind = (rows.select(key).take(order[places]) for places in (doubled - 1, doubled))
    result[doubled] = rows_equal(before.columns, behind.columns, len(doubled))
    if not result[doubled].all():
        _settle_collisions(result, rows.select(key), followers, order)
    return result


def followers_of(columns: Sequence[Integers]) -> Mask:
    """Which rows are the same in all of these columns as the row before them."""
    followers = np.zeros(len(columns[0]), np.bool_)
    if len(followers):
        followers[1:] = columns[0][1:] == columns[0][:-1]
    for column in columns[1:] if followers.any() else ():
        followers[1:] &= column[1:] == column[:-1]
    return followers


def _settle_collisions(result: Mask, keys: pa.RecordBatch, followers: Mask, order: Integers) -> None:
    """Hashes that different keys share: of 64 bits hardly ever, so that they are looked at one by one."""
    groups = np.cumsum(~followers)
    for group in np.unique(groups[followers & ~result]):
        begin, end = (int(np.searchsorted(groups, group, side=side)) for side in ("left", "right"))
        places = np.arange(begin, end)
        _hide_repeated(result, places, keys.take(order[places]))


def _hide_repeated(result: Mask, places: Integers, keys: pa.RecordBatch) -> None:
    for place in range(1, len(places)):
        earlier = np.arange(place)
        same = rows_equal(keys.take(np.full(place, place)).columns, keys.take(earlier).columns, place)
        result[places[place]] = bool(same.any())
