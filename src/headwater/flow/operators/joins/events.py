"""Events of one side of a join (pure but for the state): when and where each lies, how they are kept, what they make.

    _time, _source, _partition, _offset   when it happened, and where it lies in the log
    _content, _nth                        which of several rows that were made of one record: a hash of it, a number

No two events have all of them in common, so that they are an identity, and an order that every run gives. Events that
are kept lie in slots of time, and go with them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.joins.pairing import Pairing, renamed, taken_or_null
from headwater.flow.operators.windows.assignment import aligned
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.grouping import grouped
from headwater.flow.operators.windows.state import Placed, WindowState
from headwater.flow.state.manifest import DELETED, HASH, RunInfo, Slot, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.runs.open_runs import OpenedRuns
from headwater.flow.state.shard import ShardState, StateHandle, conformed, empty_rows

TIME, SOURCE, PARTITION, OFFSET, CONTENT, NTH = POSITION = (
    "_time", "_source", "_partition", "_offset", "_content", "_nth",
)  # fmt: skip
GIVEN = (HASH, *POSITION[:-1])
LEFT_AT, RIGHT_AT = "_l", "_r"
MISSING = "_missing"
"""The row has no partner, and must have one."""
FAR_US = 2**62


@dataclass(frozen=True)
class Events:
    """The columns of one side, those it is joined on, and how much time a slot of state shall cover at least."""

    columns: pa.Schema
    on: tuple[str, ...]
    slot_us: int = 1

    @property
    def state(self) -> StateSchema:
        on = [pa.field(name, self.columns.field(name).type) for name in self.on]
        values = pa.schema([pa.field(field.name, field.type) for field in self.columns if field.name not in self.on])
        return StateSchema(pa.schema([*on, *(pa.field(name, pa.int64()) for name in POSITION)]), values, POSITION)

    @property
    def incoming(self) -> pa.Schema:
        return pa.schema([*(pa.field(name, pa.int64()) for name in GIVEN), *self.columns])

    def slot_ranges(self, times_us: Integers) -> tuple[Integers, Integers]:
        return aligned(times_us, max(self.slot_us, 1))


class EventRows(NamedTuple):
    """Some events of a side."""

    rows: pa.RecordBatch
    hashes: Integers
    position: pa.RecordBatch

    @property
    def times(self) -> Integers:
        found: Integers = self.position.column(TIME).to_numpy()
        return found

    def keys(self, events: Events) -> pa.RecordBatch:
        return renamed(self.rows.select(list(events.on)), numbered(events.on))

    def filter(self, wanted: Mask) -> "EventRows":
        return self if wanted.all() else self.take(np.flatnonzero(wanted))

    def take(self, places: Integers) -> "EventRows":
        chosen = pa.array(places)
        return EventRows(self.rows.take(chosen), self.hashes[places], self.position.take(chosen))


def numbered(on: Sequence[str]) -> list[str]:
    return [f"_k{place}" for place in range(len(on))]


def together(parts: Sequence[EventRows]) -> EventRows:
    rows, position = (pa.concat_batches([getattr(part, name) for part in parts]) for name in ("rows", "position"))
    return EventRows(rows, np.concatenate([part.hashes for part in parts]), position)


def arrived(events: Events, given: pa.RecordBatch | None) -> EventRows:
    """Events of a batch; `given` has the columns of GIVEN and of the side."""
    given = empty_rows(events.incoming, 0) if given is None else given
    rows = conformed(given, pa.schema([pa.field(field.name, field.type) for field in events.columns]))
    hashes, *places = (given.column(name).to_numpy().astype(np.int64) for name in GIVEN)
    order, firsts = grouped([hashes, *places], rows.select(list(events.on)))
    begins = np.flatnonzero(firsts)
    nth = np.empty(len(order), np.int64)
    nth[order] = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return EventRows(rows, hashes, pa.RecordBatch.from_arrays([*map(pa.array, places), pa.array(nth)], list(POSITION)))


def kept(events: Events, rows: pa.RecordBatch) -> EventRows:
    """Rows of the state."""
    plain = conformed(rows, pa.schema([pa.field(field.name, field.type) for field in events.columns]))
    position = rows.select(list(POSITION))
    return EventRows(plain, rows.column(HASH).to_numpy(), pa.RecordBatch.from_arrays(position.columns, list(POSITION)))


class Reached(NamedTuple):
    """Events of the state near some others: for each the place of that other."""

    places: Integers
    events: EventRows


def near(
    events: Events, state: WindowState, asked: EventRows, keys: pa.RecordBatch, low: Integers, high: Integers
) -> Reached:
    """All kept events with the key of one that is asked for, and a time from `low` to `high`, both included."""
    low, high = np.maximum(low, -FAR_US), np.minimum(high, FAR_US) + 1

    def within(slot: Slot) -> Mask:
        return np.asarray((slot.begin < high) & (slot.end > low), np.bool_)

    places, found = [np.empty(0, np.int64)], [empty_rows(state.schema.rows, 0)]
    for _, fetched in state.fetch(asked.hashes, renamed(keys, events.on), low, high, within):
        places.append(fetched.places)
        found.append(fetched.rows)
    return Reached(np.concatenate(places), kept(events, pa.concat_batches(found)))


def scanned(events: Events, state: WindowState, first_us: int, end_us: int) -> EventRows:
    """All kept events from one time up to another."""

    def wanted(times_us: Integers) -> Mask:
        return np.asarray((times_us >= first_us) & (times_us < end_us), np.bool_)

    return kept(events, state.scan(first_us, end_us, wanted))


def written(events: Events, state: WindowState, new: EventRows, gone: EventRows) -> list[RunInfo]:
    """Keep some events and forget others, which were kept."""
    both = together([new, gone])
    placed = state.placed(both.times, events.slot_ranges)
    is_gone = np.arange(len(both.hashes)) >= len(new.hashes)
    columns = {HASH: pa.array(both.hashes)} | {name: both.rows.column(name) for name in events.columns.names}
    columns |= {name: both.position.column(name) for name in POSITION} | {DELETED: pa.array(is_gone)}
    order = np.argsort(placed.numbers, kind="stable")
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)).take(pa.array(order))
    return state.write(Placed(placed.slots, placed.numbers[order]), rows, is_gone[order])


@dataclass(frozen=True)
class Shard:
    """The parts of the state of a join in one shard."""

    handles: Mapping[str, StateHandle]
    number: int
    opened: Mapping[str, OpenedRuns] | None = None

    def events(self, part: str) -> WindowState:
        return WindowState(self.handles[part], self.number, self._opened(part))

    def rows(self, part: str) -> ShardState:
        return ShardState(self.handles[part], self.number, self._opened(part))

    def _opened(self, part: str) -> OpenedRuns | None:
        return self.opened[part] if self.opened else None


class StreamStep(NamedTuple):
    """Results that are no longer, results that are new, and the runs of each part to be committed."""

    before: pa.RecordBatch
    after: pa.RecordBatch
    runs: Mapping[str, list[RunInfo]]
    notes: tuple[str, ...] = ()
    """Sentences for the operator of the job."""
    counted: int = 0
    """Facts that were taken in, beside those that `accepted` counts."""


Given = tuple[pa.RecordBatch | None, pa.RecordBatch | None]


class StreamJoin(ABC):
    """A kind of join that has events on one side or both: what it keeps, which rows are late, and one batch of it."""

    pairing: Pairing
    may_miss: ClassVar[bool] = True
    """An inner join emits an event that has no partner, to be reported."""
    missing_is_late: ClassVar[bool] = False
    """Such an event is counted as late; if not, as filtered."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, StateSchema]: ...

    @abstractmethod
    def drop_below(self, clock: WindowClock) -> Mapping[str, int | None]:
        """Of each part: slots that end here or before are not needed after a batch."""

    @abstractmethod
    def waits(self, part: str, slot: Slot, clock: WindowClock) -> bool:
        """Would time alone, as the clock moves it, emit anything of a slot's events?"""

    def late_below(self, clock: WindowClock) -> tuple[int | None, int | None]:
        """The event times before which rows of the left and of the right are late; None: none is."""
        return None, None

    def accepted(self, given: Given, clock: WindowClock) -> int:
        """How many facts a shard was given that count as taken in."""
        return sum(0 if rows is None else rows.num_rows for rows in given)

    @abstractmethod
    def step(self, shard: Shard, given: Given, clock: WindowClock) -> StreamStep: ...


def result_schema(pairing: Pairing) -> pa.Schema:
    """What a result consists of: columns of both rows, where each of these lies, and whether one is missing."""
    places = [pa.field(side + name, pa.int64()) for side in (LEFT_AT, RIGHT_AT) for name in POSITION]
    return pa.schema([*pairing.columns, *places, pa.field(MISSING, pa.bool_())])


def results(
    pairing: Pairing, left: EventRows, right: EventRows | pa.RecordBatch, left_at: Integers, right_at: Integers,
    missing: Mask | None = None,
) -> pa.RecordBatch:  # fmt: skip
    """Pairs of events, or of an event and a row of a table; a place of −1 stands for none."""
    theirs = right.rows if isinstance(right, EventRows) else right
    columns = pairing.made(left.rows, theirs, left_at, right_at)
    nowhere = [pa.nulls(len(left_at), pa.int64())] * len(POSITION)
    columns += taken_or_null(left.position, left_at).columns
    columns += taken_or_null(right.position, right_at).columns if isinstance(right, EventRows) else nowhere
    flags = np.zeros(len(left_at), np.bool_) if missing is None else missing
    return pa.RecordBatch.from_arrays([*columns, pa.array(flags)], schema=result_schema(pairing))


def groups_of(parts: Sequence[tuple[Integers, pa.RecordBatch]]) -> list[Integers]:
    """Numbers of keys, the same for the same key in whatever part it is; each part has hashes and keys."""
    hashes = np.concatenate([part[0] for part in parts])
    order, firsts = grouped([hashes], pa.concat_batches([part[1] for part in parts]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(firsts) - 1
    return np.split(numbers, np.cumsum([len(part[0]) for part in parts])[:-1])


Pending = Callable[[Slot], bool]
