"""How long a test is willing to wait. Never a statement about speed: only the end of patience."""

import select
import time
from collections.abc import Callable


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return self.left == 0


def wait_until(holds: Callable[[], bool], what: str, *, seconds: float = 20) -> None:
    """Return as soon as it holds; fail with `what` when patience ends."""
    deadline = Deadline(seconds)
    while not holds():
        assert not deadline.passed, f"waited {seconds} s in vain: {what}"
        select.select([], [], [], 0.05)
