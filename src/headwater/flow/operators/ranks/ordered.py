"""Rows of a table by group, kept in an order: what a batch changes beside the first rows of each touched group (pure).

All rows of a group are kept, for any of them may be among the first when another goes. They lie in their order, so that
the first of a group are read without those behind them: as many as are wanted, and as a batch takes away. What was
there before a batch and what is there after it come from the rows themselves; nothing is kept beside them.

    state    group │ code of the order │ hash of the row's own key │ the row
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.events import groups_of
from headwater.flow.operators.joins.pairing import renamed
from headwater.flow.operators.joins.tables import ROW, Side, Touched, untouched_rows
from headwater.flow.operators.order_codes import Order, order_codes
from headwater.flow.operators.ordering import sorted_places
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, rows_equal
from headwater.flow.state.shard import Fetched, ShardState, conformed

PLACE = "_place"
"""Where a row stands in the order (order_codes.py)."""


@dataclass(frozen=True)
class Ordered:
    """Groups are the values of `side.on`; without any, all rows are one."""

    side: Side
    order: tuple[Order, ...]

    @property
    def state(self) -> StateSchema:
        """That of a side of a join, sorted by the order first."""
        side = self.side.state
        return StateSchema(side.key.append(pa.field(PLACE, pa.int64())), side.values, (PLACE, ROW))

    def codes(self, rows: pa.RecordBatch) -> Integers:
        return order_codes([rows.column(one.column) for one in self.order], self.order)


class Placed(NamedTuple):
    """Rows that are there at a time: their groups and their places among the rows that are looked at."""

    groups: Integers
    places: Integers


class Looked(NamedTuple):
    """The groups of a batch, and the rows of them that it looks at: those it touches, and others that are kept."""

    keys: pa.RecordBatch
    rows: pa.RecordBatch
    before: Placed
    after: Placed
    touched: int
    """So many rows, the first, are what touched ones were or are."""

    @property
    def groups(self) -> int:
        return int(self.keys.num_rows)


class TouchedGroups(NamedTuple):
    """The groups that a batch touches, and which of them each touched row is in."""

    hashes: Integers
    keys: pa.RecordBatch
    of: Integers
    taken: Integers
    """How many rows of each the batch takes away or changes."""

    @classmethod
    def by(cls, side: Side, touched: Touched) -> "TouchedGroups":
        (of,) = groups_of([(touched.hashes, touched.keys)])
        _, first = np.unique(of, return_index=True)
        taken = np.bincount(of[touched.before >= 0], minlength=len(first))
        return cls(touched.hashes[first], renamed(touched.keys.take(pa.array(first)), side.on), of, taken)


def looked_at(work: Ordered, touched: Touched, groups: TouchedGroups, found: Fetched) -> Looked:
    """Touched rows beside those of the state that a batch does not change."""
    untouched = untouched_rows(work.side, touched, found.rows)
    kept = conformed(found.rows.filter(pa.array(untouched)).select(work.side.columns.names), touched.rows.schema)
    rows = pa.concat_batches([touched.rows, kept])
    there = touched.rows.num_rows + np.arange(kept.num_rows)
    of_kept = found.places[untouched]
    before, after = (
        Placed(np.concatenate([groups.of[own >= 0], of_kept]), np.concatenate([own[own >= 0], there]))
        for own in (touched.before, touched.after)
    )
    return Looked(groups.keys, rows, before, after, touched.rows.num_rows)


def heights(work: Ordered, rows: pa.RecordBatch) -> list[Integers]:
    """For each column of the order, numbers that rise as rows come later in it; equal values have the same."""
    return [_heights(rows.column(one.column), one) for one in work.order]


def _heights(column: pa.Array, one: Order) -> Integers:
    order = sorted_places([column])
    sorted_column, count = column.take(pa.array(order)), len(order)
    same = rows_equal([sorted_column.slice(1)], [sorted_column.slice(0, max(count - 1, 0))], max(count - 1, 0))
    found = np.empty(count, np.int64)
    found[order] = np.cumsum(np.append(False, ~same))[:count]
    if one.descending:
        found = -found
    if column.null_count:
        found[np.asarray(column.is_null(), np.bool_)] = -count - 1 if one.nulls_first else count + 1
    return found


def own_places(work: Ordered, rows: pa.RecordBatch) -> Integers:
    """Places of rows by the key of their table, which decides between rows of one place in the order."""
    if not work.side.key:  # of a table of one row; before and after a batch it has one place
        return np.zeros(rows.num_rows, np.int64)
    places = np.empty(rows.num_rows, np.int64)
    places[sorted_places([rows.column(name) for name in work.side.key])] = np.arange(rows.num_rows)
    return places


class Numbered(NamedTuple):
    """Rows of a time in the order of their groups, and the places they have there, from 1 on."""

    order: Integers
    """Indexes of the rows that are there."""
    row_number: Integers
    rank: Integers
    dense_rank: Integers


def numbered(placed: Placed, high: list[Integers], own: Integers, count: int) -> Numbered:
    """`high` are heights of all rows, `own` their places by key."""
    groups, places = placed
    columns = [groups, *(one[places] for one in high)]
    order = np.lexsort([own[places], *columns[::-1]])
    if not len(order):
        nothing = np.empty(0, np.int64)
        return Numbered(order, nothing, nothing, nothing)
    begins = np.searchsorted(groups[order], np.arange(count), side="left")[groups[order]]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = ~_follows([column[order] for column in columns])
    index = np.arange(len(order))
    of_values: Integers = np.cumsum(fresh)
    first: Integers = np.maximum.accumulate(np.where(fresh, index, 0))
    return Numbered(
        order,
        index - begins + 1,
        first - begins + 1,
        of_values - of_values[begins] + 1,
    )


def _follows(columns: list[Integers]) -> Mask:
    """Which rows, from the second on, have the same values as the one before."""
    same = np.ones(len(columns[0]) - 1, np.bool_)
    for column in columns:
        same &= column[1:] == column[:-1]
    return same


def written(work: Ordered, state: ShardState, touched: Touched, known: Mask | None = None) -> RunInfo | None:
    """A row that gets another place in the order is written there, and deleted where it was.

    `known` are touched rows that belong to a group; None: all do.
    """
    places = work.codes(touched.rows)
    known = np.ones(len(touched.hashes), np.bool_) if known is None else known
    is_, was = touched.after >= 0, touched.before >= 0
    stays = is_ & was
    stays[stays] = places[touched.before[stays]] == places[touched.after[stays]]
    put, gone = np.flatnonzero(known & is_), np.flatnonzero(known & was & ~stays)
    entities, at = np.concatenate([put, gone]), np.concatenate([touched.after[put], touched.before[gone]])
    deleted = np.arange(len(entities)) >= len(put)
    columns = {HASH: pa.array(touched.hashes[entities]), ROW: pa.array(touched.own[entities])}
    columns |= {PLACE: pa.array(places[at]), DELETED: pa.array(deleted)}
    rows = touched.rows.take(pa.array(at))
    batch = pa.RecordBatch.from_arrays([*columns.values(), *rows.columns], names=[*columns, *rows.schema.names])
    return state.write(batch, existed=deleted | stays[entities])
