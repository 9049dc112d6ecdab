"""What one batch emits of the windows of a shard, whatever their kind (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.errors import FlowError
from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.aggregation.merging import finish_all
from headwater.flow.operators.changes import merge_changes
from headwater.flow.operators.windows.clock import WindowClock
from headwater.flow.state.manifest import RunInfo
from headwater.flow.state.runs.equality import Integers, Mask

START, END, FINAL = "window_start", "window_end", "final"
MOMENT = pa.timestamp("us", "UTC")
NAMES: tuple[pa.Field, ...] = (pa.field(START, MOMENT), pa.field(END, MOMENT))
"""The columns that name a window with a start and an end."""


class WindowStep(NamedTuple):
    """The changes of a shard, and the runs that the driver has to commit."""

    changes: pa.RecordBatch
    runs: list[RunInfo]
    expired: int = 0
    """Rows of state that time has ended, and whose keys start again if they come again."""


@dataclass(frozen=True)
class Seen:
    """Windows that a batch may emit: their keys as the result has them, where they end, and what they hold.

    `kept` and `keeps` say which were there before the batch and are there after it; `before` and `after` are rows of
    aggregates, of any content where there is no window.
    """

    keys: pa.RecordBatch
    ends_us: Integers
    kept: Mask
    before: pa.RecordBatch
    keeps: Mask
    after: pa.RecordBatch

    def emitted(self, clock: WindowClock) -> "Seen":
        """Those of them that were emitted or are to be; nothing need be computed for the others."""
        existed, exists = self.kept & clock.was_emitted(self.ends_us), self.keeps & clock.is_emitted(self.ends_us)
        wanted = existed | exists
        if wanted.all():
            return Seen(self.keys, self.ends_us, existed, self.before, exists, self.after)
        mask = pa.array(wanted)
        parts = (self.keys, self.before, self.after)
        rows = [part.filter(mask) for part in parts] if wanted.any() else [part.slice(0, 0) for part in parts]
        return Seen(rows[0], self.ends_us[wanted], existed[wanted], rows[1], exists[wanted], rows[2])


def changes_of(parts: Sequence[Seen], specs: Sequence[Aggregate], clock: WindowClock) -> pa.RecordBatch:
    """The changes of windows, none of which is in two parts."""
    seen = together([part.emitted(clock) for part in parts])
    before, after = (finish_all(specs, part) for part in (seen.before, seen.after))
    if clock.marks_final:
        before = before.append_column(FINAL, pa.array(clock.was_final(seen.ends_us)))
        after = after.append_column(FINAL, pa.array(clock.is_final(seen.ends_us)))
    return merge_changes(seen.keys, seen.kept, before, seen.keeps, after)


def together(parts: Sequence[Seen]) -> Seen:
    """Windows of several parts; mostly only one has any, and nothing is copied."""
    filled = [part for part in parts if len(part.ends_us)]
    if len(filled) < 2:
        return filled[0] if filled else parts[0]
    parts = filled
    batches = [pa.concat_batches([getattr(part, name) for part in parts]) for name in ("keys", "before", "after")]
    ends_us, kept, keeps = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("ends_us", "kept", "keeps")
    )
    return Seen(batches[0], ends_us, kept, batches[1], keeps, batches[2])


def moments(times_us: Integers) -> pa.Array:
    return pa.array(times_us, pa.int64()).cast(MOMENT)


def result_keys(by: pa.RecordBatch, starts: Integers, ends: Integers) -> pa.RecordBatch:
    """The user's columns, then start and end of the window as moments."""
    columns = [*by.columns, moments(starts), moments(ends)]
    return pa.RecordBatch.from_arrays(columns, [*by.schema.names, START, END])


def refuse_late(late: Mask, clock: WindowClock) -> None:
    """Late rows go elsewhere before windows see the batch; one that comes here would be in no account."""
    if late.any():
        raise FlowError(
            f"{int(late.sum())} rows for windows are later than the watermark {clock.watermark_us} allows",
            "Take late rows out of the batch before it is given to windows.",
        )
