"""Which bytes of a file are known to be something: disjoint ranges, sorted, joined where they touch."""

import threading
from bisect import bisect_left, bisect_right


class ByteRanges:
    """Safe to use from many threads.

    >>> known = ByteRanges()
    >>> known.add(0, 10); known.add(20, 30); known.add(10, 20)
    >>> known.covers(5, 25), known.covers(5, 31)
    (True, False)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        with self._lock:
            if self._ends and start == self._ends[-1]:  # a file that grows: by far the most common
                self._ends[-1] = end
                return
            first = bisect_left(self._ends, start)
            last = bisect_right(self._starts, end)
            if first < last:
                start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self._starts[first:last] = [start]
            self._ends[first:last] = [end]

    def covers(self, start: int, end: int) -> bool:
        with self._lock:
            index = bisect_right(self._starts, start) - 1
            return start >= end or (index >= 0 and self._ends[index] >= end)
