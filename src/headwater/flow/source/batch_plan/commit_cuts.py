"""Batches that end where transactions do: plans over topics that captures write, cut at their commit points. Pure.

A capture says, for all its partitions together, at which offsets whole transactions end (log/commit_points.py). A plan
never ends between two of these points in topics of that capture; topics that no capture writes are cut as ever:

- Nothing behind the newest commit point is read: it may be half of a transaction.
- A plan that is cut short (by rows, by bytes, by time) falls back to the last commit point before the cut.
- If there is none, for what lies before the first is larger than the limit, the batch goes up to that first one: it is
  larger than was asked for, and whole.
- Before the oldest point that is known (records from before there were any, or points that retention has deleted) a
  batch is cut as any other, but never beyond that point: it is met exactly, and from there on the rules hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.flow.source.batch_plan.admission import Estimate, Guess, Offsets, OffsetsAtTime, Plan, plan, rows_between
from headwater.log.commit_points import CommitPoint
from headwater.record import TopicPartition

Ends = dict[TopicPartition, int]


@dataclass(frozen=True)
class CommitHistory:
    """The commit points of one capture, as far as a job reads its topics. Points are numbered; the last is `newest`."""

    newest: CommitPoint
    places: frozenset[TopicPartition]
    """Partitions that the job reads and the capture writes."""

    first: int
    last: int
    at: Callable[[int], CommitPoint | None]
    """The point of a number between the two; None if it has been deleted meanwhile."""

    def ends_at(self, number: int) -> Ends | None:
        """None for a point of an earlier epoch, which says nothing any more."""
        point = self.newest if number == self.last else self.at(number)
        if point is None or point.epoch != self.newest.epoch:
            return None
        return {place: point.ends.get(place, 0) for place in self.places}

    def covers(self, offsets: Offsets) -> bool:
        """Whether the newest point lies at or behind these offsets: all before them may be read."""
        return all(self.newest.ends[place] >= offsets.get(place, 0) for place in self.places)

    def last_before(self, offsets: Offsets) -> int | None:
        """The number of the last point that lies at or before these offsets in all partitions.

        It is looked for from the newest backwards in growing steps: most often it is among the last.
        """
        return self._last(lambda ends: all(end <= offsets.get(place, 0) for place, end in ends.items()))

    def oldest(self) -> int:
        """The number of the first point of the epoch."""
        before, found = self.first - 1, self.last
        while found - before > 1:
            middle = (before + found) // 2
            if self.ends_at(middle) is None:
                before = middle
            else:
                found = middle
        return found

    def _last(self, holds: Callable[[Ends], bool]) -> int | None:
        beyond, step = self.last + 1, 1
        while True:
            number = max(self.first, beyond - step)
            ends = self.ends_at(number)
            if ends is None or holds(ends):
                break
            if number == self.first:
                return None
            beyond, step = number, 2 * step
        while beyond - number > 1:
            middle = (number + beyond) // 2
            found = self.ends_at(middle)
            if found is None or holds(found):
                number, ends = middle, found
            else:
                beyond = middle
        return None if ends is None else number


def plan_whole(
    start: Offsets,
    ends: Offsets,
    limit: int | None,
    offsets_at_time: OffsetsAtTime,
    histories: Sequence[CommitHistory],
    *,
    guess: Guess | Estimate | None = None,
) -> Plan:
    """As `plan`, but for topics of captures it ends at commit points, which may take more rows than `limit`."""
    # A partition that was found after the ends were fixed is not read at all.
    read = [replace(history, places=history.places & ends.keys()) for history in histories]
    bounds = [_Bounds.of(history, start, ends) for history in read if history.places]
    reachable = {place: max(end, start.get(place, 0)) for place, end in ends.items()}
    for bound in bounds:
        reachable |= bound.settled
    if limit is not None and rows_between(start, reachable) > limit:
        for bound in bounds:
            reachable |= bound.nearest
    made = plan(start, reachable, limit, offsets_at_time, guess=guess)
    if made.time_ms is None:
        return made._replace(held=_open(reachable, ends, bounds))
    whole = dict(made.ends)
    for bound in bounds:
        whole |= bound.cut(made.ends)
    held = made.held | _open(reachable, ends, bounds) | {place for place in whole if whole[place] < made.ends[place]}
    return made._replace(ends=whole, held=frozenset(held), ahead=made.ahead - held)


def _open(reachable: Offsets, ends: Offsets, bounds: "Sequence[_Bounds]") -> frozenset[TopicPartition]:
    """Partitions that have records of a transaction which is not there as a whole."""
    places = (place for bound in bounds for place in bound.settled)
    return frozenset(place for place in places if reachable[place] < ends[place])


@dataclass(frozen=True)
class _Bounds:
    """How far a capture's topics may be read from `start` on."""

    history: CommitHistory
    start: Ends
    settled: Ends
    """Up to the last commit point there is."""

    nearest: Ends
    """As far as a plan may go that has to be cut: the same, or only to where commit points begin."""

    known: int | None
    """The number of the last point at or before the start; None if none is known from there."""

    @classmethod
    def of(cls, history: CommitHistory, start: Offsets, ends: Offsets) -> "_Bounds":
        begin = {place: start.get(place, 0) for place in history.places}
        known, last = history.last_before(begin), history.last_before(ends)
        settled = _reached(begin, None if last is None else history.ends_at(last))
        if known is not None:
            return cls(history, begin, settled, settled, known)
        oldest = history.ends_at(history.oldest())
        before = _reached(begin, {place: min(ends.get(place, 0), end) for place, end in (oldest or {}).items()})
        return cls(history, begin, settled if last is not None else before, before, None)

    def cut(self, ends: Offsets) -> Ends:
        """The last commit point before these offsets; the next one if that is no step forward."""
        if self.known is None:
            return {}
        cut = {place: ends[place] for place in self.start}
        if cut == self.settled or cut == self.start:
            return cut
        number = self.history.last_before(cut)
        reached = _reached(self.start, None if number is None else self.history.ends_at(number))
        if reached == self.start:
            reached = _reached(self.start, self.history.ends_at(self.known + 1))
        return reached


def _reached(start: Ends, ends: Mapping[TopicPartition, int] | None) -> Ends:
    return {place: max(offset, (ends or {}).get(place, 0)) for place, offset in start.items()}
