"""How long tests wait: as long as there is progress.

A limit in seconds of a wall clock fails on a machine that is busy with something else. So patience is measured on a
clock of its own, which runs

  - with real time while nothing happens: this process and all that it has started use hardly any processor, and no
    thread of theirs is ready to run or waits for a disk;
  - a tenth as fast as they use the processor while they do, so that what goes round in circles comes to an end too.

While they would run and get no processor, it stops. What hangs on an idle machine hangs on a busy one after the
same number of seconds, and what is only slow never does.
"""

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 0.5
FRESH_SECONDS = 0.1
BUSY_SHARE = 0.1
"""Of a processor: what is waiting may look at a clock now and then."""
CPU_PER_SECOND = 10
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")


@dataclass(frozen=True)
class Look:
    """What was seen of this process and its children at a moment."""

    at_s: float
    cpu_s: float
    ready: bool
    """A thread is running, ready to run, or waits for a disk."""


def stood_still_s(before: Look, now: Look) -> float:
    """How much patience passed between two looks.

    >>> stood_still_s(Look(0, 7.0, False), Look(0.5, 7.0, False))
    0.5
    >>> stood_still_s(Look(0, 7.0, False), Look(0.5, 7.4, True)), stood_still_s(Look(0, 7.0, True), Look(9, 7.0, True))
    (0.04, 0.0)
    """
    used_s, passed_s = max(0.0, now.cpu_s - before.cpu_s), now.at_s - before.at_s
    if now.ready or used_s > BUSY_SHARE * passed_s:
        return round(used_s / CPU_PER_SECOND, 6)
    # A thread that looks so late did not get a processor either.
    return min(passed_s, 2 * LOOK_SECONDS)


class Clock:
    """Seconds of patience. `patience()` is used as time.monotonic() is."""

    def __init__(self, look: Callable[[], Look]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._last: Look | None = None
        self._passed_s = 0.0

    def __call__(self) -> float:
        with self._lock:
            if self._last is None or time.monotonic() - self._last.at_s >= FRESH_SECONDS:
                now = self._look()
                self._passed_s += 0.0 if self._last is None else stood_still_s(self._last, now)
                self._last = now
            return self._passed_s


def look() -> Look:
    """At this process and all that it has started; where there is no /proc, only at the time."""
    cpu_s, ready = 0.0, False
    for process in _family(os.getpid()):
        try:
            fields = (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
            cpu_s += (int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])) / TICKS
            ready = ready or _has_ready_thread(process)
        except (OSError, IndexError):
            continue  # it has just ended
    return Look(time.monotonic(), cpu_s, ready)


def _family(process: int) -> Iterator[int]:
    yield process
    try:
        threads = os.listdir(PROC / str(process) / "task")
    except OSError:
        return  # it has just ended
    for thread in threads:
        try:
            found = (PROC / str(process) / "task" / thread / "children").read_text().split()
        except OSError:
            continue
        for child in found:
            yield from _family(int(child))


def _has_ready_thread(process: int) -> bool:
    """But for the one that looks."""
    own = threading.get_native_id()
    for task in (PROC / str(process) / "task").iterdir():
        if int(task.name) == own:
            continue
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if state in "RD":
            return True
    return False


patience = Clock(look)

LONG = 600
"""For calls that must be given a limit: so long that the watchdog (tests/watchdog.py) is always there first."""


class Deadline:
    """The end of patience: so many seconds without progress."""

    def __init__(self, seconds: float) -> None:
        self._end = patience() + seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - patience())

    @property
    def passed(self) -> bool:
        return self.left == 0


class Alarm:
    """Calls a function after so many seconds without progress, unless it is cancelled before."""

    def __init__(self, seconds: float, function: Callable[[], object]) -> None:
        self._deadline, self._function, self._cancelled = Deadline(seconds), function, threading.Event()
        threading.Thread(target=self._watch, name="alarm", daemon=True).start()

    def cancel(self) -> None:
        self._cancelled.set()

    def _watch(self) -> None:
        while not self._cancelled.wait(LOOK_SECONDS):
            if self._deadline.passed:
                self._function()
                return


def wait_until(holds: Callable[[], bool], what: str, *, seconds: float = 20) -> None:
    """Return as soon as it holds; fail with `what` after so many seconds without progress."""
    deadline = Deadline(seconds)
    while not holds():
        assert not deadline.passed, f"no progress for {seconds} s, in vain: {what}"
        select.select([], [], [], 0.05)
