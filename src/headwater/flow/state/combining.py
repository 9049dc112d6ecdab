"""Several sorted runs read as one: for each key what the newest of them says (pure).

The hashes of a shard are spread evenly, so that a range of hashes holds about the same share of each run. Runs are read
range by range, which bounds the memory by the size of a batch and not by that of the state.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headwater.flow.state.equality import Integers, Mask, as_mask, rows_equal
from headwater.flow.state.manifest import DELETED, HASH
from headwater.flow.state.run import Run, rows_per_batch, total_rows


def combined(runs: Sequence[Run], key: Sequence[str], *, drop_deleted: bool) -> Iterator[pa.RecordBatch]:
    """All rows of some runs, given from the newest to the oldest, in batches of ascending hashes."""
    for pieces in ranges(runs):
        yield newest_rows(pieces, key, drop_deleted=drop_deleted)


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


def newest_rows(pieces: Sequence[pa.RecordBatch], key: Sequence[str], *, drop_deleted: bool) -> pa.RecordBatch:
    """The first row of each key among pieces that are given from the newest to the oldest, sorted by hash."""
    rows = pa.concat_batches(pieces) if len(pieces) > 1 else pieces[0]
    hashes = rows.column(HASH).to_numpy()
    order = np.argsort(hashes, kind="stable")
    keep = ~hidden(rows, hashes, order, key)
    if drop_deleted:
        keep &= ~as_mask(rows.column(DELETED))[order]
    if len(pieces) == 1 and keep.all():
        return rows
    return rows.take(order[keep])


def hidden(rows: pa.RecordBatch, hashes: Integers, order: Integers, key: Sequence[str]) -> Mask:
    """Which rows, in the given order by hash, have a key that one before them has."""
    result = np.zeros(len(order), np.bool_)
    ordered = hashes[order]
    doubled = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if not len(doubled):
        return result
    before, behind = (rows.select(key).take(order[places]) for places in (doubled - 1, doubled))
    result[doubled] = rows_equal(before.columns, behind.columns, len(doubled))
    if not result[doubled].all():
        _settle_collisions(result, rows, ordered, order, key)
    return result


def _settle_collisions(
    result: Mask, rows: pa.RecordBatch, ordered: Integers, order: Integers, key: Sequence[str]
) -> None:
    """Hashes that different keys share: of 64 bits hardly ever, so that they are looked at one by one."""
    followers = np.zeros(len(order), np.bool_)
    followers[1:] = ordered[1:] == ordered[:-1]
    for hash_ in np.unique(ordered[followers & ~result]):
        begin, end = (int(np.searchsorted(ordered, hash_, side=side)) for side in ("left", "right"))
        places = np.arange(begin, end)
        _hide_repeated(result, places, rows.select(key).take(order[places]))


def _hide_repeated(result: Mask, places: Integers, keys: pa.RecordBatch) -> None:
    for place in range(1, len(places)):
        earlier = np.arange(place)
        same = rows_equal(keys.take(np.full(place, place)).columns, keys.take(earlier).columns, place)
        result[places[place]] = bool(same.any())
