"""The contract of a kind of window, and aggregates over windows as a job holds them.

A kind is one class in one module of kinds/, listed in kinds/registry.py: nothing else in headwater names it. The class
is the value that a user declares (frozen, with fields that `repr` shows: descriptions of a job and the fingerprint of
its state hold that text, so renaming a class or a field makes state unreadable), and everything that is particular to
the kind is a method of it:

    declared      in_words, names, more_values, refuse_corrections, ordered, disjoint, expires
    assignment    columns, assign, group, combined, earliest, late_before
    state         state, step, outlives_us, reach_us
    time          longest_us, next_end_us, ends_some
    late replay   why_not_replayed, kept_until_sql, affected
    proof         reference

Kinds whose windows lie where they lie whatever rows there are extend `AlignedWindow` (aligned.py): these can be
compared, and can go by processing time.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema, result_schema, state_schema
from headwater.flow.operators.windows.assignment import Assigned, Spans, of_groups
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import FINAL, NAMES, WindowStep
from headwater.flow.state.manifest import EVERYTHING, HASH, StateSchema
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import StateHandle, empty_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SLOTS = 16
"""About so many slots are kept for the time that rows may come late in: fewer would be dropped later than need be."""
WHEN, ROW_POSITION, THERE, COMPLETE = "_when", "_position", "_there", "_complete"
"""Columns of reference queries: event time and position of a row, 1 in each row; whether a window is complete."""


class Window(ABC):
    columns: ClassVar[tuple[pa.Field, ...]]
    """Where in time a reduced row lies, beside the user's key."""
    more_values: ClassVar[tuple[pa.Field, ...]] = ()
    """What the result has beside the aggregates."""
    disjoint: ClassVar[bool] = False
    """Each row is in exactly one window, which depends on no other row: windows of one key may lie in several
    shards."""
    ordered: ClassVar[bool] = False
    """Windows depend on the order of rows by event time and position: no two rows may have the same position, and rows
    wait for the watermark whatever the emission."""
    expires: ClassVar[bool] = False
    """Rows of the result are removed by time, whatever the emission; it has one for each key."""
    why_not_replayed: ClassVar[str | None] = None
    """Why late rows cannot be replayed into windows of this kind."""

    # -- declared ------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def in_words(self) -> str:
        """As plans and messages show it. Not `str()`: fingerprints of state hold that."""

    @property
    def names(self) -> tuple[pa.Field, ...]:
        """The columns that name a window in the key of the result, beside the user's."""
        return NAMES

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.names)

    @property
    def reserved(self) -> tuple[str, ...]:
        """All columns of the result that are made for the window."""
        return (*self.key, *(field.name for field in self.more_values))

    def refuse_corrections(self, place: object) -> None:  # noqa: B027  (most kinds refuse nothing)
        """InvalidDeclaration if windows of this kind cannot be corrected after their end."""

    # -- assignment ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def assign(self, times_us: Integers, position: Mapping[str, Integers]) -> Assigned:
        """`columns` of single rows, from their event times and their positions (source, partition, offset)."""

    def group(self, assigned: Assigned) -> Assigned:
        """What, beside the key, rows have in common that may be combined into one before they are merged with state."""
        return assigned

    def combined(self, assigned: Assigned, order: Integers, begins: Integers) -> Assigned:
        """`columns` of groups of rows; `order` has the rows sorted by group, `begins` where in it groups begin."""
        return of_groups(assigned, order, begins)

    def earliest(self, times_us: Integers) -> Spans | None:
        """The first window of each row; None if that depends on other rows."""
        return None

    def late_before(self, forgotten_us: int) -> int:
        """The event time before which rows are late, if state of windows that end at a time or before was dropped."""
        return forgotten_us

    def late(self, times_us: Integers, watermark_us: int | None, horizon_us: int, known: Mask | None = None) -> Mask:
        """Which rows are late: one of their windows ended a horizon before the watermark, so they count in none.

        Nothing is late without a watermark, and no row is that has no event time (`known`).
        """
        if watermark_us is None:
            return np.zeros(len(times_us), np.bool_)
        late = np.asarray(times_us < self.late_before(watermark_us - horizon_us), np.bool_)
        return late if known is None else late & known

    # -- state ---------------------------------------------------------------------------------------------------------

    def state(self, by: pa.Schema, specs: tuple[Aggregate, ...]) -> StateSchema:
        """A row for each key and part of time; the first of `columns` is the order in a slot."""
        return StateSchema(pa.schema([*by, *self.columns]), state_schema(specs), (self.columns[0].name,))

    @abstractmethod
    def step(self, work: "Windowed", state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        """One batch on one shard. `incoming` has `_hash`, the user's columns, `columns`, and partial columns of
        aggregates; several rows may be of one group."""

    @property
    def reach_us(self) -> int:
        """How long after the end of a slot windows may end that have rows in it."""
        return 0

    @property
    def outlives_us(self) -> int:
        """How long after its end a slot is needed for windows that may still change or end."""
        return 0

    def drop_below(self, clock: WindowClock) -> int | None:
        """Slots of state that end here or before are not needed after a batch."""
        return None if clock.watermark_us is None else clock.forgotten_us - self.outlives_us

    # -- time ----------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def longest_us(self) -> int:
        """No window ends later than this after any of its rows."""

    def next_end_us(self, now_us: int) -> int | None:
        """When the next window by processing time ends; None for windows that cannot go by processing time."""
        return None

    def ends_some(self, clock: WindowClock) -> bool:
        """Of a window that expires: whether the watermark of this batch removes rows of the result."""
        return False

    # -- late replay, proof --------------------------------------------------------------------------------------------

    def kept_until_sql(self, time: str) -> str | None:
        """Of windows that overlap, where the part of time ends that state holds for a row (SQL, in microseconds, from
        its event time); None where a late row has no state left."""
        return None

    def affected(self, windows: "DataFrame", late: "DataFrame", same_key: "list[Column]") -> "DataFrame":
        """Of windows those that late rows are in. `late` has columns `_when`, and what `same_key` needs."""
        return windows

    @abstractmethod
    def reference(
        self, rows: "DataFrame", by: tuple[str, ...], results: "list[Column]", reached_us: int | None
    ) -> "DataFrame":
        """All windows as a plain Spark query, which shares nothing with how state is kept: the key, `more_values`,
        `results`, and `_complete`: has the watermark passed its end? `rows` have `_when`, `_position` and `_there`."""


@dataclass(frozen=True)
class Windowed:
    """Aggregates over windows. `by` are the user's columns of the key. `retained_us` is for how long rows may still
    come for a window after the newest: lateness and horizon of corrections. `marks_final` adds the column that
    distinguishes early results from final ones.
    """

    window: Window
    by: pa.Schema
    specs: tuple[Aggregate, ...]
    retained_us: int = 0
    marks_final: bool = False

    @property
    def slot_us(self) -> int:
        """How much time a slot of state shall cover at least."""
        return max(self.retained_us // SLOTS, 1)

    @property
    def incoming(self) -> pa.Schema:
        """What a batch is reduced to, beside `_hash`."""
        return pa.schema([*self.by, *self.window.columns, *given_schema(self.specs)])

    @property
    def state(self) -> StateSchema:
        return self.window.state(self.by, self.specs)

    @property
    def key(self) -> pa.Schema:
        """The key of the result."""
        return pa.schema([*self.by, *self.window.names])

    @property
    def values(self) -> pa.Schema:
        final = [pa.field(FINAL, pa.bool_())] if self.marks_final else []
        return pa.schema([*self.window.more_values, *result_schema(self.specs), *final])

    @property
    def partials(self) -> Sequence[str]:
        """The columns of state that aggregates have."""
        return list(state_schema(self.specs).names)

    def step(self, state: WindowState, incoming: pa.RecordBatch | None, clock: WindowClock) -> WindowStep:
        """One batch on one shard; without rows, what time alone does."""
        if incoming is None:
            incoming = empty_rows(pa.schema([pa.field(HASH, pa.int64()), *self.incoming]), 0)
        return self.window.step(self, state, incoming, clock)

    def drop_below(self, clock: WindowClock) -> int | None:
        """Slots of state that end here or before are not needed after a batch; for the commit."""
        return self.window.drop_below(clock)

    def pending(self, handle: StateHandle, clock: WindowClock) -> bool:
        """Whether a batch without rows, which moves the watermark as the clock says, may emit or drop anything."""
        if not clock.moved:
            return False
        slots = {slot for shard in range(handle.shards) for slot in handle.slots(shard)} - {EVERYTHING}
        below, reach_us = self.drop_below(clock), self.window.reach_us
        emits = clock.emits_end or self.window.ordered or self.window.ends_some(clock)
        return any(
            (below is not None and slot.end <= below)
            or (emits and slot.begin < clock.passed_us and slot.end + reach_us > clock.passed_before_us)
            for slot in slots
        )
