"""Sessions: rows of a key that follow each other within a gap, or exactly a gap apart.

State is kept for each session: its first time, which with the user's columns is its key, its last time, and the columns
of the aggregates. It lies in the slot of its end, so that what the watermark has left behind is dropped; a session that
grows beyond its slot is deleted there and written to another. Rows may join sessions that were apart: what they swallow
is taken back, and the whole is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.aggregation.aggregates import Aggregate, state_schema
from headwater.flow.operators.aggregation.merging import absorbed
from headwater.flow.operators.windows.clock import NEVER_US, WindowClock
from headwater.flow.operators.windows.folding import fold_groups
from headwater.flow.operators.windows.grouping import grouped, taken
from headwater.flow.operators.windows.kinds.fixed import result_keys
from headwater.flow.operators.windows.panes import beside, not_among
from headwater.flow.operators.windows.places import Places, of_groups
from headwater.flow.operators.windows.shapes import Session, aligned
from headwater.flow.operators.windows.state import Placed, WindowState
from headwater.flow.operators.windows.step import NAMES, Seen, WindowStep, changes_of, refuse_late
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.sorting import sorted_order
from headwater.flow.state.shard import conformed, empty_rows

FIRST, LAST, BUCKET = "first_time", "last_time", "bucket"


@dataclass(frozen=True)
class Sessions:
    """A gap, the aggregates, and how much time a slot of state shall cover at least."""

    window: Session
    specs: tuple[Aggregate, ...]
    slot_us: int
    columns = (pa.field(FIRST, pa.int64()), pa.field(LAST, pa.int64()))
    names = NAMES
    more_values = ()
    reach_us = 0

    def state(self, by: pa.Schema) -> StateSchema:
        values = pa.schema([pa.field(LAST, pa.int64()), *state_schema(self.specs)])
        return StateSchema(pa.schema([*by, pa.field(FIRST, pa.int64())]), values, (FIRST,))

    def drop_below(self, clock: WindowClock) -> int | None:
        """Sessions of a slot are over when the slot is."""
        return None if clock.watermark_us is None else clock.forgotten_us

    def place(self, times_us: Integers, position: Mapping[str, Integers]) -> Places:
        """Each row as a session of its own."""
        return {FIRST: times_us, LAST: times_us}

    def group(self, places: Places) -> Places:
        """Rows of one bucket are less than a gap apart, and so always of one session."""
        return {BUCKET: places[FIRST] // self.window.gap_us}

    def combined(self, places: Places, order: Integers, begins: Integers) -> Places:
        """From the first row of each group to its last."""
        if not len(begins):
            return of_groups(places, order, begins)
        firsts, lasts = places[FIRST][order], places[LAST][order]
        return {FIRST: np.minimum.reduceat(firsts, begins), LAST: np.maximum.reduceat(lasts, begins)}

    def earliest(self, times_us: Integers) -> None:
        """Unknown: it depends on other rows of the key."""

    def late_before(self, forgotten_us: int) -> int:
        return forgotten_us

    def step(self, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        """`incoming` has `_hash`, the user's columns, first and last time, and partial columns; rows of one key that
        were reduced together lie less than a gap apart.
        """
        refuse_late(incoming.column(FIRST).to_numpy() < clock.forgotten_us, clock)
        lines = _lines(self, state, incoming)
        joined = _joined(self, lines)
        parts = [_seen(self, lines, joined)]
        if clock.tells_end and clock.moved:
            parts.append(_closing(self, state, lines, joined, clock))
        runs = _written(self, state, lines, joined)
        return WindowStep(changes_of(parts, self.specs, clock), runs, self.drop_below(clock))

    def slot_ranges(self, ends: Integers) -> tuple[Integers, Integers]:
        return aligned(ends, max(self.slot_us, self.window.gap_us), 1, 0)


class Lines(NamedTuple):
    """Pieces of sessions of some keys, in the order of key and time: kept sessions that a batch may touch, and what
    came in. `slots` says which slot a kept one lies in, and is −1 for what came in.
    """

    groups: Integers
    firsts: Integers
    lasts: Integers
    slots: Integers
    states: pa.RecordBatch
    hashes: Integers
    keys: pa.RecordBatch
    """One row for each key, as `hashes`."""

    def named(self, groups: Integers, firsts: Integers) -> pa.RecordBatch:
        """Hash and key, as rows of the state begin."""
        hashes = pa.RecordBatch.from_arrays([pa.array(self.hashes[groups])], [HASH])
        return beside(hashes, taken(self.keys, groups), pa.RecordBatch.from_arrays([pa.array(firsts)], [FIRST]))


class Joined(NamedTuple):
    """Sessions that a batch has made or changed, and for each piece of a line the number of its session, or −1."""

    groups: Integers
    firsts: Integers
    lasts: Integers
    states: pa.RecordBatch
    numbers: Integers


def _lines(work: Sessions, state: WindowState, incoming: pa.RecordBatch) -> Lines:
    by = conformed(incoming, pa.schema([field for field in state.schema.key if field.name != FIRST]))
    hashes, firsts, lasts = (incoming.column(name).to_numpy() for name in (HASH, FIRST, LAST))
    order, begins = grouped([hashes], by, within=[firsts])
    numbers = np.cumsum(begins) - 1
    groups = np.empty(len(order), np.int64)
    groups[order] = numbers
    one = order[begins]
    keys, count = taken(by, one), len(one)
    latest = np.full(count, NEVER_US)
    np.maximum.at(latest, groups, lasts)
    kept_groups, kept_slots, kept = _kept(work, state, hashes[one], keys, firsts[one], latest)
    names = state_schema(work.specs).names
    states = pa.concat_batches([absorbed(work.specs, incoming), kept.select(names)])
    columns = [
        np.concatenate([groups, kept_groups]),
        np.concatenate([firsts, kept.column(FIRST).to_numpy()]),
        np.concatenate([lasts, kept.column(LAST).to_numpy()]),
        np.concatenate([np.full(len(groups), -1), kept_slots]),
    ]
    places = sorted_order(columns[:2])
    in_groups, in_firsts, in_lasts, in_slots = (column[places] for column in columns)
    return Lines(in_groups, in_firsts, in_lasts, in_slots, taken(states, places), hashes[one], keys)


def _kept(
    work: Sessions, state: WindowState, hashes: Integers, keys: pa.RecordBatch, first: Integers, last: Integers
) -> tuple[Integers, Integers, pa.RecordBatch]:
    """Sessions of keys that begin less than a gap behind their last row, and end behind their first."""
    low, high = np.full(len(hashes), NEVER_US), last + work.window.apart_us

    def may_touch(slot: Slot) -> Mask:
        return np.asarray(slot.end > first, np.bool_)

    groups, slots, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [empty_rows(state.schema.rows, 0)]
    for slot, found in state.fetch(hashes, keys, low, high, may_touch):
        near = found.rows.column(LAST).to_numpy() + work.window.apart_us > first[found.places]
        groups.append(found.places[near])
        slots.append(np.full(len(groups[-1]), state.slots.index(slot)))
        rows.append(found.rows.filter(pa.array(near)))
    return np.concatenate(groups), np.concatenate(slots), pa.concat_batches(rows)


def _joined(work: Sessions, lines: Lines) -> Joined:
    numbers = session_numbers(lines.groups, lines.firsts, lines.lasts, work.window.apart_us)
    count = int(numbers[-1]) + 1 if len(numbers) else 0
    touched = np.zeros(count, np.bool_)
    touched[numbers[lines.slots < 0]] = True
    mine = touched[numbers]
    numbers = np.where(mine, (np.cumsum(touched) - 1)[numbers], -1)
    pieces = np.flatnonzero(mine)
    begins = np.flatnonzero(np.diff(numbers[pieces], prepend=-1))
    opening = np.zeros(len(pieces), np.bool_)
    opening[begins] = True
    states = fold_groups(work.specs, taken(lines.states, pieces), opening)
    first = pieces[begins]
    lasts = np.maximum.reduceat(lines.lasts[pieces], begins) if len(begins) else np.empty(0, np.int64)
    return Joined(lines.groups[first], lines.firsts[first], lasts, states, numbers)


@njit(cache=True, nogil=True)
def session_numbers(groups: Integers, firsts: Integers, lasts: Integers, apart: int) -> Integers:
    """The session of each piece, counted over all keys; pieces are sorted by key and first time. Pieces are of two
    sessions if they lie so far apart.

    >>> session_numbers(np.array([0, 0, 0, 1]), np.array([0, 4, 14, 0]), np.array([9, 5, 15, 0]), 5).tolist()
    [0, 0, 1, 2]
    """
    numbers = np.empty(len(groups), np.int64)
    number, latest = -1, 0
    for row in range(len(groups)):
        place = np.uintp(row)
        if row == 0 or groups[place] != groups[np.uintp(row - 1)] or firsts[place] - latest >= apart:
            number += 1
            latest = lasts[place]
        latest = max(latest, lasts[place])
        numbers[place] = number
    return numbers


def _seen(work: Sessions, lines: Lines, joined: Joined) -> Seen:
    """Sessions as they are, and those that are no more: a session that has another end is another in the result."""
    old = np.flatnonzero((lines.slots >= 0) & (joined.numbers >= 0))
    new = joined.numbers[old]
    same = (lines.firsts[old] == joined.firsts[new]) & (lines.lasts[old] == joined.lasts[new])
    gone, stayed = old[~same], old[same]
    count = len(joined.groups)
    source = np.full(count, -1)
    source[new[same]] = stayed
    nulls = np.full(len(gone), -1)
    before = lines.states.take(_nullable(np.concatenate([source, gone])))
    after = joined.states.take(_nullable(np.concatenate([np.arange(count), nulls])))
    groups = np.concatenate([joined.groups, lines.groups[gone]])
    starts = np.concatenate([joined.firsts, lines.firsts[gone]])
    lasts = np.concatenate([joined.lasts, lines.lasts[gone]])
    kept = np.append(source >= 0, np.ones(len(gone), np.bool_))
    keeps = np.append(np.ones(count, np.bool_), np.zeros(len(gone), np.bool_))
    return Seen(_named(work, taken(lines.keys, groups), starts, lasts), _over(work, lasts), kept, before, keeps, after)


def _named(work: Sessions, by: pa.RecordBatch, starts: Integers, lasts: Integers) -> pa.RecordBatch:
    return result_keys(by, starts, lasts + work.window.gap_us)


def _over(work: Sessions, lasts: Integers) -> Integers:
    """The first watermark at which nothing can come any more that would belong to the session."""
    return lasts + work.window.apart_us


def _nullable(places: Integers) -> pa.Array:
    return pa.array(places, mask=places < 0)


def _closing(work: Sessions, state: WindowState, lines: Lines, joined: Joined, clock: WindowClock) -> Seen:
    """Sessions that are over now and that the batch has not touched."""
    rows = state.scan(clock.passed_before_us, clock.passed_us)
    rows = rows.filter(pa.array(clock.closes(_over(work, rows.column(LAST).to_numpy()))))
    touched = np.flatnonzero((lines.slots >= 0) & (joined.numbers >= 0))
    others = lines.named(lines.groups[touched], lines.firsts[touched])
    rows = rows.filter(pa.array(not_among(state.schema, rows, others)))
    starts, lasts = (rows.column(name).to_numpy() for name in (FIRST, LAST))
    kept = rows.select(state_schema(work.specs).names)
    always = np.ones(len(starts), np.bool_)
    keys = _named(work, rows.select(lines.keys.schema.names), starts, lasts)
    return Seen(keys, _over(work, lasts), always, kept, always, kept)


def _written(work: Sessions, state: WindowState, lines: Lines, joined: Joined) -> list[RunInfo]:
    """Write sessions into the slots of their ends, and delete what was swallowed where it was."""
    placed = state.placed(joined.lasts + work.window.gap_us, work.slot_ranges)
    old = np.flatnonzero((lines.slots >= 0) & (joined.numbers >= 0))
    new = joined.numbers[old]
    old_slots = renumbered(state.slots, placed.slots)[lines.slots[old]]
    again = (lines.firsts[old] == joined.firsts[new]) & (old_slots == placed.numbers[new])
    existed = np.zeros(len(joined.groups), np.bool_)
    existed[new[again]] = True
    gone = old[~again]
    rows = _rows(state.schema, lines, joined, gone)
    numbers = np.concatenate([placed.numbers, old_slots[~again]])
    order = np.argsort(numbers, kind="stable")
    existed = np.append(existed, np.ones(len(gone), np.bool_))
    return state.write(Placed(placed.slots, numbers[order]), rows.take(order), existed[order])


def renumbered(slots: list[Slot], among: list[Slot]) -> Integers:
    """The numbers that slots have among others."""
    places = {slot: place for place, slot in enumerate(among)}
    return np.array([places[slot] for slot in slots], np.int64)


def _rows(schema: StateSchema, lines: Lines, joined: Joined, gone: Integers) -> pa.RecordBatch:
    """The joined sessions, and behind them deletions of those that are gone."""
    groups = np.concatenate([joined.groups, lines.groups[gone]])
    named = lines.named(groups, np.concatenate([joined.firsts, lines.firsts[gone]]))
    lasts = pa.RecordBatch.from_arrays([pa.array(joined.lasts)], [LAST])
    values = pa.concat_batches(
        [conformed(beside(lasts, joined.states), schema.values), empty_rows(schema.values, len(gone))]
    )
    deleted = np.append(np.zeros(len(joined.groups), np.bool_), np.ones(len(gone), np.bool_))
    return beside(named, values, pa.RecordBatch.from_arrays([pa.array(deleted)], [DELETED]))
