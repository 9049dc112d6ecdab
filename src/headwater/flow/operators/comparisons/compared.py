"""Windows beside earlier ones of their key: what is kept, and what one batch of changes of windows does to it.

A change of a window is emitted for that window and for all that look back at it, as far as they are there. Nothing else
is looked at: what a batch costs depends on what changed, and on how many windows are looked back at, not on what is
kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.changes import change_schema, merge_changes
from headwater.flow.operators.comparisons.computing import Line, compute
from headwater.flow.operators.comparisons.kinds import Ago, Comparison, agos_of, result_type
from headwater.flow.operators.comparisons.looking_back import earlier, later, reach_us
from headwater.flow.operators.windows.aligned import AlignedWindow
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.operators.windows.panes import beside
from headwater.flow.operators.windows.state import Placed, WindowState, covering
from headwater.flow.operators.windows.step import NAMES, START, result_keys
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.sorting import sorted_order
from headwater.flow.state.shard import Found, conformed

SLOTS = 16


class CompareStep(NamedTuple):
    """The changes of a shard, and the runs that the driver has to commit."""

    changes: pa.RecordBatch
    runs: list[RunInfo]


class Names(NamedTuple):
    """Windows of keys: hash of the key, the key, start of the window."""

    hashes: Integers
    by: pa.RecordBatch
    starts: Integers

    def at(self, places: Integers, starts: Integers | None = None) -> "Names":
        """Some of them, or others of the same keys."""
        by = self.by.take(places) if self.by.num_columns else self.by
        return Names(self.hashes[places], by, self.starts[places] if starts is None else starts)


@dataclass(frozen=True)
class Compared:
    """`by` are the user's columns of the key, `values` the others that windows have. `retained_us` is for how long
    behind the watermark windows may still change: lateness and horizon of corrections."""

    window: AlignedWindow
    by: pa.Schema
    values: pa.Schema
    comparisons: Mapping[str, Comparison]
    retained_us: int = 0

    @property
    def state(self) -> StateSchema:
        return StateSchema(pa.schema([*self.by, pa.field(START, pa.int64())]), self.values, (START,))

    @property
    def key(self) -> pa.Schema:
        return pa.schema([*self.by, *NAMES])

    @property
    def results(self) -> pa.Schema:
        compared = [
            pa.field(name, result_type(one, self.values.field(one.column).type))
            for name, one in self.comparisons.items()
        ]
        return pa.schema([*self.values, *compared])

    @property
    def reach_us(self) -> int:
        """Windows that begin longer than this before the first that may change are looked at no more."""
        return max((reach_us(self.window, ago) for ago in agos_of(self.comparisons)), default=0)

    def drop_below(self, forgotten_us: int) -> int:
        """Slots that end here or before are not needed, once windows that end before a time change no more."""
        return forgotten_us - self.window.longest_us - self.reach_us

    def step(self, state: WindowState, incoming: pa.RecordBatch) -> CompareStep:
        """`incoming` has `_hash`, the key with `window_start`, `_deleted`, and what windows hold; each window once."""
        if not incoming.num_rows:
            return CompareStep(pa.RecordBatch.from_pylist([], change_schema(self.key, self.results)), [])
        by = conformed(incoming, self.by)
        touched = Names(incoming.column(HASH).to_numpy(), by, incoming.column(START).to_numpy())
        emitted, known = self._looked_at(touched)
        before = _looked_up(state, known.names)
        after = _overlaid(before, incoming, known.touched, self.values)
        rows = [self._compared(emitted, known, found) for found in (before, after)]
        own = known.emitted
        keys = conformed(result_keys(emitted.by, emitted.starts, self.window.ends(emitted.starts)), self.key)
        changes = merge_changes(keys, before.mask[own], rows[0], after.mask[own], rows[1])
        return CompareStep(changes, self._written(state, incoming, before.mask[known.touched]))

    def _looked_at(self, touched: Names) -> tuple[Names, "Known"]:
        """The windows that may be emitted, and those that have to be known for it."""
        agos = agos_of(self.comparisons)
        places, starts = [np.arange(len(touched.starts))], [touched.starts]
        for ago in agos:
            looking = later(self.window, ago, touched.starts)
            places.append(looking.numbers)
            starts.append(looking.starts)
        candidates = touched.at(np.concatenate(places), np.concatenate(starts))
        _, firsts = _numbered(candidates)
        emitted = candidates.at(firsts)
        count = len(firsts)
        more = [earlier(self.window, ago, emitted.starts) for ago in agos]
        every = np.tile(np.arange(count), 1 + len(more))
        asked = emitted.at(every, np.concatenate([emitted.starts, *more]))
        both = Names(
            np.concatenate([touched.hashes, asked.hashes]),
            pa.concat_batches([touched.by, asked.by]) if touched.by.num_columns else touched.by,
            np.concatenate([touched.starts, asked.starts]),
        )
        numbers, firsts = _numbered(both)
        mine, rest = numbers[: len(touched.starts)], numbers[len(touched.starts) :]
        agos_at = {ago: rest[count * place : count * (place + 1)] for place, ago in enumerate(agos, 1)}
        return emitted, Known(both.at(firsts), mine, rest[:count], agos_at)

    def _compared(self, emitted: Names, known: "Known", found: Found) -> pa.RecordBatch:
        """What the windows to be emitted hold, and what comes of comparing them."""
        taken = {ago: found.values.take(places) for ago, places in known.before.items()}
        own = found.values.take(known.emitted)
        line = Line(self.window.ends(emitted.starts) - emitted.starts, own, taken)
        columns = [compute(name, one, line) for name, one in self.comparisons.items()]
        return pa.RecordBatch.from_arrays([*own.columns, *columns], schema=self.results)

    def _written(self, state: WindowState, incoming: pa.RecordBatch, existed: Mask) -> list[RunInfo]:
        """A window that goes and was not known leaves nothing."""
        wanted = existed | ~incoming.column(DELETED).to_numpy(zero_copy_only=False)
        incoming, existed = incoming.filter(pa.array(wanted)), existed[wanted]
        starts = incoming.column(START).to_numpy()
        placed = state.placed(starts, self._slot_ranges)
        order = sorted_order([placed.numbers, incoming.column(HASH).to_numpy(), starts])
        rows = conformed(incoming, state.schema.rows).take(order)
        return state.write(Placed(placed.slots, placed.numbers[order]), rows, existed[order])

    def _slot_ranges(self, starts: Integers) -> tuple[Integers, Integers]:
        kept_us = self.reach_us + self.retained_us + self.window.longest_us
        return self.window.slot_ranges(starts, max(kept_us // SLOTS, 1))


class Known(NamedTuple):
    """Windows, each once; and the places among them of those that a batch touches, those to be emitted, and those that
    these look back at."""

    names: Names
    touched: Integers
    emitted: Integers
    before: Mapping[Ago, Integers]


def _numbered(names: Names) -> tuple[Integers, Integers]:
    """The number of each window among those that are different, and where each of these is first named."""
    order, firsts = grouped([names.hashes, names.starts], names.by)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(firsts) - 1
    return numbers, order[firsts]


def _looked_up(state: WindowState, names: Names) -> Found:
    """What is kept of windows, in the order they are named in."""
    slots = covering(state.slots, names.starts)
    asked = np.flatnonzero(slots >= 0)
    asked = asked[sorted_order([slots[asked], names.hashes[asked], names.starts[asked]])]
    part = names.at(asked)
    starts = pa.RecordBatch.from_arrays([pa.array(part.starts)], [START])
    found = state.lookup(Placed(state.slots, slots[asked]), part.hashes, beside(part.by, starts))
    mask = np.zeros(len(names.starts), np.bool_)
    mask[asked] = found.mask
    source = np.full(len(names.starts), -1, np.int64)
    source[asked[found.mask]] = np.flatnonzero(found.mask)
    return Found(mask, found.values.take(pa.array(source, mask=~mask)))


def _overlaid(found: Found, incoming: pa.RecordBatch, places: Integers, values: pa.Schema) -> Found:
    """The same after a batch: what it says of some of them."""
    mask = found.mask.copy()
    mask[places] = ~incoming.column(DELETED).to_numpy(zero_copy_only=False)
    count = len(mask)
    source = np.arange(count)
    source[places] = count + np.arange(incoming.num_rows)
    both = pa.concat_batches([conformed(found.values, values), conformed(incoming, values)])
    return Found(mask, both.take(pa.array(source, mask=~mask)))
