"""Windows by count: every so many rows of a key, in the order of their time and position.

Rows wait, each by itself, until the watermark has passed them: then none can come before them any more, and their index
in the order is settled. For each key the number of settled rows is kept, with the window that is not full yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.errors import InvalidDeclaration
from headwater.flow.declare.checks.source_line import calling_place
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.aggregation.aggregates import Aggregate, state_schema
from headwater.flow.operators.aggregation.merging import absorbed, finish_all
from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.windows.assignment import POSITION, Assigned, aligned
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.folding import fold_groups, merge_two, scattered
from headwater.flow.operators.windows.grouping import Groups, grouped, taken
from headwater.flow.operators.windows.panes import beside
from headwater.flow.operators.windows.state import Placed, WindowState
from headwater.flow.operators.windows.step import END, FINAL, MOMENT, START, WindowStep, refuse_late
from headwater.flow.operators.windows.window import COMPLETE, ROW_POSITION, THERE, WHEN, Window, Windowed
from headwater.flow.state.manifest import EVERYTHING, HASH, RunInfo, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.sorting import sorted_order
from headwater.flow.state.shard import Found, conformed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIME, NUMBER = "time", "window"
ORDER = (TIME, *POSITION)
SETTLED, FIRST, LAST = "settled", "first_time", "last_time"
PROGRESS = pa.schema([pa.field(name, pa.int64()) for name in (SETTLED, FIRST, LAST)])
"""Of a key: how many rows are settled, and the times of the window that is not full. Null where a row waits."""


@dataclass(frozen=True)
class Count(Window):
    """Every so many rows of a key, in the order of their time and position, once the watermark has passed them."""

    rows: int
    columns = tuple(pa.field(name, pa.int64()) for name in ORDER)
    more_values = (pa.field(START, MOMENT), pa.field(END, MOMENT))
    ordered = True
    why_not_replayed = "all windows of the key behind it would be other ones"

    @property
    def in_words(self) -> str:
        return f"every {self.rows} rows"

    @property
    def names(self) -> tuple[pa.Field, ...]:
        return (pa.field(NUMBER, pa.int64()),)

    @property
    def longest_us(self) -> int:
        return 0

    def refuse_corrections(self, place: object) -> None:
        raise InvalidDeclaration(
            f"windows by count ({place}) cannot be corrected: a straggler would move each row behind it to another one",
            "Use emit='final' and a longer lateness.",
        )

    def assign(self, times_us: Integers, position: Mapping[str, Integers]) -> Assigned:
        return {TIME: times_us, **{name: position[name].astype(np.int64, copy=False) for name in POSITION}}

    def state(self, by: pa.Schema, specs: tuple[Aggregate, ...]) -> StateSchema:
        return StateSchema(pa.schema([*by, *self.columns]), pa.schema([*PROGRESS, *state_schema(specs)]), ORDER)

    def step(self, work: Windowed, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        refuse_late(incoming.column(TIME).to_numpy() < clock.passed_us, clock)
        runs = _waiting(work, state, incoming)
        settled = _settled(work, self.rows, state, clock)
        run = _progress(self.rows, state, settled)
        return WindowStep(_changes(work, self.rows, settled, clock), [*runs, *([run] if run else [])])

    def reference(
        self, rows: "DataFrame", by: tuple[str, ...], results: "list[Column]", reached_us: int | None
    ) -> "DataFrame":
        """Rows that nothing can come before any more, so many to a window."""
        from pyspark.sql import Window as Over
        from pyspark.sql import functions as f

        key = list(map(quoted, by))
        order = Over.partitionBy(*key).orderBy(WHEN, *(f.col(ROW_POSITION)[name] for name in POSITION))
        settled = rows.where(f.unix_micros(WHEN) < f.lit(reached_us))
        number = f.floor((f.row_number().over(order) - 1) / self.rows).cast("long")
        full = (f.count(THERE) == self.rows).alias(COMPLETE)
        grouped = settled.withColumn(NUMBER, number).groupBy(*key, NUMBER)
        return grouped.agg(f.min(WHEN).alias(START), f.max(WHEN).alias(END), *results, full)


def count_window(rows: int) -> Window:
    """So many rows of a key, in the order of their time; they are emitted once nothing can come between them."""
    given: object = rows
    if not isinstance(given, int) or isinstance(given, bool) or rows < 1:
        raise InvalidDeclaration(f"a window of {rows!r} rows ({calling_place()}) holds nothing", "Take 1 or more.")
    return Count(rows)


def _waiting(work: Windowed, state: WindowState, incoming: pa.RecordBatch) -> list[RunInfo]:
    """Put rows away; each comes once."""

    def slot_ranges(times: Integers) -> tuple[Integers, Integers]:
        return aligned(times, work.slot_us)

    placed = state.placed(incoming.column(TIME).to_numpy(), slot_ranges)
    hashes = pa.RecordBatch.from_arrays([incoming.column(HASH)], [HASH])
    keys = conformed(incoming, state.schema.key)
    nothing = pa.RecordBatch.from_arrays([pa.nulls(incoming.num_rows, pa.int64())] * 3, PROGRESS.names)
    rows = beside(hashes, keys, nothing, absorbed(work.specs, incoming))
    order = sorted_order([placed.numbers])
    fresh = np.zeros(incoming.num_rows, np.bool_)
    return state.write(Placed(placed.slots, placed.numbers[order]), rows.take(order), fresh)


class Settled(NamedTuple):
    """Windows that rows have come to, sorted by key and number, and what they held before and hold now."""

    hashes: Integers
    keys: pa.RecordBatch
    numbers: Integers
    existed: Mask
    before: pa.RecordBatch
    after: pa.RecordBatch
    sizes: Integers
    """How many rows each has now."""
    last: Mask
    """Which of them is the last of its key."""
    known: Mask
    """Whether anything was kept for its key."""


def _settled(work: Windowed, size: int, state: WindowState, clock: WindowClock) -> Settled:
    def passed(times: Integers) -> Mask:
        return np.asarray((times >= clock.passed_before_us) & (times < clock.passed_us), np.bool_)

    rows = state.scan(clock.passed_before_us, clock.passed_us, passed)
    by = rows.select([name for name in state.schema.key.names if name not in ORDER])
    hashes = rows.column(HASH).to_numpy()
    groups = grouped([hashes], by, within=[rows.column(name).to_numpy() for name in ORDER])
    first = groups.order[groups.firsts]
    keys, key_hashes = taken(by, first), hashes[first]
    found = state.slot(EVERYTHING).lookup(key_hashes, _progress_keys(state.schema, keys, len(first)))
    return _windows(work, size, taken(rows, groups.order), groups, keys, key_hashes, found)


def _progress_keys(schema: StateSchema, keys: pa.RecordBatch, length: int) -> pa.RecordBatch:
    zeros = pa.RecordBatch.from_arrays([pa.array(np.zeros(length, np.int64))] * len(ORDER), list(ORDER))
    return conformed(beside(keys, zeros), schema.key)


def _windows(
    work: Windowed,
    size: int,
    rows: pa.RecordBatch,
    groups: Groups,
    keys: pa.RecordBatch,
    hashes: Integers,
    found: Found,
) -> Settled:
    of_key = groups.numbers
    begins = np.flatnonzero(groups.firsts)
    done = found.values.column(SETTLED).fill_null(0).to_numpy(zero_copy_only=False)
    position = done[of_key] + np.arange(len(of_key)) - begins[of_key]
    number = position // size
    opens = groups.firsts.copy()
    opens[1:] |= number[1:] != number[:-1]
    window_of = np.flatnonzero(opens)
    mine, numbers = of_key[window_of], number[window_of]
    ends = np.append(window_of, len(of_key))[1:] - 1
    continued = (position[window_of] % size) != 0
    before = found.values.take(pa.array(mine, mask=~continued))
    after = _joined(work, rows, opens, window_of, ends, before, continued)
    last = np.append(mine[1:] != mine[:-1], True)[: len(mine)]
    sizes = position[ends] % size + 1
    return Settled(hashes[mine], taken(keys, mine), numbers, continued, before, after, sizes, last, found.mask[mine])


def _joined(
    work: Windowed,
    rows: pa.RecordBatch,
    opens: Mask,
    begins: Integers,
    ends: Integers,
    before: pa.RecordBatch,
    old: Mask,
) -> pa.RecordBatch:
    """What the windows hold now: times, and aggregates."""
    names = work.partials
    times = rows.column(TIME).to_numpy()
    folded = fold_groups(work.specs, rows.select(names), opens)
    places = np.flatnonzero(old)
    whole = merge_two(work.specs, before.select(names).take(places), folded.take(places))
    started = before.column(FIRST).fill_null(0).to_numpy(zero_copy_only=False)
    first = np.where(old, started, times[begins])
    bounds = pa.RecordBatch.from_arrays([pa.array(first), pa.array(times[ends])], [FIRST, LAST])
    return beside(bounds, scattered(folded, places, whole))


def _progress(size: int, state: WindowState, settled: Settled) -> RunInfo | None:
    """Write for each key how far it has come, and its last window as long as that is not full."""
    last = np.flatnonzero(settled.last)
    sizes = settled.sizes[last]
    count = settled.numbers[last] * size + sizes
    open_ = pa.array(last, mask=sizes == size)
    hashes, counts = (pa.array(column) for column in (settled.hashes[last], count))
    rows = beside(
        pa.RecordBatch.from_arrays([hashes], [HASH]),
        _progress_keys(state.schema, taken(settled.keys, last), len(last)),
        pa.RecordBatch.from_arrays([counts], [SETTLED]),
        settled.after.take(open_),
    )
    return state.slot(EVERYTHING).write(rows, existed=settled.known[last])


def _changes(work: Windowed, size: int, settled: Settled, clock: WindowClock) -> pa.RecordBatch:
    full = settled.sizes == size
    emitted = np.full(len(full), clock.emits_open)
    values = [_values(work, part) for part in (settled.before, settled.after)]
    if clock.marks_final:
        flags = (np.zeros(len(full), np.bool_), full)
        values = [part.append_column(FINAL, pa.array(flag)) for part, flag in zip(values, flags, strict=True)]
    keys = beside(settled.keys, pa.RecordBatch.from_arrays([pa.array(settled.numbers)], [NUMBER]))
    return merge_changes(keys, settled.existed & emitted, values[0], full | emitted, values[1])


def _values(work: Windowed, rows: pa.RecordBatch) -> pa.RecordBatch:
    first, last = (rows.column(name).cast(MOMENT) for name in (FIRST, LAST))
    bounds = pa.RecordBatch.from_arrays([first, last], [START, END])
    return beside(bounds, finish_all(work.specs, rows.select(work.partials)))
