"""The first row of each key within a time (pure): what repeats it is a duplicate.

For each key the time of the row that was let through last is kept. Rows of a batch are taken in the order of their time
and position; one that lies within the time of it, before or after, repeats it. The next that does not is let through,
and counts from there on.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from headwater.flow.operators.ordering import sorted_places
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, rows_equal
from headwater.flow.state.shard import ShardState, conformed

KEPT_AT = "_kept_at"
STATE = pa.schema([pa.field(KEPT_AT, pa.int64())])
NEVER = np.int64(-(2**63))


class Passed(NamedTuple):
    """Which rows are let through, and the run that remembers it."""

    rows: Mask
    run: RunInfo | None


def state_of(key: pa.Schema) -> StateSchema:
    return StateSchema(key, STATE)


def dedupe_step(
    state: ShardState, rows: pa.RecordBatch, times_us: Integers, position: list[Integers], within_us: int,
    *, expired_us: int | None,
) -> Passed:  # fmt: skip
    """`rows` has `_hash` and the key; `position` puts rows of one time in order, its most important column first.

    With `expired_us`, keys whose row lies before that are forgotten: nothing that may still come can repeat them.
    """
    hashes = rows.column(HASH).to_numpy()
    keys = conformed(rows, state.schema.key)
    order, starts = _grouped(hashes, keys, [times_us, *position])
    first_of = order[starts]
    found = state.lookup(hashes[first_of], keys.take(first_of))
    kept_us = np.where(found.mask, found.values.column(KEPT_AT).fill_null(0).to_numpy(zero_copy_only=False), NEVER)
    passed, newest_us = _pass(times_us[order], np.append(starts, len(order)), kept_us, within_us)
    flags = np.zeros(len(order), np.bool_)
    flags[order] = passed
    changed = newest_us != kept_us
    written = _rows(hashes[first_of], keys.take(first_of), newest_us).filter(pa.array(changed))
    if expired_us is not None:
        written = _with_expired(state, written, expired_us)
    return Passed(flags, state.write(written))


def _grouped(hashes: Integers, keys: pa.RecordBatch, by: list[Integers]) -> tuple[Integers, Integers]:
    """Rows of a key together and in order, and where each key's begin."""
    order = np.lexsort([*reversed(by), hashes])
    starts = _starts(hashes[order], keys.take(order))
    if len(starts) > len(np.unique(hashes)):  # different keys of one hash lie between each other
        order = sorted_places([pa.array(hashes), *keys.columns, *map(pa.array, by)])
        starts = _starts(hashes[order], keys.take(order))
    return order, starts


def _starts(hashes: Integers, keys: pa.RecordBatch) -> Integers:
    """Where the rows of another key begin."""
    if not len(hashes):
        return np.empty(0, np.int64)
    same = rows_equal(keys.slice(1).columns, keys.slice(0, len(hashes) - 1).columns, len(hashes) - 1)
    return np.flatnonzero(np.append(True, (hashes[1:] != hashes[:-1]) | ~same))


def _rows(hashes: Integers, keys: pa.RecordBatch, times_us: Integers) -> pa.RecordBatch:
    fields = [pa.field(HASH, pa.int64()), *keys.schema, *STATE]
    return pa.RecordBatch.from_arrays([pa.array(hashes), *keys.columns, pa.array(times_us)], schema=pa.schema(fields))


def _with_expired(state: ShardState, written: pa.RecordBatch, expired_us: int) -> pa.RecordBatch:
    """What is written, and a deletion of every key that is too old; one that has just come again is not."""
    kept = [
        batch.filter(pa.array(batch.column(KEPT_AT).to_numpy() < expired_us)).select(written.schema.names)
        for batch in state.scan()
    ]
    old = pa.Table.from_batches(kept, written.schema) if kept else written.schema.empty_table()
    fresh = pa.Table.from_batches([written])
    names = [HASH, *state.schema.key.names]
    old = old.join(fresh.select(names), names, join_type="left anti").select(written.schema.names)
    both = pa.concat_tables([_marked(fresh, False), _marked(old, True)]).combine_chunks()
    return both.to_batches()[0] if len(both) else pa.RecordBatch.from_pylist([], both.schema)


def _marked(rows: pa.Table, deleted: bool) -> pa.Table:
    return rows.append_column(DELETED, pa.array(np.full(len(rows), deleted)))


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _pass(
    times_us: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64], kept_us: npt.NDArray[np.int64], within_us: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    passed = np.zeros(len(times_us), np.bool_)
    newest = kept_us.copy()
    for group in range(len(bounds) - 1):
        kept = newest[group]
        for row in range(bounds[group], bounds[group + 1]):
            time = times_us[row]
            if kept != NEVER and time - kept <= within_us and kept - time <= within_us:
                continue
            passed[row] = True
            kept = max(kept, time)
        newest[group] = kept
    return passed, newest
