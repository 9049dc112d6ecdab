"""Sessions: rows of a key that follow each other within a gap, or exactly a gap apart.

State is kept for each session: its first time, which with the user's columns is its key, its last time, and the columns
of the aggregates. It lies in the slot of its end, so that sessions that the watermark has passed are dropped; a session
that grows beyond its slot is deleted there and written to another. Rows may join sessions that were apart: those are
retracted, and the whole is emitted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.declare.duration import positive_us, spelled
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.aggregates import Aggregate, state_schema
from headwater.flow.operators.aggregation.merging import absorbed
from headwater.flow.operators.windows.assignment import Assigned, aligned, of_groups
from headwater.flow.operators.windows.clock import FOREVER_US, NEVER_US, WindowClock
from headwater.flow.operators.windows.folding import fold_groups
from headwater.flow.operators.windows.grouping import grouped, taken
from headwater.flow.operators.windows.panes import beside, not_among
from headwater.flow.operators.windows.state import Placed, WindowState
from headwater.flow.operators.windows.step import END, START, Seen, WindowStep, changes_of, refuse_late, result_keys
from headwater.flow.operators.windows.window import COMPLETE, WHEN, Window, Windowed
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.sorting import sorted_order
from headwater.flow.state.shard import Fetched, conformed, empty_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FIRST, LAST, BUCKET = "first_time", "last_time", "bucket"


@dataclass(frozen=True)
class Session(Window):
    """Rows of a key of which each is at most a gap after another; the window ends a gap after the last.

    A row exactly a gap after the last still belongs to it, as in Spark, Flink and Kafka Streams, although it lies at
    the end.
    """

    gap_us: int
    columns = (pa.field(FIRST, pa.int64()), pa.field(LAST, pa.int64()))
    why_not_replayed = "a session that is over may have to be joined with one that is not"

    @property
    def in_words(self) -> str:
        return f"session with gaps of {spelled(self.gap_us)}"

    @property
    def longest_us(self) -> int:
        return self.gap_us

    @property
    def apart_us(self) -> int:
        """Rows this far from each other are of two sessions, if there is none between them."""
        return self.gap_us + 1

    def slot_us(self, work: Windowed) -> int:
        """How much time a slot of state covers."""
        return max(work.slot_us, self.gap_us)

    def assign(self, times_us: Integers, position: Mapping[str, Integers]) -> Assigned:
        """Each row as a session of its own."""
        return {FIRST: times_us, LAST: times_us}

    def group(self, assigned: Assigned) -> Assigned:
        """Rows of one bucket are less than a gap apart, and so always of one session."""
        return {BUCKET: assigned[FIRST] // self.gap_us}

    def combined(self, assigned: Assigned, order: Integers, begins: Integers) -> Assigned:
        """From the first row of each group to its last."""
        if not len(begins):
            return of_groups(assigned, order, begins)
        firsts, lasts = assigned[FIRST][order], assigned[LAST][order]
        return {FIRST: np.minimum.reduceat(firsts, begins), LAST: np.maximum.reduceat(lasts, begins)}

    def state(self, by: pa.Schema, specs: tuple[Aggregate, ...]) -> StateSchema:
        first, last = self.columns
        return StateSchema(pa.schema([*by, first]), pa.schema([last, *state_schema(specs)]), (FIRST,))

    def step(self, work: Windowed, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        refuse_late(incoming.column(FIRST).to_numpy() < clock.forgotten_us, clock)
        asked = asked_of(state.schema, incoming)
        lines = lines_of(work, incoming, asked, _kept(self, state, asked, incoming))
        joined = joined_of(work, self, lines)
        parts = [_seen(self, lines, joined)]
        if clock.emits_end and clock.moved:
            parts.append(_closing(work, self, state, lines, joined, clock))
        runs = written(work, self, state, lines, joined)
        return WindowStep(changes_of(parts, work.specs, clock), runs)

    def reference(
        self, rows: "DataFrame", by: tuple[str, ...], results: "list[Column]", reached_us: int | None
    ) -> "DataFrame":
        """Not Spark's session_window: aggregates of distinct values count one again in each piece that it joins to
        others. A row at the very end of a session belongs to it."""
        from pyspark.sql import Window as Over
        from pyspark.sql import functions as f

        key = list(map(quoted, by))
        order, time = Over.partitionBy(*key).orderBy(WHEN), f.unix_micros(WHEN)
        opens = f.coalesce(time - f.lag(time).over(order) > self.gap_us, f.lit(True)).cast("int")
        end = f.max(WHEN) + f.expr(f"interval {self.gap_us} microseconds")
        numbered = rows.withColumn("_opens", opens).withColumn("_window", f.sum("_opens").over(order))
        windows = numbered.groupBy(*key, "_window").agg(f.min(WHEN).alias(START), end.alias(END), *results)
        complete = f.unix_micros(END) < f.lit(reached_us).cast("long")
        return windows.drop("_window").withColumn(COMPLETE, complete)


def session(gap: str) -> Window:
    """Rows of a key that follow each other with at most the gap between them."""
    return Session(positive_us(gap, "the gap of a session"))


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


class Asked(NamedTuple):
    """Keys that a batch looks at, each once, and for each row that names one the number of its key."""

    hashes: Integers
    keys: pa.RecordBatch
    numbers: Integers


class Kept(NamedTuple):
    """Sessions that state holds: the number of their key, that of their slot, and their rows."""

    groups: Integers
    slots: Integers
    rows: pa.RecordBatch


def asked_of(schema: StateSchema, rows: pa.RecordBatch) -> Asked:
    """The keys of some rows."""
    by = conformed(rows, pa.schema([field for field in schema.key if field.name != FIRST]))
    hashes = rows.column(HASH).to_numpy()
    order, begins = grouped([hashes], by)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    one = order[begins]
    return Asked(hashes[one], taken(by, one), numbers)


def lines_of(work: Windowed, incoming: pa.RecordBatch, asked: Asked, kept: Kept) -> Lines:
    """What came in and what is kept, put in order. The first numbers of `asked` are those of the rows that came in."""
    groups = asked.numbers[: incoming.num_rows]
    states = pa.concat_batches([absorbed(work.specs, incoming), kept.rows.select(work.partials)])
    columns = [
        np.concatenate([groups, kept.groups]),
        np.concatenate([rows.column(FIRST).to_numpy() for rows in (incoming, kept.rows)]),
        np.concatenate([rows.column(LAST).to_numpy() for rows in (incoming, kept.rows)]),
        np.concatenate([np.full(len(groups), -1), kept.slots]),
    ]
    places = sorted_order(columns[:2])
    in_groups, in_firsts, in_lasts, in_slots = (column[places] for column in columns)
    return Lines(in_groups, in_firsts, in_lasts, in_slots, taken(states, places), asked.hashes, asked.keys)


def _kept(window: Session, state: WindowState, asked: Asked, incoming: pa.RecordBatch) -> Kept:
    """Sessions of keys that begin less than a gap after their last row, and end after their first."""
    first, last = np.full(len(asked.hashes), FOREVER_US), np.full(len(asked.hashes), NEVER_US)
    np.minimum.at(first, asked.numbers, incoming.column(FIRST).to_numpy())
    np.maximum.at(last, asked.numbers, incoming.column(LAST).to_numpy())
    low, high = np.full(len(asked.hashes), NEVER_US), last + window.apart_us

    def may_touch(slot: Slot) -> Mask:
        return np.asarray(slot.end > first, np.bool_)

    def near(found: Fetched) -> Mask:
        return np.asarray(found.rows.column(LAST).to_numpy() + window.apart_us > first[found.places], np.bool_)

    return kept_of(state, asked, low, high, may_touch, near)


def kept_of(
    state: WindowState, asked: Asked, low: Integers, high: Integers, within: Callable[[Slot], Mask],
    wanted: Callable[[Fetched], Mask],
) -> Kept:  # fmt: skip
    """Sessions of keys that begin in [low, high), lie in certain slots, and are wanted."""
    groups, slots, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [empty_rows(state.schema.rows, 0)]
    for slot, found in state.fetch(asked.hashes, asked.keys, low, high, within):
        mask = wanted(found)
        groups.append(found.places[mask])
        slots.append(np.full(len(groups[-1]), state.slots.index(slot)))
        rows.append(found.rows.filter(pa.array(mask)))
    return Kept(np.concatenate(groups), np.concatenate(slots), pa.concat_batches(rows))


def joined_of(work: Windowed, window: Session, lines: Lines) -> Joined:
    numbers = session_numbers(lines.groups, lines.firsts, lines.lasts, window.apart_us)
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


def _seen(window: Session, lines: Lines, joined: Joined) -> Seen:
    """Sessions as they are, and those that are no more: a session that has another end is another in the result."""
    old = np.flatnonzero((lines.slots >= 0) & (joined.numbers >= 0))
    new = joined.numbers[old]
    same = (lines.firsts[old] == joined.firsts[new]) & (lines.lasts[old] == joined.lasts[new])
    gone, stayed = old[~same], old[same]
    count = len(joined.groups)
    source = np.full(count, -1)
    source[new[same]] = stayed
    nulls = np.full(len(gone), -1)
    before = lines.states.take(nullable(np.concatenate([source, gone])))
    after = joined.states.take(nullable(np.concatenate([np.arange(count), nulls])))
    groups = np.concatenate([joined.groups, lines.groups[gone]])
    starts = np.concatenate([joined.firsts, lines.firsts[gone]])
    lasts = np.concatenate([joined.lasts, lines.lasts[gone]])
    kept = np.append(source >= 0, np.ones(len(gone), np.bool_))
    keeps = np.append(np.ones(count, np.bool_), np.zeros(len(gone), np.bool_))
    return Seen(
        _named(window, taken(lines.keys, groups), starts, lasts), _over(window, lasts), kept, before, keeps, after
    )


def _named(window: Session, by: pa.RecordBatch, starts: Integers, lasts: Integers) -> pa.RecordBatch:
    return result_keys(by, starts, lasts + window.gap_us)


def _over(window: Session, lasts: Integers) -> Integers:
    """The first watermark at which nothing can come any more that would belong to the session."""
    return lasts + window.apart_us


def nullable(places: Integers) -> pa.Array:
    return pa.array(places, mask=places < 0)


def _closing(
    work: Windowed, window: Session, state: WindowState, lines: Lines, joined: Joined, clock: WindowClock
) -> Seen:
    """Sessions that are over now and that the batch has not touched."""
    rows = state.scan(clock.passed_before_us, clock.passed_us)
    rows = rows.filter(pa.array(clock.closes(_over(window, rows.column(LAST).to_numpy()))))
    touched = np.flatnonzero((lines.slots >= 0) & (joined.numbers >= 0))
    others = lines.named(lines.groups[touched], lines.firsts[touched])
    rows = rows.filter(pa.array(not_among(state.schema, rows, others)))
    starts, lasts = (rows.column(name).to_numpy() for name in (FIRST, LAST))
    kept = rows.select(work.partials)
    always = np.ones(len(starts), np.bool_)
    keys = _named(window, rows.select(lines.keys.schema.names), starts, lasts)
    return Seen(keys, _over(window, lasts), always, kept, always, kept)


def written(work: Windowed, window: Session, state: WindowState, lines: Lines, joined: Joined) -> list[RunInfo]:
    """Write sessions into the slots of their ends, and delete what was swallowed where it was."""

    def slot_ranges(ends: Integers) -> tuple[Integers, Integers]:
        return aligned(ends, window.slot_us(work))

    placed = state.placed(joined.lasts + window.gap_us, slot_ranges)
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
    """The joined sessions, and after them deletions of those that were joined to others."""
    groups = np.concatenate([joined.groups, lines.groups[gone]])
    named = lines.named(groups, np.concatenate([joined.firsts, lines.firsts[gone]]))
    lasts = pa.RecordBatch.from_arrays([pa.array(joined.lasts)], [LAST])
    values = pa.concat_batches(
        [conformed(beside(lasts, joined.states), schema.values), empty_rows(schema.values, len(gone))]
    )
    deleted = np.append(np.zeros(len(joined.groups), np.bool_), np.ones(len(gone), np.bool_))
    return beside(named, values, pa.RecordBatch.from_arrays([pa.array(deleted)], [DELETED]))
