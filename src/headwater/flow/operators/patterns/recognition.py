"""One batch of a pattern on one shard: rows of keys in the order of time, the matches that are decided, what is kept.

    kept      rows that a match may still begin at or have, and those that PREV still looks at, in slots of time
    _seen     of a kept row: PAST, the search has passed it; CANDIDATE, a match was looked for that begins with it;
              TAKEN, it is in a match

Rows count once the watermark has passed them: then no other can come before them. Nothing is noted of what was emitted.
With corrections rows are kept for their horizon, and of a key that gets a late row the matches are found once as they
were and once as they are, from the last row on that the search has passed without seeing what is late.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.events import (
    FAR_US,
    LEFT_AT,
    MISSING,
    POSITION,
    RIGHT_AT,
    EventRows,
    Events,
    Shard,
    arrived,
    groups_of,
    near,
    scanned,
    together,
    written,
)
from headwater.flow.operators.patterns.columns import numbers_of
from headwater.flow.operators.patterns.machine import Conditions, Flags, Limits, Whole
from headwater.flow.operators.patterns.measures import Measure, columns_of, shown_rows, values_of
from headwater.flow.operators.patterns.search import (
    BY_ZERO,
    FIRST_ROW,
    GROUP,
    LENGTH,
    MATCHED,
    OUTCOME,
    TIMED_OUT,
    Found,
    Groups,
    Plan,
    recognised,
)
from headwater.flow.operators.patterns.spec import TIMED, WHY
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.state.manifest import HASH, RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import ShardState

SEEN = "_seen"
PAST, CANDIDATE, TAKEN = 1, 2, 4
ROWS, KEYS = "rows", "keys"
MATCHES = "matches"
UNBOUNDED = 1 << 40


@dataclass(frozen=True)
class Looking:
    """Slots, and what is computed from them: as the machine has it, but for the columns of a batch."""

    kinds: Whole
    code: Whole
    numbers: tuple[float, ...]
    texts: tuple[tuple[int, str], ...]
    slots: Whole
    slot_columns: tuple[str, ...]
    flag_columns: tuple[str, ...] = ()

    def over(self, rows: pa.RecordBatch, times: Integers) -> Conditions:
        count = rows.num_rows
        found = numbers_of([rows.column(one) for one in self.slot_columns], [text for _, text in self.texts], count)
        code = self.code.copy()
        for (place, _), number in zip(self.texts, found.texts, strict=True):
            code[place, 1] = number
        flags = np.zeros((len(self.flag_columns), count), np.bool_)
        for place, name in enumerate(self.flag_columns):
            flags[place] = np.asarray(rows.column(name).fill_null(False))
        return Conditions(
            self.kinds, flags, code, np.array(self.numbers, np.float64), self.slots, found.whole, found.real,
            found.there, times,
        )  # fmt: skip


@dataclass(frozen=True)
class Bounds:
    """How far a match may reach, and how much of a key is looked at."""

    within_us: int | None
    rows_max: int | None
    tries_max: int
    behind: int = 0
    """How many rows before a match PREV looks at."""

    def limits(self, watermark_us: int) -> Limits:
        within_us = -1 if self.within_us is None else self.within_us
        return Limits(within_us, self.rows_max or UNBOUNDED, watermark_us, self.tries_max)


@dataclass(frozen=True)
class Output:
    """Which rows results have."""

    columns: tuple[str, ...]
    """Of the rows, beside the key."""
    measures: tuple[Measure, ...]
    variables: tuple[str, ...]
    all_rows: bool = False
    show_empty: bool = True
    unmatched: bool = False
    timeouts: bool = False


class Step(NamedTuple):
    """Results that are no longer, results that are new, and the runs of each part to be committed."""

    before: pa.RecordBatch
    after: pa.RecordBatch
    runs: Mapping[str, list[RunInfo]]


class Sorted(NamedTuple):
    """Rows of some keys by key and time, and the number of each one's key."""

    rows: EventRows
    groups: Integers
    is_old: Mask
    seen: Integers

    def filter(self, wanted: Mask) -> "Sorted":
        return Sorted(self.rows.filter(wanted), self.groups[wanted], self.is_old[wanted], self.seen[wanted])


@dataclass(frozen=True)
class Recognition:
    """A pattern, and what is kept and shown of its rows."""

    events: Events
    plan: Plan
    conditions: Looking
    shown: Looking
    bounds: Bounds
    output: Output
    counts: bool = False
    """Matches of each key are numbered, or its first row matters: then a row for each key is kept for ever."""

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        found = {ROWS: self.events.state}
        if self.counts:
            on = pa.schema([self.events.columns.field(name) for name in self.events.on])
            found[KEYS] = StateSchema(on, pa.schema([pa.field(MATCHES, pa.int64())]))
        return found

    @property
    def columns(self) -> pa.Schema:
        """Of results, without what names them."""
        own = [self.events.columns.field(name) for name in (*self.events.on, *self.output.columns)]
        measures = [pa.field(one.name, one.type) for one in self.output.measures]
        timed = [pa.field(TIMED, pa.bool_())] if self.output.timeouts else []
        return pa.schema([*own, *measures, *timed])

    @property
    def results(self) -> pa.Schema:
        places = [pa.field(side + name, pa.int64()) for side in (LEFT_AT, RIGHT_AT) for name in POSITION]
        return pa.schema([*self.columns, *places, pa.field(WHY, pa.int64()), pa.field(MISSING, pa.bool_())])

    @property
    def reach_us(self) -> int | None:
        """How long after its time a row may be needed."""
        within_us = self.bounds.within_us
        return None if within_us is None else within_us * (2 if self.bounds.behind else 1)

    def drop_below(self, clock: WindowClock) -> Mapping[str, int | None]:
        reach_us = self.reach_us
        known = clock.watermark_us is not None and reach_us is not None
        below = clock.forgotten_us - reach_us if known and reach_us is not None else None
        return {part: below if part == ROWS else None for part in self.parts}

    def waits(self, slot: Slot, clock: WindowClock) -> bool:
        """Would time alone, as the clock moves it, decide anything of a slot's rows?"""
        return any(
            slot.begin + after < clock.passed_us and slot.end + after > clock.passed_before_us
            for after in self._decisive_us
        )

    @property
    def _decisive_us(self) -> tuple[int, ...]:
        """How long after a row's time something is decided: it is known when the watermark is later, and nothing more
        can come for a match that begins with it when the watermark is WITHIN later."""
        return (0,) if self.bounds.within_us is None else (0, self.bounds.within_us - 1)

    def step(self, shard: Shard, given: pa.RecordBatch | None, clock: WindowClock) -> Step:
        """`given` are rows that are not late."""
        state, new = shard.events(ROWS), arrived(self.events, given)
        known = np.asarray(new.times < clock.passed_us, np.bool_)
        fresh, waiting = new.filter(known), new.filter(~known)
        asked = self._asked(state, fresh, clock)
        none = self._empty
        if not len(asked.hashes):
            return Step(none, none, {ROWS: written(self.events, state, waiting, arrived(self.events, None))})
        of_keys = self._of_keys(state, asked, fresh, clock)
        counts = shard.rows(KEYS) if self.counts else None
        before, found, groups = self._found(of_keys, counts, clock)
        seen = self._passed(of_keys, found, groups)
        results = [self._results(of_keys, found, groups, clock.passed_us)]
        if self.output.unmatched:
            results.append(self._unmatched(of_keys, found, groups, seen))
        runs = {ROWS: self._written(state, of_keys, found, groups, seen, waiting, clock)}
        if counts is not None:
            runs[KEYS] = self._counted(counts, of_keys, found, groups)
        return Step(before, pa.concat_batches([none, *results]), runs)

    @property
    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self.results)

    def _asked(self, state: WindowState, fresh: EventRows, clock: WindowClock) -> EventRows:
        """A row of each key of which something may be decided now that was not before."""
        parts = [fresh]
        if clock.moved:
            for after in self._decisive_us:
                parts.append(scanned(self.events, state, clock.passed_before_us - after, clock.passed_us - after))
        rows = together(parts)
        if not len(rows.hashes):
            return rows
        (groups,) = groups_of([(rows.hashes, rows.keys(self.events))])
        _, first = np.unique(groups, return_index=True)
        return rows.take(first)

    def _of_keys(self, state: WindowState, asked: EventRows, fresh: EventRows, clock: WindowClock) -> Sorted:
        """All rows of these keys that the watermark has passed."""
        low, high = np.full(len(asked.hashes), -FAR_US), np.full(len(asked.hashes), clock.passed_us - 1)
        old = near(self.events, state, asked, asked.keys(self.events), low, high).events
        rows = together([old, fresh])
        (groups,) = groups_of([(rows.hashes, rows.keys(self.events))])
        order = np.lexsort([*(rows.position.column(name).to_numpy() for name in reversed(POSITION)), groups])
        sorted_rows = rows.take(order)
        _, numbers = np.unique(groups[order], return_inverse=True)
        seen = np.asarray(sorted_rows.rows.column(SEEN).fill_null(0), np.int64)
        return Sorted(sorted_rows, numbers, order < len(old.hashes), seen)

    def _found(
        self, of_keys: Sorted, counts: ShardState | None, clock: WindowClock
    ) -> tuple[pa.RecordBatch, Found, Groups]:
        """What was emitted of keys that get late rows, and what is found now."""
        groups = self._groups(of_keys, counts)
        before = self._empty
        late = ~of_keys.is_old & (of_keys.rows.times < clock.passed_before_us)
        if clock.horizon_us and late.any():
            groups = groups._replace(resumes=self._resumed(of_keys, groups, late))
            had = np.isin(of_keys.groups, of_keys.groups[late])
            resumed = np.arange(len(had)) >= groups.resumes[of_keys.groups]
            were = had & of_keys.is_old & (of_keys.rows.times < clock.passed_before_us)
            before = self._emitted(of_keys.filter(were), (resumed & _may_begin(of_keys.seen))[were], clock)
        found = self._recognised(of_keys.rows, groups, clock.passed_us)
        return before, found, groups

    def _emitted(self, of_keys: Sorted, may_begin: Mask, clock: WindowClock) -> pa.RecordBatch:
        """What was emitted of rows as they were, from the first on that may begin a match."""
        if not len(of_keys.groups):
            return self._empty
        _, numbers = np.unique(of_keys.groups, return_inverse=True)
        renumbered = of_keys._replace(groups=numbers)
        groups = self._groups(renumbered, None)
        groups = groups._replace(resumes=_first_of(may_begin, groups))
        found = self._recognised(of_keys.rows, groups, clock.passed_before_us)
        return self._results(renumbered, found, groups, clock.passed_before_us)

    def _groups(self, of_keys: Sorted, counts: ShardState | None) -> Groups:
        begins = np.flatnonzero(np.diff(of_keys.groups, prepend=-1))
        ends = np.append(begins[1:], len(of_keys.groups))
        is_first, numbers = np.zeros(len(begins), np.bool_), np.zeros(len(begins), np.int64)
        if counts is not None:
            firsts = of_keys.rows.take(begins)
            known = counts.lookup(firsts.hashes, firsts.rows.select(list(self.events.on)))
            is_first = ~known.mask
            numbers = known.values.column(MATCHES).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        groups = Groups(begins, begins, ends, is_first, numbers)
        return groups._replace(resumes=_first_of((of_keys.seen & PAST) == 0, groups))

    def _resumed(self, of_keys: Sorted, groups: Groups, late: Mask) -> Whole:
        """Where matches have to be looked for again: from the last candidate on whose attempt cannot have seen a row
        that is late; of keys without such a row, where the search stands."""
        resumes = groups.resumes.copy()
        times, within_us = of_keys.rows.times, self.bounds.within_us or 0
        candidates = (of_keys.seen & CANDIDATE) != 0
        for group in np.unique(of_keys.groups[late]):
            begin, end = groups.begins[group], groups.ends[group]
            first_late = times[begin:end][late[begin:end]][0]
            own = np.arange(begin, end)
            unaffected = own[candidates[begin:end] & (times[begin:end] + within_us <= first_late)]
            may_begin = own[_may_begin(of_keys.seen[begin:end])]
            resumes[group] = unaffected[-1] if len(unaffected) else may_begin[0]
        return resumes

    def _recognised(self, rows: EventRows, groups: Groups, watermark_us: int) -> Found:
        conditions = self.conditions.over(rows.rows, rows.times)
        found: Found = recognised(self.plan, conditions, self.bounds.limits(watermark_us), groups)
        return found

    # -- results -------------------------------------------------------------------------------------------------------

    def _results(self, of_keys: Sorted, found: Found, groups: Groups, watermark_us: int) -> pa.RecordBatch:
        failed = found.rows[:, OUTCOME] >= BY_ZERO
        matches = found.rows[~failed]
        output, rows = self.output, of_keys.rows
        shown = shown_rows(matches, found.labels, all_rows=output.all_rows, show_empty=output.show_empty)
        longest = int(max(matches[:, LENGTH].max(initial=0), 1))
        finals = np.array([one.final for one in output.measures], np.bool_)
        conditions = self.shown.over(rows.rows, rows.times)
        values = values_of(
            conditions, self.bounds.limits(watermark_us), groups.begins, matches, found.labels, shown.matches,
            shown.depths, finals, longest,
        )  # fmt: skip
        measures = columns_of(output.measures, values, rows.rows, output.variables)
        firsts = matches[shown.matches, FIRST_ROW]
        own = firsts + np.maximum(shown.depths, 0)
        timed = matches[shown.matches, OUTCOME] == TIMED_OUT
        made = self._made(rows, own, firsts, measures, timed)
        errors = found.rows[failed]
        return pa.concat_batches([made, self._made(
            rows, errors[:, FIRST_ROW], errors[:, FIRST_ROW], None, None, why=errors[:, OUTCOME]
        )])  # fmt: skip

    def _made(
        self, rows: EventRows, own: Whole, firsts: Whole | None, measures: Sequence[pa.Array] | None,
        timed: Flags | None, why: Whole | None = None,
    ) -> pa.RecordBatch:  # fmt: skip
        chosen = rows.rows.take(pa.array(own))
        columns = [chosen.column(name) for name in (*self.events.on, *self.output.columns)]
        nothing = [pa.nulls(len(own), one.type) for one in self.output.measures]
        columns += nothing if measures is None else measures
        if self.output.timeouts:
            columns.append(pa.array(np.zeros(len(own), np.bool_) if timed is None else timed))
        columns += rows.position.take(pa.array(own)).columns
        if firsts is None:
            columns += [pa.nulls(len(own), pa.int64())] * len(POSITION)
        else:
            columns += rows.position.take(pa.array(firsts)).columns
        reasons = np.zeros(len(own), np.int64) if why is None else why
        columns += [pa.array(reasons), pa.array(reasons != 0)]
        return pa.RecordBatch.from_arrays(columns, schema=self.results)

    def _unmatched(self, of_keys: Sorted, found: Found, groups: Groups, seen: Integers) -> pa.RecordBatch:
        """Rows that the search has passed, and that no match has."""
        passed = ((seen & PAST) != 0) & ((of_keys.seen & PAST) == 0) & ((seen & TAKEN) == 0)
        empty = found.rows[(found.rows[:, OUTCOME] == MATCHED) & (found.rows[:, LENGTH] == 0), FIRST_ROW]
        passed[empty] = False
        return self._made(of_keys.rows, np.flatnonzero(passed), None, None, None)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _passed(self, of_keys: Sorted, found: Found, groups: Groups) -> Integers:
        """What is to be noted of each row."""
        places = np.arange(len(of_keys.seen))
        again = places >= groups.resumes[of_keys.groups]
        seen = np.where(again, of_keys.seen & ~(PAST | CANDIDATE), of_keys.seen)
        passed = again & (places < found.resumes[of_keys.groups])
        seen = np.where(passed, seen | PAST, seen)
        seen = np.where(found.candidates, seen | CANDIDATE, seen)
        matches = found.rows[found.rows[:, OUTCOME] == MATCHED]
        covered = np.zeros(len(seen) + 1, np.int64)
        np.add.at(covered, matches[:, FIRST_ROW], 1)
        np.add.at(covered, matches[:, FIRST_ROW] + matches[:, LENGTH], -1)
        return np.where(np.cumsum(covered)[:-1] > 0, seen | TAKEN, seen)

    def _written(
        self, state: WindowState, of_keys: Sorted, found: Found, groups: Groups, seen: Integers, waiting: EventRows,
        clock: WindowClock,
    ) -> list[RunInfo]:  # fmt: skip
        places = np.arange(len(seen))
        if clock.horizon_us:
            wanted = of_keys.rows.times >= clock.forgotten_us - (self.reach_us or 0)
            gone = np.zeros(len(seen), np.bool_)
            noted = seen
        else:
            wanted = places >= found.resumes[of_keys.groups] - self.bounds.behind
            gone = of_keys.is_old & ~wanted
            noted = seen & ~CANDIDATE if self.output.unmatched else seen & PAST
        changed = wanted & (~of_keys.is_old | (noted != of_keys.seen))
        kept = of_keys.rows.filter(changed) if not changed.all() else of_keys.rows
        place = kept.rows.schema.get_field_index(SEEN)
        kept = kept._replace(rows=kept.rows.set_column(place, SEEN, pa.array(noted[changed])))
        return written(self.events, state, together([kept, waiting]), of_keys.rows.take(np.flatnonzero(gone)))

    def _counted(self, counts: ShardState, of_keys: Sorted, found: Found, groups: Groups) -> list[RunInfo]:
        """How many matches each key has had, once the search has passed its first row."""
        matches = found.rows[found.rows[:, OUTCOME] == MATCHED]
        more = np.bincount(matches[:, GROUP], minlength=len(groups.begins))
        begun = (found.resumes > groups.begins) & (groups.is_first | (more > 0))
        firsts = of_keys.rows.take(groups.begins[begun])
        columns = {HASH: pa.array(firsts.hashes)}
        columns |= {name: firsts.rows.column(name) for name in self.events.on}
        columns[MATCHES] = pa.array((groups.numbers + more)[begun])
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        run = counts.write(rows, existed=~groups.is_first[begun])
        return [run] if run else []


def _may_begin(seen: Integers) -> Mask:
    """Rows that the search has begun at, or has not passed yet."""
    return np.asarray(((seen & PAST) == 0) | ((seen & CANDIDATE) != 0), np.bool_)


def _first_of(wanted: Mask, groups: Groups) -> Whole:
    """In each group the first row that is wanted, or its end."""
    places = np.where(wanted, np.arange(len(wanted)), len(wanted))
    if not len(groups.begins):
        return groups.begins
    found = np.minimum.reduceat(places, groups.begins)
    return np.minimum(found, groups.ends)
