"""Messages in the same state as ranges of offsets: a million that wait are one row. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headwater.log.queues.states import State


class Failure(NamedTuple):
    """What consumers said when they gave a message back: the first time, and the last."""

    first: str
    last: str

    def followed_by(self, error: str) -> "Failure":
        return Failure(self.first or error, error)


NO_FAILURE = Failure("", "")


class Range(NamedTuple):
    """Neighbouring messages, `first` to `last` included, of which everything else is the same."""

    first: int
    last: int
    state: State
    deliveries: int = 0
    mark: int = 0
    """By state: when the lock ends (acquired), not before which time it is delivered (available), and the end of the
    dead-letter partition when it failed: a copy that a crash left there is looked for from this offset on."""
    holder: str = ""
    failure: Failure = NO_FAILURE

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def cut(self, first: int, last: int) -> "Range":
        """The part of it that lies in these bounds."""
        return self._replace(first=max(self.first, first), last=min(self.last, last))

    def joins(self, following: "Range") -> bool:
        return self.last + 1 == following.first and self[2:] == following[2:]


class Ranges:
    """Rows in the order of offsets, without gaps and without neighbours that could be one.

    >>> rows = Ranges([Range(0, 99, State.AVAILABLE)])
    >>> rows.put(Range(10, 19, State.ACQUIRED, 1))
    >>> [(row.first, row.last) for row in rows]
    [(0, 9), (10, 19), (20, 99)]
    """

    def __init__(self, rows: Iterable[Range] = ()) -> None:
        self._rows = list(rows)

    def __iter__(self) -> Iterator[Range]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def end(self) -> int:
        """The offset after the last row; 0 without rows."""
        return self._rows[-1].last + 1 if self._rows else 0

    def index_of(self, offset: int) -> int:
        """Where the row is that holds this offset, or the first one after it."""
        index = bisect_right(self._rows, offset, key=lambda row: row.first) - 1
        return index + 1 if index < 0 or self._rows[index].last < offset else index

    def between(self, first: int, last: int) -> list[Range]:
        """Rows, and parts of rows, in these bounds."""
        found = []
        for index in range(self.index_of(first), len(self._rows)):
            row = self._rows[index]
            if row.first > last:
                break
            found.append(row.cut(first, last))
        return found

    def from_offset(self, offset: int) -> Iterator[Range]:
        """Rows from the one that holds an offset on."""
        for index in range(self.index_of(offset), len(self._rows)):
            yield self._rows[index]

    def put(self, row: Range) -> None:
        """Replace what is known of these offsets. They must begin where the rows end, or before."""
        low = self.index_of(row.first)
        high = low
        pieces: list[Range] = []
        while high < len(self._rows) and self._rows[high].first <= row.last:
            old = self._rows[high]
            if old.first < row.first:
                pieces.append(old.cut(old.first, row.first - 1))
            high += 1
        pieces.append(row)
        if high > low and self._rows[high - 1].last > row.last:
            pieces.append(self._rows[high - 1].cut(row.last + 1, self._rows[high - 1].last))
        if low > 0:
            low -= 1
            pieces.insert(0, self._rows[low])
        if high < len(self._rows):
            pieces.append(self._rows[high])
            high += 1
        self._rows[low:high] = joined(pieces)

    def drop_final(self) -> int | None:
        """Forget the rows at the beginning that need nothing more; returns the offset after the last of them."""
        count = 0
        while count < len(self._rows) and self._rows[count].state.final:
            count += 1
        if not count:
            return None
        following = self._rows[count - 1].last + 1
        del self._rows[:count]
        return following


def joined(rows: Iterable[Range]) -> list[Range]:
    """Rows in their order, with neighbours that can be one made one."""
    found: list[Range] = []
    for row in rows:
        if found and found[-1].joins(row):
            found[-1] = found[-1]._replace(last=row.last)
        else:
            found.append(row)
    return found
