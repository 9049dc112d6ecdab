"""Events of two streams that are near each other in time.

An event of the left at t meets events of the right from t + low to t + high. Both sides are kept for as long as a
partner may come, and as long as an event may have to know that it had one: that an event has none is found by looking
for its partners when the watermark says that no more can come, so nothing is noted beside the events.

Late are events before the watermark less the horizon of corrections. Without a horizon results stay; with one, an event
that was emitted as unmatched is retracted when a partner comes after all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
)  # fmt: skip
from headwater.flow.operators.joins.moments import first_of
from headwater.flow.operators.joins.pairing import Pairing, without_nulls
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.state.manifest import Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.hash_search import expanded


@dataclass(frozen=True)
class IntervalJoin(StreamJoin):
    left: Events
    right: Events
    pairing: Pairing
    low_us: int
    high_us: int
    may_miss = False

    @property
    def parts(self) -> Mapping[str, StateSchema]:
        return {"left": self.left.state, "right": self.right.state}

    @property
    def kept_us(self) -> Mapping[str, int]:
        """For how long behind their own time events of each side are needed."""
        width = self.high_us - self.low_us
        left = max(self.high_us, width) if self.pairing.keeps_right else self.high_us
        right = max(-self.low_us, width) if self.pairing.keeps_left else -self.low_us
        return {"left": left, "right": right}

    def late_below(self, clock: WindowClock) -> tuple[int | None, int | None]:
        bound_us = None if clock.watermark_us is None else clock.forgotten_us
        return bound_us, bound_us

    def drop_below(self, clock: WindowClock) -> Mapping[str, int | None]:
        if clock.watermark_us is None:
            return dict.fromkeys(self.parts)
        return {part: clock.forgotten_us - kept for part, kept in self.kept_us.items()}

    def waits(self, part: str, slot: Slot, clock: WindowClock) -> bool:
        keeps, until = (
            (self.pairing.keeps_left, self.high_us) if part == "left" else (self.pairing.keeps_right, -self.low_us)
        )
        return keeps and slot.begin + until < clock.passed_us and slot.end + until > clock.passed_before_us

    def step(self, shard: Shard, given: Given, clock: WindowClock) -> StreamStep:
        """`given` are events that are not late. Those whose key is null are not kept, and have no partner."""
        mine, theirs = arrived(self.left, given[0]), arrived(self.right, given[1])
        states = shard.events("left"), shard.events("right")
        pieces = [self._pairs(mine, theirs, states)]
        retracted = []
        if self.pairing.keeps_left:
            alone, again = self._alone(states, (mine, theirs), clock)
            pieces.append(self._emitted(alone, "left"))
            retracted.append(self._emitted(again, "left"))
        if self.pairing.keeps_right:
            mirrored = self.mirrored
            alone, again = mirrored._alone(states[::-1], (theirs, mine), clock)
            pieces.append(self._emitted(alone, "right"))
            retracted.append(self._emitted(again, "right"))
        none = self._emitted(_none(self.left), "left")
        runs = {
            part: written(events, state, _can_meet(events, new), _none(events))
            for part, events, state, new in zip(
                self.parts, (self.left, self.right), states, (mine, theirs), strict=True
            )
        }
        return StreamStep(pa.concat_batches([none, *retracted]), pa.concat_batches(pieces), runs)

    @property
    def mirrored(self) -> "IntervalJoin":
        return replace(
            self, left=self.right, right=self.left, low_us=-self.high_us, high_us=-self.low_us,
            pairing=self.pairing.mirrored,
        )  # fmt: skip

    def _emitted(self, alone: EventRows, side: str) -> pa.RecordBatch:
        places, nowhere = np.arange(len(alone.hashes)), np.full(len(alone.hashes), -1)
        if side == "left":
            return results(self.pairing, alone, _none(self.right), places, nowhere)
        return results(self.pairing, _none(self.left), alone, nowhere, places)

    def _pairs(self, mine: EventRows, theirs: EventRows, states: tuple[WindowState, WindowState]) -> pa.RecordBatch:
        """Those of which at least one event is new."""
        left, right = _can_meet(self.left, mine), _can_meet(self.right, theirs)
        times = right.times
        before = near(self.left, states[0], right, right.keys(self.right), times - self.high_us, times - self.low_us)
        others = near(
            self.right, states[1], left, left.keys(self.left), left.times + self.low_us, left.times + self.high_us
        )
        lefts, rights = together([left, before.events]), together([right, others.events])
        new_left, new_right = _new_pairs(self, left, right)
        old_left = len(left.hashes) + np.arange(len(before.places))
        old_right = len(right.hashes) + np.arange(len(others.places))
        left_at = np.concatenate([new_left, old_left, others.places])
        right_at = np.concatenate([new_right, before.places, old_right])
        meets = self.pairing.meets(lefts.rows, rights.rows, left_at, right_at)
        return results(self.pairing, lefts, rights, left_at[meets], right_at[meets])

    def _alone(
        self, states: tuple[WindowState, WindowState], new: tuple[EventRows, EventRows], clock: WindowClock
    ) -> tuple[EventRows, EventRows]:
        """Events of the left that are now emitted as unmatched, and those for which that no longer holds."""
        high, incoming = self.high_us, new[0]
        closing = scanned(self.left, states[0], clock.passed_before_us - high, clock.passed_us - high)
        # One whose key is null is not kept: nothing will ever change about it.
        able = without_nulls(incoming.keys(self.left))
        over = incoming.filter(np.asarray((incoming.times + high < clock.passed_us) | ~able, np.bool_))
        ending = together([closing, over])
        partners = _can_meet(self.right, new[1])
        alone = ending.filter(~(self._met(ending, states[1]) | self._met_by(ending, partners)))
        if not clock.horizon_us:
            return alone, _none(self.left)
        times = partners.times
        touched = near(self.left, states[0], partners, partners.keys(self.right), times - high, times - self.low_us)
        unmatched = _distinct(
            touched.events.filter(np.asarray(touched.events.times + high < clock.passed_before_us, np.bool_))
        )
        again = unmatched.filter(~self._met(unmatched, states[1]) & self._met_by(unmatched, partners))
        return alone, again

    def _met(self, events: EventRows, state: WindowState) -> Mask:
        """Have they a partner among those that are kept?"""
        keys = events.keys(self.left)
        able = without_nulls(keys)
        asked = events.filter(able)
        found = near(
            self.right, state, asked, keys.filter(pa.array(able)), asked.times + self.low_us, asked.times + self.high_us
        )
        meets = self.pairing.meets(asked.rows, found.events.rows, found.places, np.arange(len(found.places)))
        result = np.zeros(len(events.hashes), np.bool_)
        result[np.flatnonzero(able)[found.places[meets]]] = True
        return result

    def _met_by(self, events: EventRows, others: EventRows) -> Mask:
        """Have they one among these?"""
        able = np.flatnonzero(without_nulls(events.keys(self.left)))
        asked = events.take(able)
        left_at, right_at = _new_pairs(self, asked, others)
        meets = self.pairing.meets(asked.rows, others.rows, left_at, right_at)
        result = np.zeros(len(events.hashes), np.bool_)
        result[able[left_at[meets]]] = True
        return result


def _new_pairs(join: IntervalJoin, left: EventRows, right: EventRows) -> tuple[Integers, Integers]:
    """Places of all pairs of events of two lots that are near each other, further conditions aside."""
    parts = groups_of([(left.hashes, left.keys(join.left)), (right.hashes, right.keys(join.right))])
    order = np.lexsort([right.times, parts[1]])
    begins = first_of(parts[1][order], right.times[order], parts[0], left.times + join.low_us)
    ends = first_of(parts[1][order], right.times[order], parts[0], left.times + join.high_us + 1)
    lengths = np.maximum(ends - begins, 0)
    return np.repeat(np.arange(len(left.hashes)), lengths), order[expanded(begins, lengths)]


def _can_meet(events: Events, rows: EventRows) -> EventRows:
    return rows.filter(without_nulls(rows.keys(events)))


def _none(events: Events) -> EventRows:
    return arrived(events, None)


def _distinct(rows: EventRows) -> EventRows:
    """Each event once."""
    position = [rows.position.column(name).to_numpy() for name in rows.position.schema.names]
    order = np.lexsort(position[::-1])
    repeated = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in position:
        repeated &= column[order][1:] == column[order][:-1]
    return rows.take(np.sort(order[np.append(True, ~repeated)] if len(order) else order))


__all__ = ["FAR_US", "IntervalJoin"]
