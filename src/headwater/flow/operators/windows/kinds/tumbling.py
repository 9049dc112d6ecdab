"""Tumbling windows: of one size, side by side."""

from dataclasses import dataclass

from headwater.flow.declare.duration import duration_us, positive_us, spelled
from headwater.flow.operators.windows.aligned import DisjointWindow, SteppedWindow
from headwater.flow.operators.windows.assignment import Spans, floored
from headwater.flow.operators.windows.window import Window
from headwater.flow.state.runs.equality import Integers


@dataclass(frozen=True)
class Tumbling(SteppedWindow, DisjointWindow):
    """Windows of one size, one of which begins at `offset_us`."""

    size_us: int
    offset_us: int = 0

    @property
    def in_words(self) -> str:
        """
        >>> Tumbling(300_000_000, 60_000_000).in_words
        'tumbling 5 minutes from 1 minute'
        """
        return f"tumbling {spelled(self.size_us)}{self._beginning}"

    @property
    def step_us(self) -> int:
        return self.size_us

    def earliest(self, times_us: Integers) -> Spans:
        starts = floored(times_us, self.size_us, self.offset_us)
        return Spans(starts, starts + self.size_us)


def tumbling(size: str, *, offset: str = "0s") -> Window:
    """Windows of one size, one after another. They begin at multiples of the size since 1970 in UTC, plus `offset`."""
    size_us = positive_us(size, "the size of a tumbling window")
    return Tumbling(size_us, duration_us(offset) % size_us)
