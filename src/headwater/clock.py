"""Time is handed in: nothing else in headwater asks the operating system what time it is."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock, which people and NTP may move."""

    def elapsed_ms(self) -> int:
        """Milliseconds that truly passed since an arbitrary moment; never moved, counts suspended time too."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def worked_seconds() -> float:
    """Seconds of a processor that the calling thread has used: what work cost, not what time it is."""
    return time.thread_time()


@dataclass
class ManualClock:
    """A clock for tests: time passes when the test advances it."""

    wall_ms: int = 1_700_000_000_000
    true_ms: int = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def elapsed_ms(self) -> int:
        return self.true_ms

    def advance(self, ms: int) -> None:
        self.wall_ms += ms
        self.true_ms += ms

    def jump_wall(self, ms: int) -> None:
        """Move the wall clock only, as an operator or a bad NTP server would."""
        self.wall_ms += ms
