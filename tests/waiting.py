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

LOOK_SECONDS = 0.5
FRESH_SECONDS = 0.25
BUSY_SHARE = 0.1
"""Of a processor: what is waiting may look at a clock now and then."""
CPU_PER_SECOND = 10
TICKS = os.sysconf("SC_CLK_TCK")
PROC = "/proc"


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

    def __init__(self, look: Callable[[Look | None], Look]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._last: Look | None = None
        self._passed_s = 0.0

    def __call__(self) -> float:
        with self._lock:
            if self._last is None or time.monotonic() - self._last.at_s >= FRESH_SECONDS:
                now = self._look(self._last)
                self._passed_s += 0.0 if self._last is None else stood_still_s(self._last, now)
                self._last = now
            return self._passed_s


def look(before: Look | None = None) -> Look:
    """At this process and all that it has started; where there is no /proc, only at the time.

    They may have hundreds of threads. What has used a processor since the look `before` works, and its threads need not
    be looked at for that.
    """
    family, cpu_s, at_s = list(_family(os.getpid())), 0.0, time.monotonic()
    for process in family:
        fields = _fields(f"{PROC}/{process}/stat")
        cpu_s += sum(map(int, fields[11:15])) / TICKS
    works = before is not None and cpu_s - before.cpu_s > BUSY_SHARE * (at_s - before.at_s)
    return Look(at_s, cpu_s, works or any(map(_has_ready_thread, family)))


def _fields(path: str) -> list[bytes]:
    """Of a file about a process or thread, after its name; none if it has just ended."""
    return _read(path).rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, 65536)
    except OSError:
        return b""
    finally:
        os.close(file)


def _family(process: int) -> Iterator[int]:
    yield process
    for thread in _threads(process):
        for child in _read(f"{PROC}/{process}/task/{thread}/children").split():
            yield from _family(int(child))


def _threads(process: int) -> list[str]:
    try:
        return os.listdir(f"{PROC}/{process}/task")
    except OSError:
        return []


def _has_ready_thread(process: int) -> bool:
    """But for the one that looks."""
    own = str(threading.get_native_id())
    states = (_fields(f"{PROC}/{process}/task/{one}/stat")[:1] for one in _threads(process) if one != own)
    return any(state in ([b"R"], [b"D"]) for state in states)


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
