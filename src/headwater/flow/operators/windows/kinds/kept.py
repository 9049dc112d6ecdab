"""Keys that end: one row for each key, which is removed when the key has had no row for a time.

Rows of a key that follow each other within `keep` belong together, as in a session. Of several such groups of rows that
state holds for a key, the result has the newest alone, without its times. A row counts also if it comes up to a
sixteenth of `keep` after the watermark, and a group ends at a whole sixteenth, so much later than it could at least:

    last row       + keep   + 1/16      end: a multiple of keep / 16, when the watermark comes to it
        |-------------|-------|---.     what ends there lies in the same slots of state, which are read then, and no
                                  ^     others: what ends keys costs what ends, and not what is kept

Nothing that is not late can belong to a group that has ended, so that neither the order of rows nor how batches are cut
changes what the result is at a watermark.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headwater.flow.declare.duration import positive_us, spelled
from headwater.flow.formats.schema import quoted
from headwater.flow.operators.windows.clock import FOREVER_US, NEVER_US, WindowClock
from headwater.flow.operators.windows.kinds.session import (
    FIRST,
    LAST,
    Joined,
    Lines,
    Session,
    asked_of,
    joined_of,
    kept_of,
    lines_of,
    nullable,
    written,
)
from headwater.flow.operators.windows.state import WindowState
from headwater.flow.operators.windows.step import Seen, WindowStep, changes_of, refuse_late
from headwater.flow.operators.windows.window import COMPLETE, SLOTS, WHEN, Windowed
from headwater.flow.state.manifest import HASH, Slot
from headwater.flow.state.runs.equality import Integers, Mask
from headwater.flow.state.shard import Fetched, empty_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Kept(Session):
    """The newest rows of a key, each at most `gap_us` after another, until that has passed since the last."""

    expires = True
    why_not_replayed = "the rows of its key that a late row would belong to may have ended"

    @property
    def in_words(self) -> str:
        return f"kept for {spelled(self.gap_us)} after the last row"

    @property
    def names(self) -> tuple[pa.Field, ...]:
        return ()

    @property
    def step_us(self) -> int:
        """Keys end at whole multiples of this; and so long after the watermark rows may still come."""
        return max(self.gap_us // SLOTS, 1)

    def slot_us(self, work: Windowed) -> int:
        """As fine as keys end, so that slots hold little else than what ends with them."""
        return self.step_us

    def over(self, lasts: Integers) -> Integers:
        """The watermark at which keys end, from the times of their last rows."""
        return ((lasts + self.gap_us) // self.step_us + 2) * self.step_us

    def late_before(self, forgotten_us: int) -> int:
        return forgotten_us - self.step_us

    @property
    def reach_us(self) -> int:
        return self.step_us

    @property
    def outlives_us(self) -> int:
        return self.step_us

    def ends_some(self, clock: WindowClock) -> bool:
        """Whether the watermark has come to a time at which keys end."""
        return clock.passed_us // self.step_us > clock.passed_before_us // self.step_us

    def step(self, work: Windowed, state: WindowState, incoming: pa.RecordBatch, clock: WindowClock) -> WindowStep:
        refuse_late(incoming.column(FIRST).to_numpy() < self.late_before(clock.forgotten_us), clock)
        ending = self._ending(state, clock)
        named = [HASH, *(name for name in state.schema.key.names if name != FIRST)]
        rows = [batch.select(named) for batch in (incoming, ending)]
        asked = asked_of(state.schema, pa.concat_batches([rows[0], rows[1].cast(rows[0].schema)]))

        def anywhere(slot: Slot) -> Mask:
            return np.ones(len(asked.hashes), np.bool_)

        def there(found: Fetched) -> Mask:
            return np.asarray(self.over(found.rows.column(LAST).to_numpy()) > clock.passed_before_us, np.bool_)

        low, high = (np.full(len(asked.hashes), bound) for bound in (NEVER_US, FOREVER_US))
        lines = lines_of(work, incoming, asked, kept_of(state, asked, low, high, anywhere, there))
        joined = joined_of(work, self, lines)
        changes = changes_of([self._shown(lines, joined, clock)], work.specs, clock)
        return WindowStep(changes, written(work, self, state, lines, joined), ending.num_rows)

    def _ending(self, state: WindowState, clock: WindowClock) -> pa.RecordBatch:
        """What state holds that ends in this batch."""
        if not self.ends_some(clock):
            return empty_rows(state.schema.rows, 0)
        first, end = (self.step_us * (us // self.step_us - 1) for us in (clock.passed_before_us, clock.passed_us))
        rows = state.scan(first, end)
        return rows.filter(pa.array(clock.closes(self.over(rows.column(LAST).to_numpy()))))

    def _shown(self, lines: Lines, joined: Joined, clock: WindowClock) -> Seen:
        """Of each key the newest rows before the batch and after it."""
        count = len(lines.hashes)
        old = np.flatnonzero(lines.slots >= 0)
        before = _newest(count, lines.groups[old], lines.firsts[old], old)
        left = old[(joined.numbers[old] < 0) & (self.over(lines.lasts[old]) > clock.passed_us)]
        after = _newest(
            count,
            np.concatenate([lines.groups[left], joined.groups]),
            np.concatenate([lines.firsts[left], joined.firsts]),
            np.concatenate([left, len(lines.groups) + np.arange(len(joined.groups))]),
        )
        states = pa.concat_batches([lines.states, joined.states])
        return Seen(
            lines.keys, np.zeros(count, np.int64), before >= 0, states.take(nullable(before)), after >= 0,
            states.take(nullable(after)),
        )  # fmt: skip

    def reference(
        self, rows: "DataFrame", by: tuple[str, ...], results: "list[Column]", reached_us: int | None
    ) -> "DataFrame":
        from pyspark.sql import Window as Over
        from pyspark.sql import functions as f

        key = list(map(quoted, by))
        order, time = Over.partitionBy(*key).orderBy(WHEN), f.unix_micros(WHEN)
        opens = f.coalesce(time - f.lag(time).over(order) > self.gap_us, f.lit(True)).cast("int")
        numbered = rows.withColumn("_opens", opens).withColumn("_group", f.sum("_opens").over(order))
        newest = numbered.withColumn("_newest", f.max("_group").over(Over.partitionBy(*key)))
        kept = newest.where("_group = _newest").groupBy(*key).agg(f.max(WHEN).alias("_last"), *results)
        # Of numbers that a double holds exactly the quotient never rounds up to the next whole one.
        ended = (f.floor((f.unix_micros("_last") + self.gap_us) / self.step_us) + 2) * self.step_us
        there = ended > f.lit(NEVER_US if reached_us is None else reached_us)
        return kept.where(there).drop("_last").withColumn(COMPLETE, f.lit(False))


def _newest(count: int, groups: Integers, firsts: Integers, places: Integers) -> Integers:
    """Of each key the place of the rows that begin last, −1 where there are none."""
    found = np.full(count, -1)
    order = np.lexsort([firsts, groups])
    found[groups[order]] = places[order]
    return found


def kept_for(duration: str) -> Kept:
    """Keys that end so long after their last row."""
    return Kept(positive_us(duration, "keep"))
