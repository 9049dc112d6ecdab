"""The transactions of one partition: which are open, which were aborted, and how far records are decided. Pure.

    start ........ first record of an open transaction ........ high watermark ........ end
    |       decided: committed or aborted            |          undecided            |
                                        last stable offset

A marker that is not visible yet does not decide anything for readers: the last stable offset stays in front of the
transaction that it ends until the high watermark has passed it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headwater.errors import InvalidTransactionState
from headwater.log.batch_format import BatchHeader
from headwater.log.transactions.markers import Marker

NOT_ENDED = 2**63 - 1

TransactionRows = dict[str, list[list[int]]]
"""Plain lists, for the disk."""


class Undecided(NamedTuple):
    """A transaction whose end is not durable, and maybe not there."""

    producer_id: int
    epoch: int
    first_offset: int
    first_timestamp_ms: int
    marker_offset: int = NOT_ENDED


class Aborted(NamedTuple):
    """A transaction whose records no reader of committed records sees."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    stable_offset: int
    """The last stable offset after the marker: what is aborted later begins there or after it."""

    def covers(self, header: BatchHeader) -> bool:
        return self.producer_id == header.producer_id and self.first_offset <= header.base_offset <= self.last_offset


class OpenTransactions:
    """Changed under the partition's lock. Readers take no lock: `undecided` is replaced as a whole, `aborted` grows."""

    def __init__(self) -> None:
        self._open: dict[int, Undecided] = {}
        self._ended: tuple[Undecided, ...] = ()  # whose marker may not be durable yet
        self.undecided: tuple[Undecided, ...] = ()
        self.aborted: list[Aborted] = []
        """In the order of their markers."""

    def stable_below(self, high_watermark: int) -> int:
        """The last stable offset for readers who see up to the high watermark."""
        if not self.undecided:
            return high_watermark
        unstable = (one.first_offset for one in self.undecided if one.marker_offset >= high_watermark)
        return min([high_watermark, *unstable])

    @property
    def first_open(self) -> int:
        """First offset of the oldest transaction that has no marker."""
        return min((one.first_offset for one in self._open.values()), default=NOT_ENDED)

    def open_of(self, producer_id: int) -> Undecided | None:
        return self._open.get(producer_id)

    def open(self) -> list[Undecided]:
        return sorted(self._open.values(), key=lambda one: one.first_offset)

    def check(self, header: BatchHeader) -> None:
        """InvalidTransactionState for a plain batch in the middle of a transaction."""
        if header.transactional or header.producer_id not in self._open:
            return
        raise InvalidTransactionState(
            f"producer {header.producer_id} has a transaction open here and sent a batch that is not in it"
        )

    def note(self, header: BatchHeader, marker: Marker | None) -> None:
        """A batch was stored at the offsets in its header."""
        if not header.transactional or header.producer_id < 0:
            return
        if not header.control:
            if header.producer_id in self._open:
                return
            self._open[header.producer_id] = Undecided(
                header.producer_id, header.producer_epoch, header.base_offset, header.base_timestamp
            )
        elif marker is not None and (begun := self._open.pop(header.producer_id, None)) is not None:
            self._ended = (*self._ended, begun._replace(marker_offset=header.last_offset))
            if not marker.commit:
                # Before `undecided` changes: a reader that sees it decided must also see how.
                stable = min(self.first_open, header.next_offset)
                self.aborted.append(Aborted(header.producer_id, begun.first_offset, header.last_offset, stable))
        else:
            return
        self._publish()

    def lose(self, first: int, end: int) -> None:
        """A range is damaged or missing, and may have held markers. What was open before it counts as aborted: whether
        it was committed is not known, and a reader must not see a record of a transaction that was aborted."""
        lost = [one for one in self.open() if one.first_offset < first]
        for one in lost:
            del self._open[one.producer_id]
        stable = min(self.first_open, end)
        self.aborted += [Aborted(one.producer_id, one.first_offset, end - 1, stable) for one in lost]
        self._publish()

    def durable(self, offset: int) -> None:
        """Markers below an offset are durable."""
        if self._ended and any(one.marker_offset < offset for one in self._ended):
            self._ended = tuple(one for one in self._ended if one.marker_offset >= offset)
            self._publish()

    def _publish(self) -> None:
        self.undecided = (*self._ended, *self._open.values())

    def aborted_between(self, first: int, end: int) -> list[Aborted]:
        """Aborted transactions that may have records from `first` to below `end`, by their first offsets."""
        aborted = self.aborted
        found = []
        for one in aborted[bisect_left(aborted, first, key=lambda one: one.last_offset) :]:
            if one.first_offset < end:
                found.append(one)
            if one.stable_offset >= end:
                break
        return sorted(found, key=lambda one: one.first_offset)

    def forget(self, *, below: int) -> None:
        """Forget aborted transactions that ended below an offset: none of their records is left."""
        if self.aborted and self.aborted[0].last_offset < below:
            self.aborted = self.aborted[bisect_left(self.aborted, below, key=lambda one: one.last_offset) :]

    # -- to disk and back --------------------------------------------------------------------------------------------

    def to_rows(self, *, below: int) -> TransactionRows:
        """As it was when the log ended at an offset, which all that is durable has reached."""
        undecided = [one for one in self.undecided if one.first_offset < below <= one.marker_offset]
        return {
            "open": sorted(list(one[:4]) for one in undecided),
            "aborted": [list(one) for one in self.aborted if one.last_offset < below],
        }

    @classmethod
    def from_rows(cls, rows: dict[str, Any]) -> "OpenTransactions":
        """ValueError or TypeError if these are not such rows."""
        state = cls()
        for row in rows["open"]:
            one = Undecided(*map(int, row))
            state._open[one.producer_id] = one
        state.aborted = sorted((Aborted(*map(int, row)) for row in rows["aborted"]), key=lambda one: one.last_offset)
        state._publish()
        return state


class AbortedBatches:
    """Tells aborted batches from others, for one reading of a range."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._by_producer: dict[int, list[Aborted]] = {}
        for one in aborted:
            self._by_producer.setdefault(one.producer_id, []).append(one)
        for ranges in self._by_producer.values():
            ranges.sort(key=lambda one: one.last_offset)

    def __contains__(self, header: BatchHeader) -> bool:
        ranges: Sequence[Aborted] = self._by_producer.get(header.producer_id, ())
        if not ranges or not header.transactional:
            return False
        index = bisect_left(ranges, header.base_offset, key=lambda one: one.last_offset)
        return index < len(ranges) and ranges[index].covers(header)
