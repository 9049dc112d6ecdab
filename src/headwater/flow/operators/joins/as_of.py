"""Events joined with the version of a row that held when they happened.

All versions of a key are kept for as long as asked. A version holds from its time until that of the next; one that is
deleted, or whose own end has come, holds nothing. An event waits until the watermark, which the table's topic is part
of, has passed its time: then all versions that count for it are there, whatever came first.

Versions that hold since their record was written are read in the order of time. One that comes when the watermark, less
the horizon of corrections, has passed its time changes nothing that was emitted before: for events before that moment
it is as if it were not there (`_seen`). Within the horizon results are retracted and emitted again.

Versions with a `valid_from` of their own (`dated`) arrive in any order, and are read before events where there is a
choice (source/batch_plan/leading.py). Each counts for every event that is emitted after it, and corrects those emitted
within the horizon: so a result is what all versions in the log say, except for events that were emitted before a
version arrived that is valid from before them. Such a version is reported as late.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.events import (
    FAR_US,
    POSITION,
    TIME,
    EventRows,
    Events,
    Given,
    Shard,
    StreamJoin,
    StreamStep,
    arrived,
    groups_of,
    kept,
    near,
    results,
    scanned,
    together,
    written,
)
from headwater.flow.operators.joins.moments import last_that_counts
from headwater.flow.operators.joins.pairing import INNER, Pairing, renamed, without_nulls
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask, as_mask
from headwater.flow.state.shard import ShardState

GONE, UNTIL, SEEN = EXTRA = ("_gone", "_until", "_seen")
"""Of a version: is the row deleted, when does it end by itself, and from when on does it count; in microseconds."""
ALWAYS_US = -FAR_US


def with_extra(columns: pa.Schema) -> pa.Schema:
    """The columns of a version, beside those of its row."""
    own = [pa.field(field.name, field.type) for field in columns]
    return pa.schema([*own, pa.field(GONE, pa.bool_()), pa.field(UNTIL, pa.int64()), pa.field(SEEN, pa.int64())])


@dataclass(frozen=True)
class AsOfJoin(StreamJoin):
    """`versions` have the columns of `with_extra`; their time is that from which they hold."""

    events: Events
    versions: Events
    pairing: Pairing
    kept_us: int
    dated: bool = False
    """Versions say themselves since when they hold: each that is there counts, whenever it came."""

    def late_below_us(self, clock: WindowClock) -> int:
        """A version that holds from before this is late for some of the events that were emitted."""
        return (clock.passed_before_us if self.dated else clock.passed_us) - clock.horizon_us

    def late_below(self, clock: WindowClock) -> tuple[int | None, int | None]:
        if clock.watermark_us is None:
            return None, None
        return clock.passed_us - self.kept_us, self.late_below_us(clock)

    def accepted(self, given: Given, clock: WindowClock) -> int:
        """A version that is late counts for what follows, and was reported by the task that prepared it."""
        events, versions = given
        timely = (
            0 if versions is None else np.count_nonzero(versions.column(TIME).to_numpy() >= self.late_below_us(clock))
        )
        return int(timely) + (0 if events is None else events.num_rows)

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return {"left": self.events.state, "versions": self.versions.state}

    def drop_below(self, clock: WindowClock) -> Mapping[str, int | None]:
        return {"left": None if clock.watermark_us is None else clock.forgotten_us, "versions": None}

    def waits(self, part: str, slot: Slot, clock: WindowClock) -> bool:
        return part == "left" and slot.begin < clock.passed_us and slot.end > clock.passed_before_us

    def step(self, shard: Shard, given: Given, clock: WindowClock) -> StreamStep:
        """`given` are events that are not older than the versions kept, and versions."""
        state, old = shard.events("left"), shard.rows("versions")
        new, fresh = arrived(self.events, given[0]), self._fresh(given[1], clock)
        parts = [new, scanned(self.events, state, clock.passed_before_us, clock.passed_us)]
        if clock.horizon_us:
            parts.append(self._emitted_before(shard, fresh, clock))
        events = together(parts)
        number = np.arange(len(events.hashes))
        was_emitted = number >= len(new.hashes) + len(parts[1].hashes)
        able = without_nulls(events.keys(self.events))
        is_due = (events.times < clock.passed_us) | ~able
        due = events.filter(able)
        history = self._history(old, due.hashes, due.keys(self.events), fresh)
        after = history.holding(events, able, fresh=True)
        before = history.holding(events, able, fresh=False) if was_emitted.any() else np.full(len(after), -1)
        changed = is_due & (~was_emitted | (before != after))
        retracted, emitted = np.flatnonzero(was_emitted & changed), np.flatnonzero(changed)
        missing = (after[emitted] < 0) & (self.pairing.how == INNER)
        runs = {
            "left": written(self.events, state, new.filter(self._to_keep(new, clock)), arrived(self.events, None)),
            "versions": [run for run in (self._versions_written(old, history, clock),) if run],
        }
        rows = history.rows.rows.select(self.pairing.right.names)
        return StreamStep(
            results(self.pairing, events, rows, retracted, before[retracted]),
            results(self.pairing, events, rows, emitted, after[emitted], missing),
            runs,
        )

    def _to_keep(self, new: EventRows, clock: WindowClock) -> Mask:
        return np.asarray(without_nulls(new.keys(self.events)) & (new.times >= clock.forgotten_us), np.bool_)

    def _fresh(self, given: pa.RecordBatch | None, clock: WindowClock) -> EventRows:
        """New versions, with when they begin to count; those of no key are none."""
        rows = arrived(self.versions, given)
        rows = rows.filter(without_nulls(rows.keys(self.versions)))
        bound_us = ALWAYS_US if self.dated else self.late_below_us(clock)
        return _seen_from(rows, np.where(rows.times < bound_us, bound_us, ALWAYS_US))

    def _emitted_before(self, shard: Shard, fresh: EventRows, clock: WindowClock) -> EventRows:
        """Events that were emitted, of keys that new versions have come for."""
        keys = fresh.keys(self.versions)
        (groups,) = groups_of([(fresh.hashes, keys)])
        _, first = np.unique(groups, return_index=True)
        asked, chosen = fresh.take(first), keys.take(pa.array(first))
        low, high = np.full(len(first), self.late_below_us(clock)), np.full(len(first), clock.passed_before_us - 1)
        return near(self.events, shard.events("left"), asked, chosen, low, high).events

    def _history(self, old: ShardState, wanted: Integers, of: pa.RecordBatch, fresh: EventRows) -> "History":
        """The versions of some keys, which have hashes, and of those that new ones came for."""
        keys = pa.concat_batches([of, fresh.keys(self.versions)])
        hashes = np.concatenate([wanted, fresh.hashes])
        (groups,) = groups_of([(hashes, keys)])
        asked, first = np.unique(groups, return_index=True)
        low, high = np.full(len(asked), -FAR_US), np.full(len(asked), FAR_US)
        found = old.fetch(hashes[first], renamed(keys.take(pa.array(first)), self.versions.on), low, high)
        of_fresh = groups[len(wanted) :]
        rows = together([kept(self.versions, found.rows), fresh])
        if self.dated:  # also those that were kept when it mattered when they came
            rows = _seen_from(rows, np.full(len(rows.hashes), ALWAYS_US))
        numbers = np.concatenate([asked[found.places], of_fresh])
        order = np.lexsort([*(rows.position.column(name).to_numpy() for name in reversed(POSITION)), numbers])
        is_fresh = np.append(np.zeros(len(found.places), np.bool_), np.ones(len(of_fresh), np.bool_))
        return History(rows.take(order), numbers[order], is_fresh[order], groups[: len(wanted)])

    def _versions_written(self, state: ShardState, history: "History", clock: WindowClock) -> RunInfo | None:
        """The new ones, and of their keys deletions of those that no event can be older than any more."""
        gone = history.superseded(clock.passed_us - self.kept_us) & np.isin(
            history.groups, history.groups[history.is_fresh]
        )
        wanted = np.flatnonzero(history.is_fresh ^ gone)
        rows, deleted = history.rows.take(wanted), gone[wanted]
        columns = {HASH: pa.array(rows.hashes)} | {name: rows.rows.column(name) for name in self.versions.columns.names}
        columns |= {name: rows.position.column(name) for name in POSITION} | {DELETED: pa.array(deleted)}
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return state.write(batch, existed=~history.is_fresh[wanted])


def _seen_from(rows: EventRows, seen: Integers) -> EventRows:
    place = rows.rows.schema.get_field_index(SEEN)
    return rows._replace(rows=rows.rows.set_column(place, SEEN, pa.array(seen, pa.int64())))


class History(NamedTuple):
    """Versions of some keys, sorted by key and time; and the number of the key of each event that has one."""

    rows: EventRows
    groups: Integers
    is_fresh: Mask
    of_events: Integers

    def holding(self, events: EventRows, able: Mask, *, fresh: bool) -> Integers:
        """The place of the version that holds for each event, with or without the new ones; −1 if there is none."""
        counts = np.ones(len(self.groups), np.bool_) if fresh else ~self.is_fresh
        places = np.flatnonzero(counts)
        groups, times = self.groups[places], self.rows.times[places]
        seen = self.rows.rows.column(SEEN).to_numpy()[places]
        found = last_that_counts(groups, times, seen, self.of_events, events.times[able])
        result = np.full(len(events.hashes), -1)
        result[able] = np.where(found >= 0, places[np.maximum(found, 0)] if len(places) else -1, -1)
        return self._in_force(result, events.times)

    def _in_force(self, found: Integers, times: Integers) -> Integers:
        """Without versions that say that there is no row at that time."""
        if not len(self.groups):
            return found
        at = np.maximum(found, 0)
        until = self.rows.rows.column(UNTIL).fill_null(FAR_US).to_numpy()[at]
        gone = as_mask(self.rows.rows.column(GONE).fill_null(False))[at]
        return np.where((found < 0) | gone | (times >= until), -1, found)

    def superseded(self, before_us: int) -> Mask:
        """Versions that the next of their key stands in for, at all times from one on."""
        if len(self.groups) < 2:
            return np.zeros(len(self.groups), np.bool_)
        since = np.maximum(self.rows.times, self.rows.rows.column(SEEN).to_numpy())
        follows = (self.groups[1:] == self.groups[:-1]) & (since[1:] <= before_us)
        return np.append(follows, False)


__all__ = ["EXTRA", "TIME", "AsOfJoin", "with_extra"]
