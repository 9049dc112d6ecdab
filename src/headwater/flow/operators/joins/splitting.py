"""A join key with very many rows is worked on by all tasks at once (pure but for the state).

    state of a shard      … │ ann: 2 rows │ celebrity: ─── 1,000,000 followers, by the hash of their own key ─── │ …
    slices                                             [ task 0 ][ task 1 ][ task 2 ][ task 3 ]
    a new post                                             └─────────┴─ goes to all of them

State stays where it is, in the shard of its join key: any task can read any shard of the version before. What is split
is the making of pairs. Each row of the larger side is in one slice, and each pair has one row of the larger side, so
that every pair is made once, whatever keys are split. Only the shard itself writes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.existence import existing_rows
from headwater.flow.operators.joins.hot_keys import HotKey
from headwater.flow.operators.joins.pairing import EXISTENCE
from headwater.flow.operators.joins.tables import (
    Asked,
    Bounds,
    JoinStep,
    TableJoin,
    asked_of,
    join_results,
    touched_rows,
    without,
    write_touched,
)
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import ShardState

HOT_ROWS = 50_000
"""A key with so many rows on one side is split: one task would need about a tenth of a second for its pairs."""
LEFT, RIGHT = 0, 1


class SplitStep(NamedTuple):
    step: JoinStep
    hot: tuple[HotKey, ...]
    """Keys of this batch that are to be split from the next one on."""


def may_split(join: TableJoin, side: int) -> bool:
    """Whether a row of the other side has a partner depends on all slices: then no join may ask."""
    return not (join.pairing.keeps_left if side == RIGHT else join.pairing.keeps_right)


def owner_step(
    join: TableJoin,
    left: ShardState,
    right: ShardState,
    given: tuple[pa.RecordBatch | None, pa.RecordBatch | None],
    hot: Sequence[HotKey] = (),
    hot_rows: int = HOT_ROWS,
) -> SplitStep:
    """What the task of a shard does: all but the pairs of keys that are split, which slices make."""
    touched = touched_rows(join.left, given[0]), touched_rows(join.right, given[1])
    asked = asked_of(*touched)
    elsewhere = np.array([one.hash for one in hot], np.int64)
    own = without(touched[0], elsewhere), without(touched[1], elsewhere)
    before, after = results_of(join)(join, left, right, own, asked_of(*own) if len(elsewhere) else asked)
    runs = write_touched(join.left, left, touched[0]), write_touched(join.right, right, touched[1])
    return SplitStep(JoinStep(before, after, runs), measured(join, (left, right), asked, hot_rows))


def slice_step(
    join: TableJoin,
    left: ShardState,
    right: ShardState,
    given: tuple[pa.RecordBatch | None, pa.RecordBatch | None],
    bounds: tuple[Bounds, Bounds],
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Pairs that are no longer and pairs that are, of one slice; `bounds` are those of `_row` of both sides."""
    touched = touched_rows(join.left, given[0]), touched_rows(join.right, given[1])
    return results_of(join)(join, left, right, touched, asked_of(*touched), bounds)


def results_of(join: TableJoin) -> Callable[..., tuple[pa.RecordBatch, pa.RecordBatch]]:
    return existing_rows if join.pairing.how in EXISTENCE else join_results


def slice_bounds(number: int, slices: int) -> Bounds:
    """Which hashes of rows are in a slice; they lie between −2⁶² and 2⁶², and there is a power of two of slices.

    >>> slice_bounds(0, 2) == (-(2**62), 0), slice_bounds(1, 2) == (0, 2**62)
    (True, True)
    """
    width = 2**63 // slices
    first = -(2**62) + number * width
    return Bounds(first, first + width)


def slice_bits(slices: int) -> int:
    """
    >>> slice_bits(8)
    3
    """
    return slices.bit_length() - 1


def measured(join: TableJoin, states: tuple[ShardState, ShardState], asked: Asked, hot_rows: int) -> tuple[HotKey, ...]:
    """The keys of a batch that have many rows: on each side those kept, about, and those that come."""
    counts = [
        state.held(asked.hashes) + np.bincount(groups, minlength=len(asked.hashes))
        for state, groups in zip(states, (asked.left, asked.right), strict=True)
    ]
    able = asked.can_meet
    found = []
    for side in (LEFT, RIGHT):
        more = (counts[side] > counts[1 - side]) if side == LEFT else (counts[side] >= counts[1 - side])
        if may_split(join, side):
            found += [
                HotKey(int(asked.hashes[place]), side, int(counts[side][place]), _shown(asked, int(place)))
                for place in np.flatnonzero(able & more & (counts[side] >= hot_rows))
            ]
    return tuple(found)


def _shown(asked: Asked, place: int) -> str:
    return ", ".join(str(column[place].as_py()) for column in asked.keys.columns)


def slices_of(own: Integers, slices: int) -> Integers:
    """The slice that each hash of a row is in."""
    if slices == 1:
        return np.zeros(len(own), np.int64)
    return (own >> (63 - slice_bits(slices))) + slices // 2
