"""An index from event times to offsets, made by probing: a few records are read here and there, and bisected. Pure.

The broker's own index knows the timestamps of records. Rows say themselves when they happened, and a log may hold a
year of them that was appended today, one partition after the other. So where the first row at or after a time is has to
be looked for:

    offset   start                         stop
               │◄─ older ─►│    ?    │◄─ T or newer …
    probes   [12:00 … 12:04]   [12:31 … 12:33]   [13:10 … 13:12]      each a record batch or some; they are kept
                                ▲ the next one is read between the last that is older and the first that is not

Rows need not be in order. The row that is answered is at or after the time, so that all after it are later than that
time less the lateness of their stream; rows before it may be newer by as much. A probe without any time (nothing in it
decodes) counts as older: what cannot be read holds nothing up.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from headwater.log.record_columns import Int64Array
from headwater.record import TopicPartition

READS_MAX = 32
"""Probes of one partition that a plan reads. After that it is content with the nearest that are known."""
STEPS_MAX = 256
"""How many rows are remembered of a probe; of more, some are passed over."""
HALVED = 3
"""Every so often a search goes on in the middle, so that it ends soon also where rows do not come evenly."""
BEFORE_ALL_MS = -(2**63)


class Probe(NamedTuple):
    """All records there are with offsets from `first` to below `end`."""

    first: int
    end: int
    offsets: Int64Array
    """Rows that are newer than all before them in the probe."""
    times_ms: Int64Array
    """Their event times, which grow."""
    arrived_ms: int
    """The newest timestamp of its records."""

    @property
    def newest_ms(self) -> int:
        return int(self.times_ms[-1]) if len(self.times_ms) else BEFORE_ALL_MS

    def at(self, time_ms: int) -> int:
        """The offset of a row at or after the time, which `newest_ms` is."""
        return int(self.offsets[np.searchsorted(self.times_ms, time_ms)])

    def until(self, end: int) -> "Probe":
        """The part of it below an offset."""
        count = int(np.searchsorted(self.offsets, end))
        return self._replace(end=min(self.end, end), offsets=self.offsets[:count], times_ms=self.times_ms[:count])


def probe_of(first: int, end: int, offsets: Int64Array, times_ms: Int64Array, arrived_ms: int) -> Probe:
    """Of rows in the order of the log."""
    newest = np.maximum.accumulate(times_ms)
    steps = np.flatnonzero(np.concatenate(([True], newest[1:] > newest[:-1]))[: len(newest)])
    if len(steps) > STEPS_MAX:
        steps = steps[np.unique(np.linspace(0, len(steps) - 1, STEPS_MAX).astype(np.int64))]
    return Probe(first, end, offsets[steps], newest[steps], arrived_ms)


ReadProbe = Callable[[TopicPartition, int, int], Probe]
"""Reads the record batch that holds an offset, or the next one there is, below an end: the probe holds the offset."""


class Found(NamedTuple):
    offset: int
    """Of the first row at or after a time, as far as is known; where the search stops if there is none."""
    arrived_ms: int | None
    """About when the records before it were written; None if there are none."""


class TimeLine(NamedTuple):
    """Where rows of a time are about, if they come evenly between those that are known."""

    times_ms: Int64Array
    offsets: Int64Array
    stop: int

    def offset(self, time_ms: int) -> int:
        """
        >>> TimeLine(np.array([100, 200, 600]), np.array([0, 10, 20]), 20).offset(400)
        15
        """
        if not len(self.times_ms) or time_ms > self.times_ms[-1]:
            return self.stop
        return int(np.interp(time_ms, self.times_ms, self.offsets))


class EventTimeIndex:
    """Of the partitions of one stream. What is read is kept from plan to plan; what was consumed is dropped."""

    def __init__(self, read: ReadProbe) -> None:
        self._read = read
        self._probes: dict[TopicPartition, list[Probe]] = {}
        self._reads: dict[TopicPartition, int] = {}

    def begin_plan(self, start: dict[TopicPartition, int]) -> None:
        self._reads = {}
        for place, probes in self._probes.items():
            probes[:] = [probe for probe in probes if probe.end > start.get(place, 0)]

    def first_at(self, place: TopicPartition, time_ms: int, start: int, stop: int, end: int) -> Found:
        """The first row at or after a time, from `start` on; it is not looked for beyond `stop`, and nothing is read
        from `end` on."""
        if start >= stop:
            return Found(stop, None)
        if self._holding(place, start) is None:
            self._probe(place, start, end)
        older, newer = self._around(place, time_ms, stop)
        if newer is None and (older is None or older.end < stop) and self._room(place):
            self._probe(place, stop - 1, end)
            older, newer = self._around(place, time_ms, stop)
        steps = 0
        while newer is not None and self._room(place):
            begin = start if older is None else older.end
            # If the probe begins before the time, so do all rows before it, but for their lateness.
            if begin >= newer.first or newer.times_ms[0] < time_ms:
                break
            steps += 1
            probe = self._probe(place, _between(older, newer, begin, time_ms, evenly=steps % HALVED > 0), end)
            older, newer = (older, probe) if probe.newest_ms >= time_ms else (probe, newer)
        offset = stop if newer is None else min(max(start, newer.at(time_ms)), stop)
        return Found(offset, _arrived(older, newer, start, offset))

    def time_line(self, place: TopicPartition, start: int, stop: int, end: int) -> TimeLine:
        """What is known of the times of rows from `start` to `stop`: the first is read if it has not been, and where
        none is known of the second half, or but one behind the first, the last and one in the middle."""
        middle = (start + stop) // 2
        if self._holding(place, start) is None and self._room(place):
            self._probe(place, start, end)
        behind = [probe.first for probe in self._probes[place] if start < probe.first < stop]
        for missing, offset in ((not any(first >= middle for first in behind), stop - 1), (len(behind) < 2, middle)):
            if missing and self._holding(place, offset) is None and self._room(place):
                self._probe(place, offset, end)
        own = [probe for probe in self._probes[place] if probe.first < stop and len(probe.times_ms)]
        times_ms = np.maximum.accumulate([one for probe in own for one in (probe.times_ms[0], probe.newest_ms)])
        offsets = np.array([one for probe in own for one in (max(probe.first, start), min(probe.end, stop))])
        return TimeLine(np.array(times_ms, np.int64), offsets, stop)

    def _around(self, place: TopicPartition, time_ms: int, stop: int) -> tuple[Probe | None, Probe | None]:
        """The last known probe that is older than a time, and the first that is not."""
        older = None
        for probe in self._probes[place]:
            if probe.first >= stop:
                break
            if probe.newest_ms >= time_ms:
                return older, probe
            older = probe
        return older, None

    def _holding(self, place: TopicPartition, offset: int) -> Probe | None:
        probes = self._probes.setdefault(place, [])
        found = bisect_left(probes, offset + 1, key=lambda probe: probe.first) - 1
        return probes[found] if found >= 0 and probes[found].end > offset else None

    def _room(self, place: TopicPartition) -> bool:
        return self._reads.get(place, 0) < READS_MAX

    def _probe(self, place: TopicPartition, offset: int, end: int) -> Probe:
        self._reads[place] = self._reads.get(place, 0) + 1
        probe = self._read(place, offset, end)
        probes = self._probes[place]
        following = bisect_left(probes, offset, key=lambda known: known.first)
        if following < len(probes):
            probe = probe.until(probes[following].first)
        if following and probes[following - 1].end > probe.first:
            probe = probe._replace(first=probes[following - 1].end)
        insort(probes, probe, key=lambda known: known.first)
        return probe


def _between(older: Probe | None, newer: Probe, begin: int, time_ms: int, *, evenly: bool) -> int:
    """Where the time is if rows come evenly between two probes; or the middle, which ends the search in any case."""
    gap = newer.first - begin
    if older is None or not len(older.times_ms) or not evenly:
        return begin + gap // 2
    share = (time_ms - older.newest_ms) / (newer.times_ms[0] - older.newest_ms)
    return begin + min(gap - 1, int(share * gap))


def _arrived(older: Probe | None, newer: Probe | None, start: int, offset: int) -> int | None:
    if offset <= start:
        return None
    last = newer if newer is not None and offset > newer.first else older
    return None if last is None else last.arrived_ms
