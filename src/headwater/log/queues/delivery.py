"""One partition of a queue: which messages wait, which are with a consumer, which are done. Pure.

    start                                     end
      │ what is neither waiting nor done        │ never looked at: available, and costs nothing
      ▼                                         ▼
    ──┼─ acquired ─ available ─ acknowledged ──┼──────────────────►  offsets of the log

Methods that begin with a verb of states.py decide and change nothing: they return rows, which the caller writes down
and then hands to `put`. So what is in memory is never ahead of what was written.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headwater.errors import NotAcquired
from headwater.log.queues.key_order import KeyOrder
from headwater.log.queues.ranges import NO_FAILURE, Failure, Range, Ranges
from headwater.log.queues.states import NEXT_STATE, Event, State

LOCK_ENDED = "its lock ended before it was acknowledged"
CONSUMER_GONE = "its consumer went away"
OUTLIVED = "its time to live was over before a consumer took it"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a queue was set up to do."""

    lock_ms: int = 30_000
    attempts_max: int = 5
    in_flight_max: int = 2_000
    window_rows_max: int = 100_000
    """Rows of state beyond which nothing new is looked at: what memory and a snapshot may cost."""
    backoff_ms: int = 0
    """The delay after the first failed attempt. Each further one doubles it, up to `backoff_ms_max`."""
    backoff_ms_max: int = 3_600_000

    def delay_ms(self, deliveries: int) -> int:
        return min(self.backoff_ms << min(max(deliveries - 1, 0), 40), self.backoff_ms_max)


class Span(NamedTuple):
    """Messages that are in the log, `first` to `last`; with anything else said of them, only one."""

    first: int
    last: int
    not_before_ms: int = 0
    outlived: bool = False
    key: bytes | None = None


class Found(NamedTuple):
    """What the log has between two offsets. What lies between the spans does not exist for consumers."""

    begin: int
    spans: Sequence[Span]
    end: int


class Demand(NamedTuple):
    """What a consumer asks for."""

    holder: str
    count_max: int
    whole_spans: bool = False
    """A span that was begun is taken to its end: batches stay in one piece."""


class Acknowledgement(NamedTuple):
    first: int
    last: int
    event: Event
    delay_ms: int | None = None
    """Of a release; None is as the rules say."""
    error: str = ""


@dataclass
class Totals:
    """The books: how often what has happened, since the queue began."""

    delivered: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    dead: int = 0
    dropped: int = 0


class Delivery:
    def __init__(self, start: int, rows: Iterable[Range] = ()) -> None:
        self.start = self.end = start
        self.totals = Totals()
        self.counts: Counter[State] = Counter()
        """Of messages that are not done."""
        self.wake_ms: int | None = None
        """No lock ends and no delay is over before this time."""
        self.keys: KeyOrder | None = None
        """None: in no order."""
        self._rows = Ranges()
        self.put(rows)
        self.totals = Totals()

    @property
    def rows(self) -> Sequence[Range]:
        return list(self._rows)

    @property
    def in_flight(self) -> int:
        return self.counts[State.ACQUIRED]

    def held_by(self, holder: str) -> list[Range]:
        return [row for row in self._rows if row.state is State.ACQUIRED and row.holder == holder]

    def unknown_keys(self) -> list[Range]:
        """Rows whose keys were forgotten by a restart."""
        return [
            row for row in self._rows
            if row.state in (State.AVAILABLE, State.ACQUIRED) and self.keys is not None and row.first not in self.keys
        ]  # fmt: skip

    def learn_key(self, offset: int, key: bytes | None) -> None:
        """Of a message in the window, after a restart; in the order of offsets."""
        assert self.keys is not None
        row = next(iter(self._rows.between(offset, offset)), None)
        if row is not None and row.state in (State.AVAILABLE, State.ACQUIRED) and offset not in self.keys:
            self.keys.add(offset, key)
            self.keys.note(row)

    # -- applying ----------------------------------------------------------------------------------------------------

    def put(self, rows: Iterable[Range]) -> None:
        """Rows take effect: those that the verbs below returned, or those that were read back, in the same order."""
        for row in rows:
            if row.last < self.start:
                continue
            row = row.cut(self.start, row.last)
            if row.first > self.end:  # was looked at by a write that was lost: still available
                self._put(Range(self.end, row.first - 1, State.AVAILABLE))
            self._put(row)
        following = self._rows.drop_final()
        if following is not None:
            self.start = following

    def _put(self, row: Range) -> None:
        for old in self._rows.between(row.first, row.last):
            self.counts[old.state] -= 0 if old.state.final else old.size
            if row.state is State.ARCHIVED:
                failed = old.size if old.state is State.FAILED else 0
                self.totals.dead += failed
                self.totals.dropped += old.size - failed if not old.state.final else 0
            elif row.state is State.ACKNOWLEDGED and not old.state.final:
                self.totals.acknowledged += old.size
            elif row.state is State.ACQUIRED and row.deliveries > old.deliveries:
                self.totals.delivered += old.size
                self.totals.redelivered += old.size if old.deliveries else 0
        if row.state is State.ACQUIRED and row.last >= self.end:
            self.totals.delivered += row.last - max(self.end, row.first) + 1
        self._rows.put(row)
        self.counts[row.state] += 0 if row.state.final else row.size
        self.end = max(self.end, row.last + 1)
        if row.mark and row.state in (State.AVAILABLE, State.ACQUIRED):
            self.wake_ms = row.mark if self.wake_ms is None else min(self.wake_ms, row.mark)
        if self.keys is not None:
            self.keys.note(row)

    # -- taking ------------------------------------------------------------------------------------------------------

    def next_offset(self, offset: int, now_ms: int) -> int:
        """The first message from an offset on that may be delivered, or the end of what was looked at."""
        if not self.counts[State.AVAILABLE]:
            return max(self.end, offset)
        if self.keys is not None:
            for ready in self.keys.ready_from(offset):
                row = next(iter(self._rows.between(ready, ready)), None)
                if row is not None and row.mark <= now_ms:
                    return ready
            return max(self.end, offset)
        for row in self._rows.from_offset(offset):
            if row.state is State.AVAILABLE and row.mark <= now_ms:
                return max(row.first, offset)
        return max(self.end, offset)

    def deliveries_of(self, offset: int) -> int:
        return next((row.deliveries for row in self._rows.between(offset, offset)), 0)

    def may_extend(self, rules: Rules) -> bool:
        """May more of the log be looked at?"""
        return max(len(self._rows), len(self.keys or ())) < rules.window_rows_max

    def acquire(self, found: Found, demand: Demand, now_ms: int, rules: Rules) -> list[Range]:
        """Messages for a consumer; what is not there, or not any more, is done with on the way."""
        rows: list[Range] = []
        room = min(demand.count_max, rules.in_flight_max - self.in_flight)
        offset = found.begin
        for span in (*found.spans, None):
            gap_end = found.end if span is None else span.first
            rows += [_moved(row, Event.DROP) for row in self._available(offset, gap_end - 1)]
            if span is None:
                break
            if room <= 0 or (span.last >= self.end and not self.may_extend(rules)):
                break
            taken = self._take(span, room, demand, now_ms, rules)
            rows += taken
            count = sum(row.size for row in taken if row.state is State.ACQUIRED)
            room -= count
            if taken and room <= 0 and taken[-1].last < span.last:
                break
            offset = span.last + 1
        return rows

    def _available(self, first: int, last: int) -> list[Range]:
        if last < first:
            return []
        known = [row for row in self._rows.between(first, last) if row.state is State.AVAILABLE]
        fresh = max(first, self.end)
        return [*known, Range(fresh, last, State.AVAILABLE)] if fresh <= last else known

    def _take(self, span: Span, room: int, demand: Demand, now_ms: int, rules: Rules) -> list[Range]:
        rows: list[Range] = []
        for row in self._available(span.first, span.last):
            fresh = row.first >= self.end
            if fresh and self.keys is not None and span.first not in self.keys:
                self.keys.add(span.first, span.key)
            if fresh and span.outlived:
                rows.append(_moved(row, Event.OUTLIVE)._replace(failure=row.failure.followed_by(OUTLIVED)))
                continue
            mark = span.not_before_ms if fresh else row.mark
            held = self.keys is not None and not self.keys.may_go(row.first)
            if mark > now_ms or held:
                if fresh:
                    rows.append(row._replace(mark=mark))
                continue
            if not demand.whole_spans and room < row.size:
                row = row.cut(row.first, row.first + room - 1)
            if row.size <= 0 or (room <= 0 and not demand.whole_spans):
                break
            room -= row.size
            moved = _moved(row, Event.ACQUIRE)
            rows.append(
                moved._replace(deliveries=row.deliveries + 1, mark=now_ms + rules.lock_ms, holder=demand.holder)
            )
        return rows

    # -- giving back -------------------------------------------------------------------------------------------------

    def acknowledge(
        self, holder: str, acknowledgements: Iterable[Acknowledgement], now_ms: int, rules: Rules
    ) -> list[Range]:
        """All of them, or NotAcquired: a consumer decides only about what it holds, and its lock has not ended."""
        rows: list[Range] = []
        done = -1
        for one in acknowledgements:
            first = one.first if one.last < self.start else max(one.first, self.start)
            held = self._rows.between(first, one.last)
            whole = sum(row.size for row in held) == one.last - first + 1 and first > done
            if not whole or any(row.state is not State.ACQUIRED or row.holder != holder for row in held):
                raise NotAcquired(one.first, one.last)
            rows += [_acknowledged(row, one, now_ms, rules) for row in held]
            done = one.last
        return rows

    def expire(self, now_ms: int, rules: Rules) -> list[Range]:
        """Messages whose lock has ended. Asking also finds out when to ask next (`wake_ms`)."""
        if self.wake_ms is None or self.wake_ms > now_ms:
            return []
        locked = [row for row in self._rows if row.state is State.ACQUIRED and row.mark <= now_ms]
        later = [
            row.mark for row in self._rows
            if row.state in (State.AVAILABLE, State.ACQUIRED) and row.mark > now_ms
        ]  # fmt: skip
        self.wake_ms = min(later, default=None)
        return [_given_back(row, LOCK_ENDED, None, now_ms, rules, Event.EXPIRE) for row in locked]

    def release(self, holder: str, now_ms: int, rules: Rules) -> list[Range]:
        """Everything that a consumer holds which is not there any more."""
        return [_given_back(row, CONSUMER_GONE, 0, now_ms, rules) for row in self.held_by(holder)]

    # -- being done with ---------------------------------------------------------------------------------------------

    def failed(self) -> list[Range]:
        if not self.counts[State.FAILED]:
            return []
        return [row for row in self._rows if row.state is State.FAILED]

    def bury(self, rows: Iterable[Range]) -> list[Range]:
        """Failed messages of which there is a copy, or for which nobody wants one."""
        return [_moved(row, Event.BURY) for row in rows]

    def drop_below(self, offset: int) -> list[Range]:
        """The log has deleted what lies below an offset. What a consumer holds, it may still acknowledge."""
        waiting = self._available(self.start, offset - 1) if offset > self.start else []
        return [_moved(row, Event.DROP) for row in waiting]


def _moved(row: Range, event: Event) -> Range:
    return row._replace(state=NEXT_STATE[row.state, event], mark=0, holder="")


def _acknowledged(row: Range, one: Acknowledgement, now_ms: int, rules: Rules) -> Range:
    match one.event:
        case Event.RELEASE:
            return _given_back(row, one.error, one.delay_ms, now_ms, rules)
        case Event.RENEW:
            return _moved(row, Event.RENEW)._replace(mark=now_ms + rules.lock_ms, holder=row.holder)
        case Event.REJECT:
            return _moved(row, Event.REJECT)._replace(failure=_with(row, one.error or "it was rejected"))
        case _:
            return _moved(row, one.event)._replace(failure=NO_FAILURE)


def _given_back(
    row: Range, error: str, delay_ms: int | None, now_ms: int, rules: Rules, event: Event = Event.RELEASE
) -> Range:
    if row.deliveries >= rules.attempts_max:
        return _moved(row, Event.GIVE_UP)._replace(failure=_with(row, error or "it was released"))
    delay_ms = rules.delay_ms(row.deliveries) if delay_ms is None else delay_ms
    mark = now_ms + delay_ms if delay_ms else 0
    return _moved(row, event)._replace(mark=mark, failure=_with(row, error) if error else row.failure)


def _with(row: Range, error: str) -> Failure:
    return row.failure.followed_by(error)
