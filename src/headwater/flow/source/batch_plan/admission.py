"""How far one micro-batch goes: admission and alignment. Pure.

If all that is there fits the limit, it is all taken. Otherwise a time T is looked for such that reading every partition
up to its first row at or after T takes as many rows as fit. So partitions and topics advance together in event time,
and none runs ahead of what the others have not read.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from headwater.flow.source.batch_plan.batch_control import BatchControl
from headwater.record import TopicPartition

Offsets = Mapping[TopicPartition, int]
OffsetsAtTime = Callable[[int], Offsets]
"""For each partition its first offset with a time at or after this one; absent or -1 where there is none."""

TIME_MS_MAX = 1 << 42
"""The year 2109: a row from beyond it is read with the last ones."""
TIME_MS_MIN = -TIME_MS_MAX
PROBES_MAX = 50
ENOUGH, AIM = 0.75, 0.9
"""Of the limit: looking for a better time would cost more than it gives; and what is aimed at, so as to find one."""
FIRST_STEP_MS = 60_000
"""How far the second plan tries to go, while it is unknown how far plans go."""


Estimate = Callable[[], OffsetsAtTime]
"""About what a look-up would answer, from what those before it found."""


class Guess(NamedTuple):
    """Where the last plan ended and how far it went: the next one is likely to go as far again."""

    time_ms: int
    step_ms: int


class Plan(NamedTuple):
    ends: dict[TopicPartition, int]
    time_ms: int | None
    """Everything before it has been read; None if there was no need to look for a time."""
    probes: int = 0
    held: frozenset[TopicPartition] = frozenset()
    """Partitions that have more, of any time that is known or not: they have not come to `time_ms`."""
    ahead: frozenset[TopicPartition] = frozenset()
    """Partitions that have more, none of which is before `time_ms` but for the lateness of its stream."""

    @property
    def left(self) -> BatchControl:
        """What it says of partitions that have more."""
        return BatchControl(held=self.held, ahead=self.ahead, ahead_ms=(self.time_ms or 0) if self.ahead else 0)


class Loss(NamedTuple):
    """Rows that were removed before they were read."""

    first: int
    end: int


def losses(start: Offsets, earliest: Offsets) -> dict[TopicPartition, Loss]:
    """What lies between where reading wants to go on and where the log begins now."""
    return {
        place: Loss(offset, earliest[place])
        for place, offset in start.items()
        if place in earliest and earliest[place] > offset
    }


def rows_between(start: Offsets, ends: Offsets) -> int:
    return sum(max(0, end - start.get(place, 0)) for place, end in ends.items())


def plan(
    start: Offsets, ends: Offsets, limit: int | None, offsets_at_time: OffsetsAtTime, *,
    guess: Guess | Estimate | None = None,
) -> Plan:  # fmt: skip
    """Where the next batch ends: at least one row further, if there is any, never beyond `ends` or before `start`."""
    reachable = {place: max(end, start.get(place, 0)) for place, end in ends.items()}
    if limit is None or rows_between(start, reachable) <= limit:
        return Plan(reachable, None)
    return _Search(start, reachable, limit, offsets_at_time).run(guess)


class _Search:
    """Narrows down the time between `low`, which fits, and `high`, which does not."""

    def __init__(self, start: Offsets, ends: Offsets, limit: int, offsets_at_time: OffsetsAtTime) -> None:
        self._start, self._ends, self._limit, self._offsets_at_time = start, ends, limit, offsets_at_time
        self._probes = 0
        self._low_ms, self._low = TIME_MS_MIN, {place: start.get(place, 0) for place in ends}
        self._high_ms, self._high = TIME_MS_MAX, dict(ends)
        self._estimate: Estimate | None = None

    def run(self, guess: Guess | Estimate | None) -> Plan:
        if isinstance(guess, Guess):
            self._leap(guess)
        elif guess is not None:
            self._estimate = guess
            self._probe(self._estimated(guess, 0))
        while self._high_ms - self._low_ms > 1 and self._probes < PROBES_MAX and self._rows() < ENOUGH * self._limit:
            self._probe(self._between())
        reached = self._rows()
        ends, held = self._low, frozenset[TopicPartition]()
        if reached < ENOUGH * self._limit:
            # Many rows at one moment, or rows without times: a fair share of each partition between the two times.
            ends = self._shared(self._limit - reached)
            held = frozenset(place for place, end in ends.items() if end < self._high[place])
        ahead = frozenset(place for place, end in ends.items() if end < self._ends[place]) - held
        return Plan(ends, self._low_ms, self._probes, held, ahead)

    def _between(self) -> int:
        """The time at which as much would fit as is aimed at, if rows came evenly between the two; every other time
        the middle, so that it ends soon also where they do not."""
        middle = (self._low_ms + self._high_ms) // 2
        if self._estimate is not None:
            estimated = self._estimated(self._estimate, AIM * self._limit)
            if self._low_ms < estimated < self._high_ms - 1:
                return estimated
        if self._probes % 2 or self._rows() == 0 or self._high_ms == TIME_MS_MAX:
            return middle
        low, high = self._rows(), rows_between(self._start, self._high)
        share = (AIM * self._limit - low) / max(1, high - low)
        guessed = self._low_ms + int(share * (self._high_ms - self._low_ms))
        return min(max(guessed, self._low_ms + 1), self._high_ms - 1)

    def _estimated(self, estimate: Estimate, rows: float) -> int:
        """The last time before which there are about so many rows, between the two."""
        low, high, offsets_at_time = self._low_ms, self._high_ms, estimate()
        while high - low > 1:
            middle = (low + high) // 2
            fits = rows_between(self._start, offsets_at_time(middle)) <= rows
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _rows(self) -> int:
        return rows_between(self._start, self._low)

    def _leap(self, guess: Guess) -> None:
        """Go on from the last time in growing steps until one is too far.

        The last time itself is looked at first: what has come since, or was kept back, may be from before it.
        """
        step = max(1, guess.step_ms)
        if not TIME_MS_MIN < guess.time_ms < TIME_MS_MAX or not self._probe(guess.time_ms):
            return
        while guess.time_ms + step < TIME_MS_MAX and self._probe(guess.time_ms + step):
            if self._rows() >= ENOUGH * self._limit:
                return
            step *= 2

    def _probe(self, time_ms: int) -> bool:
        """Look at a time between the two; does what lies before it fit?"""
        self._probes += 1
        found = self._offsets_at_time(time_ms)
        offsets = {}
        for place, end in self._ends.items():
            offset = found.get(place, -1)
            # Within what is known of both sides: the log may have changed since, and must not lead us back.
            offsets[place] = min(max(end if offset < 0 else offset, self._low[place]), self._high[place])
        fits = rows_between(self._start, offsets) <= self._limit
        if fits:
            self._low_ms, self._low = time_ms, offsets
        else:
            self._high_ms, self._high = time_ms, offsets
        return fits

    def _shared(self, room: int) -> dict[TopicPartition, int]:
        gaps = {place: self._high[place] - self._low[place] for place in self._ends}
        total = sum(gaps.values())
        ends = {place: self._low[place] + gap * room // total for place, gap in gaps.items()}
        if rows_between(self._start, ends) == 0:
            widest = max(sorted(gaps), key=lambda place: gaps[place])
            ends[widest] += 1
        return ends
