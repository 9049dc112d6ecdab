"""Barriers: jobs are asked to end a batch where the log ends now, so that their views meet at one position."""

import threading
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.log.log import Log
from headwater.views.barrier import Barrier, read_barrier, write_barrier

LASTING_MS = 1500
"""A job that is slower meets the next one."""
SHARED_MS = 300
"""Who comes so soon after another waits for the same barrier."""


class Barriers:
    """Safe to use from many threads."""

    def __init__(self, log: Log, data: Path) -> None:
        self._log, self._data, self._lock = log, data, threading.Lock()

    def place(self, topics: frozenset[str]) -> None:
        now_ms = self._log.clock.now_ms()
        with self._lock:
            there = read_barrier(self._data, now_ms)
            if there is None or there.until_ms - now_ms < LASTING_MS - SHARED_MS or not topics <= there.ends.keys():
                ends = {topic: self._ends(topic) for topic in sorted(topics)}
                write_barrier(self._data, Barrier(now_ms + LASTING_MS, ends))

    def _ends(self, topic: str) -> dict[int, int]:
        try:
            count = self._log.topic(topic).partitions
            return {number: self._log.partition(topic, number).high_watermark for number in range(count)}
        except HeadwaterError:
            return {}  # deleted, or offline: then no job comes by
