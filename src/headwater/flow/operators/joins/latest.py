"""Events joined with a table as it is when they come: the changes of a batch count for the events of the same batch.

An event whose row is not there may wait for it: it is kept until a change brings the row, or the watermark has passed
its time by more than it may wait. Then it is emitted without one, or reported as missing one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.events import (
    FAR_US,
    EventRows,
    Events,
    Given,
    Shard,
    StreamJoin,
    StreamStep,
    arrived,
    groups_of,
    near,
    results,
    scanned,
    together,
    written,
)
from headwater.flow.operators.joins.pairing import INNER, Pairing, renamed, without_nulls
from headwater.flow.operators.joins.tables import Side, Touched, touched_rows, untouched_rows, write_touched
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.state.manifest import RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.hash_search import expanded
from headwater.flow.state.shard import ShardState


@dataclass(frozen=True)
class LatestJoin(StreamJoin):
    """`wait_us` is 0 if events do not wait."""

    events: Events
    table: Side
    pairing: Pairing
    wait_us: int = 0
    missing_is_late = True

    def accepted(self, given: Given, clock: WindowClock) -> int:
        """Rows of the table are not counted."""
        return 0 if given[0] is None else given[0].num_rows

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        waiting = {"waiting": self.events.state} if self.wait_us else {}
        return {**waiting, "right": self.table.state}

    def drop_below(self, clock: WindowClock) -> Mapping[str, int | None]:
        return {"waiting": None if clock.watermark_us is None else clock.passed_us - self.wait_us, "right": None}

    def waits(self, part: str, slot: Slot, clock: WindowClock) -> bool:
        ends = slot.begin + self.wait_us < clock.passed_us and slot.end + self.wait_us > clock.passed_before_us
        return part == "waiting" and ends

    def step(self, shard: Shard, given: Given, clock: WindowClock) -> StreamStep:
        """`given` are events, and rows of the table with `_after`, as for a join of tables."""
        new, touched = arrived(self.events, given[0]), touched_rows(self.table, given[1])
        table = shard.rows("right")
        woken = self._woken(shard, touched, clock)
        ending = self._ending(shard, clock)
        events = together([new, woken, ending])
        number = np.arange(len(events.hashes))
        is_new, is_ending = number < len(new.hashes), number >= len(new.hashes) + len(woken.hashes)
        rows, left_at, right_at = self._pairs(events, touched, table)
        met = np.bincount(left_at, minlength=len(number)) > 0
        can_wait = without_nulls(events.keys(self.events)) & (events.times + self.wait_us >= clock.passed_us)
        waits = is_new & ~met & can_wait & bool(self.wait_us)
        alone = np.flatnonzero(~met & ((is_new & ~waits) | is_ending))
        missing = np.append(np.zeros(len(left_at), np.bool_), np.full(len(alone), self.pairing.how == INNER))
        after = results(
            self.pairing, events, rows, np.append(left_at, alone), np.append(right_at, np.full(len(alone), -1)), missing
        )
        runs: dict[str, list[RunInfo]] = {"right": [run for run in (write_touched(self.table, table, touched),) if run]}
        if self.wait_us:
            gone = np.flatnonzero(~is_new & met)
            state = shard.events("waiting")
            runs["waiting"] = written(self.events, state, events.filter(waits), events.take(gone))
        return StreamStep(after.slice(0, 0), after, runs)

    def _woken(self, shard: Shard, touched: Touched, clock: WindowClock) -> EventRows:
        """Waiting events of keys that a batch brings rows for; those that end in this batch are looked at anyway."""
        none = arrived(self.events, None)
        if not self.wait_us:
            return none
        there = np.flatnonzero(touched.after >= 0)
        keys = touched.keys.take(pa.array(there))
        (groups,) = groups_of([(touched.hashes[there], keys)])
        _, first = np.unique(groups, return_index=True)
        asked = EventRows(keys.take(pa.array(first)), touched.hashes[there][first], none.position)
        low, high = np.full(len(first), clock.passed_us - self.wait_us), np.full(len(first), FAR_US)
        return near(self.events, shard.events("waiting"), asked, keys.take(pa.array(first)), low, high).events

    def _ending(self, shard: Shard, clock: WindowClock) -> EventRows:
        if not self.wait_us:
            return arrived(self.events, None)
        bounds = clock.passed_before_us - self.wait_us, clock.passed_us - self.wait_us
        return scanned(self.events, shard.events("waiting"), *bounds)

    def _pairs(self, events: EventRows, touched: Touched, table: ShardState) -> "Pairs":
        keys = events.keys(self.events)
        able = without_nulls(keys)
        of_events, of_touched = groups_of([(events.hashes, keys), (touched.hashes, touched.keys)])
        asked, first = np.unique(of_events[able], return_index=True)
        one = np.flatnonzero(able)[first]
        found = table.matches(events.hashes[one], renamed(keys.take(pa.array(one)), self.table.on))
        untouched = untouched_rows(self.table, touched, found.rows)
        there = np.flatnonzero(touched.after >= 0)
        kept = found.rows.filter(pa.array(untouched)).select(self.table.columns.names)
        now = touched.rows.take(pa.array(touched.after[there]))
        rows = pa.concat_batches([now, pa.RecordBatch.from_arrays(kept.columns, schema=now.schema)])
        groups = np.concatenate([of_touched[there], asked[found.places[untouched]]])
        left_at, right_at = _same_groups(of_events, able, groups)
        meets = self.pairing.meets(events.rows, rows, left_at, right_at)
        return Pairs(rows, left_at[meets], right_at[meets])


class Pairs(NamedTuple):
    """Rows of the table, and places of events and of rows that meet."""

    rows: pa.RecordBatch
    left_at: Integers
    right_at: Integers


def _same_groups(of_events: Integers, able: Mask, of_rows: Integers) -> tuple[Integers, Integers]:
    order = np.argsort(of_rows, kind="stable")
    begins = np.searchsorted(of_rows[order], of_events, side="left")
    ends = np.searchsorted(of_rows[order], of_events, side="right")
    lengths = np.where(able, ends - begins, 0)
    return np.repeat(np.arange(len(of_events)), lengths), order[expanded(begins, lengths)]
