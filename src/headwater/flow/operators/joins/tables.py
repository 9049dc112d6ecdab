"""Two tables joined, kept up to date: what a batch changes on either side changes the pairs of the rows it touches.

Each side is kept by the columns it is joined on, and in these by its own key: all rows of a join key lie side by side.
A pair is looked at if one of its rows is touched,

    touched left  × all of the right
    others of the left × touched right

and is there before or after the batch if both its rows are. So every pair is emitted once, with what it was and is,
whatever changes on both sides at once. A row without a partner is there if no row of its join key meets it; only for
these the whole side has to be known.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operators.joins.pairing import Pairing, renamed, without_nulls
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.operators.windows.panes import not_among
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, rows_equal
from headwater.flow.state.runs.hash_search import expanded
from headwater.flow.state.shard import ShardState, conformed, empty_rows

ROW = "_row"
"""A hash of the row's own key, by which rows of one join key are sorted."""
AFTER = "_after"
"""Is it the row that a change leaves behind, or the one that it replaces?"""


@dataclass(frozen=True)
class Side:
    """The columns of a table, its key, and those it is joined on."""

    columns: pa.Schema
    key: tuple[str, ...]
    on: tuple[str, ...]

    @property
    def state(self) -> StateSchema:
        names = [*self.on, *(name for name in self.key if name not in self.on)]
        key = pa.schema([*(self.columns.field(name) for name in names), pa.field(ROW, pa.int64())])
        values = pa.schema([field for field in self.columns if field.name not in names])
        return StateSchema(key, values, (ROW,))


@dataclass(frozen=True)
class TableJoin:
    left: Side
    right: Side
    pairing: Pairing

    @property
    def counts(self) -> bool:
        """Whether rows have partners has to be known, and that depends on more than their keys."""
        return bool(self.pairing.further) and self.pairing.how != "inner"


class JoinStep(NamedTuple):
    """Rows that are no longer, rows that are now, and the runs of the left and the right to be committed."""

    before: pa.RecordBatch
    after: pa.RecordBatch
    runs: tuple[RunInfo | None, RunInfo | None]


class Touched(NamedTuple):
    """Rows of one side that a batch changes, each once: places of what it was and is in `rows`, −1 for nothing."""

    rows: pa.RecordBatch
    hashes: Integers
    own: Integers
    keys: pa.RecordBatch
    """What they are joined on."""
    before: Integers
    after: Integers


class Entities(NamedTuple):
    """Rows of one side that pairs are made of, sorted by their join key, touched ones first."""

    rows: pa.RecordBatch
    groups: Integers
    touched: Mask
    before: Integers
    after: Integers

    def bounds(self, groups: int) -> tuple[Integers, Integers, Integers]:
        """Where the rows of each join key begin, the touched ones of them end, and all end."""
        ends = np.searchsorted(self.groups, np.arange(groups), side="right")
        begins = np.append(0, ends)[:-1]
        return begins, begins + np.bincount(self.groups[self.touched], minlength=groups), ends


class Bounds(NamedTuple):
    """A range of `_row`, up to its end without it."""

    first: int
    end: int


ALL_ROWS = Bounds(-(2**63), 2**63 - 1)
Both = tuple["Touched", "Touched"]


def asked_of(left: Touched, right: Touched) -> "Asked":
    hashes = np.concatenate([left.hashes, right.hashes])
    keys = pa.concat_batches([left.keys, right.keys])
    order, firsts = grouped([hashes], keys)
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(firsts) - 1
    one = order[firsts]
    return Asked(hashes[one], keys.take(pa.array(one)), groups[: len(left.hashes)], groups[len(left.hashes) :])


def join_results(
    join: TableJoin,
    left: ShardState,
    right: ShardState,
    touched: Both,
    asked: "Asked",
    bounds: tuple[Bounds, Bounds] = (ALL_ROWS, ALL_ROWS),
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Rows of the result that are no longer, and those that are; of rows kept, those within bounds are looked at."""
    ours = entities_of(join.left, left, touched[0], asked, asked.left, _wanted(asked, 0, join), bounds[0])
    theirs = entities_of(join.right, right, touched[1], asked, asked.right, _wanted(asked, 1, join), bounds[1])
    return _results(join, ours, theirs, asked)


class Asked(NamedTuple):
    """The join keys of a batch, each once, and which of them the touched rows of either side have."""

    hashes: Integers
    keys: pa.RecordBatch
    left: Integers
    right: Integers

    @property
    def can_meet(self) -> Mask:
        return without_nulls(self.keys)


def incoming(side: Side) -> pa.Schema:
    return pa.schema(
        [pa.field(HASH, pa.int64()), pa.field(ROW, pa.int64()), pa.field(AFTER, pa.bool_()), *side.columns]
    )


def touched_rows(side: Side, given: pa.RecordBatch | None) -> Touched:
    """What a batch changes of a table, from both sides of each change."""
    given = empty_rows(incoming(side), 0) if given is None else given
    rows = conformed(given, side.columns)
    hashes, own = (given.column(name).to_numpy() for name in (HASH, ROW))
    is_after = given.column(AFTER).to_numpy(zero_copy_only=False)
    identity = rows.select(side.state.key.names[:-1])
    order, firsts = grouped([hashes, own], identity, within=[is_after.astype(np.int64)])
    numbers = np.cumsum(firsts) - 1
    count = int(firsts.sum())
    before, after = np.full(count, -1), np.full(count, -1)
    before[numbers[~is_after[order]]] = order[~is_after[order]]
    after[numbers[is_after[order]]] = order[is_after[order]]
    if (before >= 0).sum() + (after >= 0).sum() != len(order):
        raise FlowError(
            "a batch changes a row of a joined table twice", "This is a bug in headwater; please report it."
        )
    first = order[firsts]
    keys = renamed(rows.select(list(side.on)).take(pa.array(first)), _numbered(side.on))
    touched = Touched(rows, hashes[first], own[first], keys, before, after)
    return _changed(touched)


def _changed(touched: Touched) -> Touched:
    """Without those that are as they were."""
    both = np.flatnonzero((touched.before >= 0) & (touched.after >= 0))
    was, is_ = (touched.rows.take(pa.array(places[both])) for places in (touched.before, touched.after))
    keep = np.ones(len(touched.before), np.bool_)
    keep[both[rows_equal(was.columns, is_.columns, len(both))]] = False
    return _kept(touched, keep)


def without(touched: Touched, hashes: Integers) -> Touched:
    """All but those of some join keys."""
    return _kept(touched, ~np.isin(touched.hashes, hashes))


def _kept(touched: Touched, keep: Mask) -> Touched:
    if keep.all():
        return touched
    return Touched(
        touched.rows, touched.hashes[keep], touched.own[keep], touched.keys.filter(pa.array(keep)),
        touched.before[keep], touched.after[keep],
    )  # fmt: skip


def _numbered(on: tuple[str, ...]) -> list[str]:
    return [f"_k{place}" for place in range(len(on))]


def _wanted(asked: Asked, side: int, join: TableJoin) -> Mask:
    """The join keys of which all rows of a side must be known."""
    count = len(asked.hashes)
    mine, others = (np.bincount(part, minlength=count) > 0 for part in (asked.left, asked.right)[:: -1 if side else 1])
    # Whether rows of the other side have partners depends on all of this one.
    keeps_other = join.pairing.keeps_left if side else join.pairing.keeps_right
    return np.asarray((others | (mine & keeps_other)) & asked.can_meet, np.bool_)


def entities_of(
    side: Side, state: ShardState, touched: Touched, asked: Asked, groups: Integers, wanted: Mask, bounds: Bounds
) -> Entities:
    places = np.flatnonzero(wanted)
    found = state.matches(asked.hashes[places], renamed(asked.keys.take(pa.array(places)), side.on), *bounds)
    untouched = untouched_rows(side, touched, found.rows)
    kept, kept_groups = found.rows.filter(pa.array(untouched)), places[found.places[untouched]]
    rows = pa.concat_batches([touched.rows, conformed(kept, touched.rows.schema)])
    there = touched.rows.num_rows + np.arange(len(kept_groups))
    columns = [
        np.concatenate([groups, kept_groups]),
        np.append(np.ones(len(groups), np.bool_), np.zeros(len(there), np.bool_)),
        np.concatenate([touched.before, there]),
        np.concatenate([touched.after, there]),
    ]
    order = np.lexsort([~columns[1], columns[0]])
    return Entities(rows, *(column[order] for column in columns))


def untouched_rows(side: Side, touched: Touched, rows: pa.RecordBatch) -> Mask:
    """Which rows of the state a batch does not change."""
    return not_among(side.state, rows, _state_rows(side, touched).select([HASH, *side.state.key.names]))


def _state_rows(side: Side, touched: Touched) -> pa.RecordBatch:
    """What the state is to hold of touched rows, and which are deleted; their keys are the same before and after."""
    gone = touched.after < 0
    rows = touched.rows.take(pa.array(np.where(gone, touched.before, touched.after)))
    extra = pa.RecordBatch.from_arrays(
        [pa.array(touched.hashes), pa.array(touched.own), pa.array(gone)], [HASH, ROW, DELETED]
    )
    return pa.RecordBatch.from_arrays([*extra.columns, *rows.columns], names=[*extra.schema.names, *rows.schema.names])


def write_touched(side: Side, state: ShardState, touched: Touched) -> RunInfo | None:
    """Rows that can meet none are not kept: what they were is emitted with every change."""
    can_meet = without_nulls(touched.keys)
    rows = _state_rows(side, touched).filter(pa.array(can_meet))
    return state.write(rows, existed=touched.before[can_meet] >= 0)


def write_all(side: Side, state: ShardState, touched: Touched) -> RunInfo | None:
    """Also rows with a null in what they lie by: they have partners where rows are not joined on it."""
    return state.write(_state_rows(side, touched), existed=touched.before >= 0)


class Pairs(NamedTuple):
    """Numbers of entities of both sides."""

    left: Integers
    right: Integers


def _results(join: TableJoin, ours: Entities, theirs: Entities, asked: Asked) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    pairs = pairs_of(ours, theirs, asked, everything=join.counts)
    made = []
    for time in ("before", "after"):
        mine, other = getattr(ours, time), getattr(theirs, time)
        there = (mine[pairs.left] >= 0) & (other[pairs.right] >= 0)
        there[there] = join.pairing.meets(ours.rows, theirs.rows, mine[pairs.left[there]], other[pairs.right[there]])
        left_at, right_at = [mine[pairs.left[there]]], [other[pairs.right[there]]]
        if join.pairing.keeps_left:
            alone = _alone(join, ours, mine, pairs.left[there], _partners(theirs, other, asked))
            left_at, right_at = [*left_at, mine[alone]], [*right_at, np.full(len(alone), -1)]
        if join.pairing.keeps_right:
            alone = _alone(join, theirs, other, pairs.right[there], _partners(ours, mine, asked))
            left_at, right_at = [*left_at, np.full(len(alone), -1)], [*right_at, other[alone]]
        columns = join.pairing.made(ours.rows, theirs.rows, np.concatenate(left_at), np.concatenate(right_at))
        made.append(pa.RecordBatch.from_arrays(columns, schema=join.pairing.columns))
    return made[0], made[1]


def pairs_of(ours: Entities, theirs: Entities, asked: Asked, *, everything: bool) -> Pairs:
    begins, touched_ends, ends = theirs.bounds(len(asked.hashes))
    group = ours.groups
    until = np.where(ours.touched | everything, ends[group], touched_ends[group])
    lengths = np.where(asked.can_meet[group], until - begins[group], 0)
    return Pairs(np.repeat(np.arange(len(group)), lengths), expanded(begins[group], lengths))


def _partners(others: Entities, places: Integers, asked: Asked) -> Integers:
    """How many rows of the other side each join key has."""
    counts = np.bincount(others.groups[places >= 0], minlength=len(asked.hashes))
    return np.where(asked.can_meet, counts, 0)


def _alone(join: TableJoin, entities: Entities, places: Integers, met: Integers, partners: Integers) -> Integers:
    """Numbers of rows that are there and have no partner."""
    if join.counts:
        has = np.bincount(met, minlength=len(places)) > 0
    else:
        has = partners[entities.groups] > 0
    return np.flatnonzero((places >= 0) & ~has)
