"""All versions of a table's rows, each with since when and until when it holds (a slowly changing dimension of type 2).

A version holds from its time until that of the next version of its key, or until its own end if that comes first. Of
versions with the same key and time the last in the log counts; one that is deleted ends the one before it, and is no
row itself. A version that comes late changes itself and the one before it, whatever came in between.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.joins.events import (
    FAR_US,
    POSITION,
    EventRows,
    Events,
    arrived,
    groups_of,
    kept,
    together,
)
from headwater.flow.operators.joins.pairing import renamed, taken_or_null
from headwater.flow.state.manifest import HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, as_mask
from headwater.flow.state.shard import ShardState

GONE, UNTIL = EXTRA = ("_gone", "_until")
"""Of a version: is the row deleted, and when does it end by itself, in microseconds."""
MOMENT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class History:
    """`columns` are those of the table; the ones that are called as `valid_from` and `valid_to` are replaced."""

    columns: pa.Schema
    by: tuple[str, ...]
    valid_from: str
    valid_to: str

    @property
    def versions(self) -> Events:
        own = [pa.field(field.name, field.type) for field in self.columns]
        return Events(pa.schema([*own, pa.field(GONE, pa.bool_()), pa.field(UNTIL, pa.int64())]), self.by)

    @property
    def state(self) -> StateSchema:
        return self.versions.state

    @property
    def key(self) -> pa.Schema:
        own = [pa.field(name, self.columns.field(name).type) for name in self.by]
        return pa.schema([*own, pa.field(self.valid_from, MOMENT)])

    @property
    def others(self) -> list[str]:
        return [name for name in self.columns.names if name not in (*self.by, self.valid_from, self.valid_to)]

    @property
    def values(self) -> pa.Schema:
        own = [pa.field(name, self.columns.field(name).type) for name in self.others]
        return pa.schema([*own, pa.field(self.valid_to, MOMENT)])


class HistoryStep(NamedTuple):
    changes: pa.RecordBatch
    run: RunInfo | None


class _Versions(NamedTuple):
    """Versions of some keys in the order of key, time and log; `numbers` tell apart those of another key or time."""

    rows: EventRows
    groups: Integers
    numbers: Integers
    fresh: Mask


class _Holding(NamedTuple):
    """For each number the place of the version that holds, −1 for none, and when it ends."""

    places: Integers
    ends: Integers


def history_step(work: History, state: ShardState, given: pa.RecordBatch | None) -> HistoryStep:
    """`given` are versions, with `_hash` of their key, where they lie, `_gone` and `_until`."""
    fresh = arrived(work.versions, given)
    found = _of_touched_keys(work, state, fresh)
    before, after = (_holding(found, counts) for counts in (~found.fresh, np.ones(len(found.fresh), np.bool_)))
    _, first = np.unique(found.numbers, return_index=True)
    keys = found.rows.rows.select(list(work.by)).take(pa.array(first)).columns
    moments = pa.array(found.rows.times[first]).cast(MOMENT)
    changes = merge_changes(
        pa.RecordBatch.from_arrays([*keys, moments], schema=work.key),
        before.places >= 0, _values(work, found.rows, before), after.places >= 0, _values(work, found.rows, after),
    )  # fmt: skip
    return HistoryStep(changes, _written(work, state, fresh))


def _of_touched_keys(work: History, state: ShardState, fresh: EventRows) -> _Versions:
    """All versions of the keys that a batch brings versions of."""
    keys = fresh.keys(work.versions)
    (groups,) = groups_of([(fresh.hashes, keys)])
    asked, first = np.unique(groups, return_index=True)
    low, high = np.full(len(asked), -FAR_US), np.full(len(asked), FAR_US)
    found = state.fetch(fresh.hashes[first], renamed(keys.take(pa.array(first)), work.by), low, high)
    rows = together([kept(work.versions, found.rows), fresh])
    owners = np.concatenate([asked[found.places], groups])
    order = np.lexsort([*(rows.position.column(name).to_numpy() for name in reversed(POSITION)), owners])
    rows, owners = rows.take(order), owners[order]
    is_fresh = (np.arange(len(order)) >= len(found.places))[order]
    return _Versions(rows, owners, np.cumsum(_begins(owners, rows.times)) - 1, is_fresh)


def _begins(groups: Integers, times: Integers) -> Mask:
    """Which rows are the first of their key and time."""
    if not len(groups):
        return np.zeros(0, np.bool_)
    return np.append(True, (groups[1:] != groups[:-1]) | (times[1:] != times[:-1]))


def _holding(found: _Versions, counts: Mask) -> _Holding:
    """What holds if only some versions count. One that another of its time follows ends as it begins."""
    count, chosen = _count(found), np.flatnonzero(counts)
    places, ends = np.full(count, -1), np.full(count, FAR_US)
    if len(chosen):
        times, groups = found.rows.times[chosen], found.groups[chosen]
        until = found.rows.rows.column(UNTIL).fill_null(FAR_US).to_numpy()[chosen]
        following = np.append(np.where(groups[1:] == groups[:-1], times[1:], FAR_US), FAR_US)
        end = np.minimum(until, following)
        there = ~as_mask(found.rows.rows.column(GONE))[chosen] & (end > times)
        places[found.numbers[chosen[there]]] = chosen[there]
        ends[found.numbers[chosen[there]]] = end[there]
    return _Holding(places, ends)


def _count(found: _Versions) -> int:
    return int(found.numbers[-1]) + 1 if len(found.numbers) else 0


def _values(work: History, rows: EventRows, holding: _Holding) -> pa.RecordBatch:
    own = [taken_or_null(rows.rows.select([name]), holding.places).column(0) for name in work.others]
    ends = pa.array(holding.ends, mask=holding.ends >= FAR_US).cast(MOMENT)
    return pa.RecordBatch.from_arrays([*own, ends], schema=work.values)


def _written(work: History, state: ShardState, fresh: EventRows) -> RunInfo | None:
    columns = {HASH: pa.array(fresh.hashes)} | {name: fresh.rows.column(name) for name in work.versions.columns.names}
    columns |= {name: fresh.position.column(name) for name in POSITION}
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return state.write(rows, existed=np.zeros(rows.num_rows, np.bool_))
