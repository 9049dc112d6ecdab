"""Aggregates over windows, as a job holds them: what is kept, what comes in, what is told, and one batch of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema, result_schema
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.kinds.counting import Counts
from headwater.flow.operators.windows.kinds.fixed import Fixed
from headwater.flow.operators.windows.kinds.hopping import Hops
from headwater.flow.operators.windows.kinds.sessions import Sessions
from headwater.flow.operators.windows.kinds.sliding import Slides
from headwater.flow.operators.windows.places import Places, Spans
from headwater.flow.operators.windows.shapes import Calendar, Count, Hopping, Session, Sliding, Tumbling, Window
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import FINAL, WindowStep
from headwater.flow.state.manifest import EVERYTHING, HASH, StateSchema
from headwater.flow.state.runs.equality import Integers
from headwater.flow.state.shard import StateHandle, empty_rows

SLOTS = 16
"""About so many slots are kept for the time that rows may come late in: fewer would be dropped later than need be."""


class Kind(Protocol):
    """What sets the kinds of windows apart."""

    @property
    def columns(self) -> Sequence[pa.Field]:
        """Where in time a reduced row lies, beside the user's key."""

    @property
    def names(self) -> Sequence[pa.Field]:
        """What names a window in the key of the result, beside the user's."""

    @property
    def more_values(self) -> Sequence[pa.Field]:
        """What the result has beside the aggregates."""

    def place(self, times_us: Integers, position: Mapping[str, Integers]) -> Places:
        """`columns` of single rows, from their event times and their positions (source, partition, offset)."""

    def group(self, places: Places) -> Places:
        """What rows have in common that may be combined into one before they are merged with the state."""

    def combined(self, places: Places, order: Integers, begins: Integers) -> Places:
        """Places of groups of rows; `order` has the rows sorted by group, `begins` where in it groups begin."""

    def earliest(self, times_us: Integers) -> Spans | None:
        """The first window of each row, if that depends on nothing but its event time."""

    def late_before(self, forgotten_us: int) -> int:
        """The event time before which rows are late, if state of windows that end at a time or before was dropped."""

    def state(self, by: pa.Schema) -> StateSchema: ...

    def step(self, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep: ...

    def drop_below(self, clock: WindowClock) -> int | None: ...

    @property
    def reach_us(self) -> int:
        """How long after the end of a slot windows may end that have rows in it."""


def kind_of(window: Window, specs: tuple[Aggregate, ...], retained_us: int) -> Kind:
    slot_us = max(retained_us // SLOTS, 1)
    match window:
        case Tumbling() | Calendar():
            return Fixed(window, specs, slot_us)
        case Hopping():
            return Hops(window, specs, max(slot_us, window.size_us))
        case Session():
            return Sessions(window, specs, slot_us)
        case Sliding():
            return Slides(window, specs, max(slot_us, window.size_us))
        case Count():
            return Counts(window, specs, slot_us)


@dataclass(frozen=True)
class Windowed:
    """`by` are the user's columns of the key. `retained_us` is for how long rows may still come for a window behind the
    newest: lateness and horizon of corrections. `marks_final` adds the column that tells early results from final ones.
    """

    window: Window
    by: pa.Schema
    specs: tuple[Aggregate, ...]
    retained_us: int = 0
    marks_final: bool = False

    @property
    def kind(self) -> Kind:
        return kind_of(self.window, self.specs, self.retained_us)

    @property
    def incoming(self) -> pa.Schema:
        """What Spark reduces a batch to, beside `_hash`."""
        return pa.schema([*self.by, *self.kind.columns, *given_schema(self.specs)])

    @property
    def state(self) -> StateSchema:
        return self.kind.state(self.by)

    @property
    def key(self) -> pa.Schema:
        """The key of the result."""
        return pa.schema([*self.by, *self.kind.names])

    @property
    def values(self) -> pa.Schema:
        final = [pa.field(FINAL, pa.bool_())] if self.marks_final else []
        return pa.schema([*self.kind.more_values, *result_schema(self.specs), *final])

    def step(self, state: WindowState, incoming: pa.RecordBatch | None, clock: WindowClock) -> WindowStep:
        """One batch on one shard; without rows, what time alone does."""
        return self.kind.step(state, self._empty if incoming is None else incoming, clock)

    @property
    def _empty(self) -> pa.RecordBatch:
        return empty_rows(pa.schema([pa.field(HASH, pa.int64()), *self.incoming]), 0)

    def drop_below(self, clock: WindowClock) -> int | None:
        """Slots of state that end here or before are not needed after a batch; for the commit."""
        return self.kind.drop_below(clock)

    def pending(self, handle: StateHandle, clock: WindowClock) -> bool:
        """Whether a batch without rows, which moves the watermark as the clock says, may tell or drop anything."""
        if not clock.moved:
            return False
        slots = {slot for shard in range(handle.shards) for slot in handle.slots(shard)} - {EVERYTHING}
        below, reach_us = self.drop_below(clock), self.kind.reach_us
        tells = clock.tells_end or isinstance(self.window, Count)  # whose rows wait for the watermark in any case
        return any(
            (below is not None and slot.end <= below)
            or (tells and slot.begin < clock.passed_us and slot.end + reach_us > clock.passed_before_us)
            for slot in slots
        )
