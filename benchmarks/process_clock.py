"""Time as a measurement needs it: one clock for all processes of a run, and the processor time of this one."""

import resource
import time


def now_seconds() -> float:
    """The same clock in every process of this machine."""
    return time.monotonic()


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Meter:
    """Started when the work starts; what it tells when the work is done."""

    def __init__(self) -> None:
        self._start, self._cpu = now_seconds(), processor_seconds()

    def report(self, **more: float) -> dict[str, float]:
        return {"start": self._start, "end": now_seconds(), "cpu": processor_seconds() - self._cpu, **more}
