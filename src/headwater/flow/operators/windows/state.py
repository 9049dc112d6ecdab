"""The state of windows in one shard: slots of time, each with its own runs.

A slot is put up when rows come for a time that none covers yet, and covers all windows side by side for which a batch
has rows: one when the stream is live, many while a backlog is read, so that a batch writes few files either way. The
watermark passes slots in order; one that it has left behind is dropped as a whole.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.state.manifest import EVERYTHING, RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.open_runs import OpenedRuns
from headwater.flow.state.shard import Fetched, Found, ShardState, StateHandle, empty_rows

NEW_SLOTS_MAX = 4
"""So many slots a batch puts up in a shard at most. Far apart as its rows may be, it writes no more files than that."""

FIRST_US, LAST_US = -(2**63), 2**63 - 1
Ranges = Callable[[Integers], tuple[Integers, Integers]]
"""For each time the range, from a begin up to an end, that a slot for it would cover."""


def everything(times_us: Integers) -> Mask:
    return np.ones(len(times_us), np.bool_)


class Placed(NamedTuple):
    """Slots, those that are new among them, and for each row the number of its own."""

    slots: list[Slot]
    numbers: Integers


class WindowState:
    def __init__(self, handle: StateHandle, shard: int, opened: OpenedRuns | None = None) -> None:
        self._handle, self._shard, self._opened = handle, shard, opened
        self.slots = [slot for slot in handle.slots(shard) if slot != EVERYTHING]

    @property
    def schema(self) -> StateSchema:
        return self._handle.schema

    def slot(self, slot: Slot) -> ShardState:
        return ShardState(self._handle, self._shard, self._opened, slot=slot)

    def placed(self, times_us: Integers, ranges: Ranges) -> Placed:
        """The slot of each time; where there is none, one that covers its range as far as no other does."""
        found = pa.array(times_us, pa.int64()).dictionary_encode()
        slots, numbers = self._placed(found.dictionary.to_numpy(), ranges)
        return Placed(slots, numbers[found.indices.to_numpy()])

    def _placed(self, times_us: Integers, ranges: Ranges) -> Placed:
        open_ = covering(self.slots, times_us) < 0
        if not open_.any():
            return Placed(self.slots, covering(self.slots, times_us))
        begins_us, ends_us = ranges(times_us)
        slots = sorted([*self.slots, *new_slots(self.slots, *(part[open_] for part in (times_us, begins_us, ends_us)))])
        return Placed(slots, covering(slots, times_us))

    def lookup(self, placed: Placed, hashes: Integers, keys: pa.RecordBatch) -> Found:
        """What is kept for keys that are sorted by their slot."""
        found = [self.slot(slot).lookup(hashes[part], keys.slice(part.start, part.stop - part.start))
                 for slot, part in parts_of(placed)]  # fmt: skip
        if not found:
            return Found(np.zeros(0, np.bool_), empty_rows(self.schema.values, 0))
        return Found(np.concatenate([one.mask for one in found]), pa.concat_batches([one.values for one in found]))

    def write(self, placed: Placed, rows: pa.RecordBatch, existed: Mask) -> list[RunInfo]:
        """Write rows that are sorted by their slot."""
        runs = [
            self.slot(slot).write(rows.slice(part.start, part.stop - part.start), existed=existed[part])
            for slot, part in parts_of(placed)
        ]
        return [run for run in runs if run is not None]

    def scan(self, first_us: int, end_us: int, wanted: Callable[[Integers], Mask] = everything) -> pa.RecordBatch:
        """All live rows of slots that overlap [first, end) and whose first column of order is wanted."""
        slots = [slot for slot in self.slots if slot.begin < end_us and slot.end > first_us]
        pieces = [piece for slot in slots if (piece := self.slot(slot).select(wanted)).num_rows]
        if len(pieces) < 2:  # mostly; nothing is copied
            return pieces[0] if pieces else empty_rows(self.schema.rows, 0)
        return pa.concat_batches(pieces)

    def fetch(
        self, hashes: Integers, keys: pa.RecordBatch, low: Integers, high: Integers, within: Callable[[Slot], Mask]
    ) -> Iterator[tuple[Slot, Fetched]]:
        """From each slot the rows in [low, high) of those keys that may have some there."""
        for slot in self.slots:
            asked = np.flatnonzero(within(slot))
            if len(asked):
                part = keys.take(asked) if keys.num_columns else keys
                found = self.slot(slot).fetch(hashes[asked], part, low[asked], high[asked])
                if len(found.places):
                    yield slot, found._replace(places=asked[found.places])


def covering(slots: list[Slot], times_us: Integers) -> Integers:
    """The number of the slot that each time lies in, −1 where there is none.

    >>> covering([Slot(0, 10), Slot(20, 30)], np.array([-1, 0, 9, 10, 29])).tolist()
    [-1, 0, 0, -1, 1]
    """
    if not slots:
        return np.full(len(times_us), -1)
    begins, ends = np.array(slots, np.int64).T
    found = np.searchsorted(begins, times_us, side="right") - 1
    return np.where((found >= 0) & (times_us < ends[found]), found, -1)


def new_slots(slots: list[Slot], times_us: Integers, begins_us: Integers, ends_us: Integers) -> list[Slot]:
    """Slots for times that none covers, as few as may be: each time is to lie in one with all of [begin, end), as far
    as that is free. Slots are joined where they touch, and beyond a bound of their number where the gaps are smallest.

    >>> new_slots([Slot(20, 30)], np.array([5, 30, 12, 95]), np.array([0, 30, 10, 90]), np.array([10, 40, 20, 100]))
    [Slot(begin=0, end=20), Slot(begin=30, end=40), Slot(begin=90, end=100)]
    """
    begins, ends, gap = _free(slots, times_us, begins_us, ends_us)
    begins, places = np.unique(begins, return_index=True)
    ends, gap = ends[places], gap[places]
    distance = begins[1:] - ends[:-1]
    taken = gap[1:] != gap[:-1]
    apart = np.flatnonzero((distance > 0) & ~taken)
    widest = apart[np.argsort(-distance[apart], kind="stable")][: NEW_SLOTS_MAX - 1]
    cuts = np.sort(np.concatenate([np.flatnonzero(taken), widest]))
    firsts, lasts = np.append(0, cuts + 1), np.append(cuts, len(begins) - 1)
    return [Slot(int(begins[first]), int(ends[last])) for first, last in zip(firsts, lasts, strict=True)]


def _free(
    slots: list[Slot], times_us: Integers, begins_us: Integers, ends_us: Integers
) -> tuple[Integers, Integers, Integers]:
    """What of [begin, end) around a time no slot covers, and the number of the gap between slots that it is in."""
    gap = np.searchsorted(np.array([slot.begin for slot in slots], np.int64), times_us, side="right")
    below = np.array([FIRST_US, *(slot.end for slot in slots)])
    above = np.array([*(slot.begin for slot in slots), LAST_US])
    return np.maximum(begins_us, below[gap]), np.minimum(ends_us, above[gap]), gap


def parts_of(placed: Placed) -> Iterator[tuple[Slot, slice]]:
    """The rows of each slot that has any; rows are sorted by slot."""
    bounds = np.searchsorted(placed.numbers, np.arange(len(placed.slots) + 1))
    for number, slot in enumerate(placed.slots):
        if bounds[number] < bounds[number + 1]:
            yield slot, slice(int(bounds[number]), int(bounds[number + 1]))
