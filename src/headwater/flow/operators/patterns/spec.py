"""A pattern as it was declared: plain data, which the operator, its proof and pictures of the app read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.flow.operators.patterns.language import Begin, Pattern, has
from headwater.flow.operators.patterns.machine import NUMBER
from headwater.flow.operators.patterns.navigation import Looking, Slot

MATCH_ID, ROW_ID = "match_id", "row_id"
"""Columns that name the record which a match begins with, and that of a row in it."""
TIMED = "timed_out"
"""A column that says of what began and could not end in time."""
WHY = "_why"
"""Beside results: why an attempt failed, 0 if it did not."""


class Skip(NamedTuple):
    """Where the search resumes after a match (search.py): the kind, and bits of variables."""

    kind: int = 0
    bits: int = 0


@dataclass(frozen=True)
class PatternSpec:
    by: tuple[str, ...]
    text: str
    """Of the pattern, as the user wrote it."""
    pattern: Pattern
    variables: tuple[str, ...]
    conditions: Mapping[str, Looking]
    """Variables without one are met by every row."""
    slots: tuple[tuple[str, Slot], ...]
    """What is shown of matches, under the names of columns."""
    within_us: int | None
    rows_max: int | None
    tries_max: int
    skip: Skip
    all_rows: bool
    show_empty: bool
    unmatched: bool
    timeouts: bool
    horizon_us: int

    @property
    def key(self) -> tuple[str, ...]:
        return (MATCH_ID, ROW_ID) if self.all_rows else (MATCH_ID,)

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that are named and are nothing but that."""
        arguments = [slot.argument for _, slot in self.slots]
        arguments += [slot.argument for one in self.conditions.values() for slot in one.slots]
        return (*self.by, *(one for one in arguments if one.isidentifier() and one not in ("first", "last")))

    @property
    def numbers_matches(self) -> bool:
        """Whether matches of a key are counted, or its first row matters: then a row for each key is kept for ever."""
        return has(self.pattern, Begin) or any(slot.kind == NUMBER for _, slot in self.slots)

    @property
    def bounded(self) -> bool:
        """Whether what is kept of a key has an end."""
        return self.within_us is not None or self.rows_max is not None

    @property
    def meaning(self) -> str:
        """Of its state: whatever of the pattern changes, other rows are kept."""
        return repr([
            self.by, self.pattern, sorted(self.conditions.items()), self.slots, self.within_us, self.rows_max,
            self.skip, self.all_rows, self.unmatched, self.timeouts, self.horizon_us,
        ])  # fmt: skip
