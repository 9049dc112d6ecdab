"""Have the machine's memory at hand before a measurement.

A virtual machine may get a page of memory from its host only when it first touches it, and may give back what lies
unused for a few seconds; a first touch then costs as much as writing the page ten times. Who is measured first after a
pause pays for all. So every run begins with as much memory as it will fill, touched a moment ago and free again.
"""

import mmap
import re
from pathlib import Path

SHARE_OF_FREE = 0.5
"""More than this is left alone: touching it would push out what the brokers themselves keep in memory."""


def warm_memory(wanted_bytes: int) -> None:
    size = min(wanted_bytes, int(available_bytes() * SHARE_OF_FREE))
    if size > 0:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
        mmap.mmap(-1, size, flags=flags).close()


def available_bytes() -> int:
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return int(found[1]) * 1024 if found else 0
