"""What producers did in transactions, and what of that readers of committed records may find. Pure.

A history is a list of transactions, each with what it wrote and its fate as far as its producer knows it. Values are
numbered, so each is sent once. An append or a commit outside of transactions is a transaction of its own.

    OPEN         no end was asked for: nothing of it may be seen
    COMMITTING   asked for and not answered: all of it is seen, or nothing
    COMMITTED    answered, or some of it was shown before: all of it is seen
    ABORTING     asked for and not answered, or its producer was replaced: nothing of it may be seen
    ABORTED
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from headwater.log.transactions.transaction import ProducerIdentity
from headwater.record import Record, TopicPartition


class Fate(StrEnum):
    OPEN = "open"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTING = "aborting"
    ABORTED = "aborted"


@dataclass(eq=False)
class Sent:
    """A batch. Without an offset it was not answered."""

    place: TopicPartition
    rows: tuple[tuple[bytes | None, bytes], ...]
    timestamp_ms: int
    producer: ProducerIdentity | None = None
    sequence: int = -1
    offset: int | None = None
    durable: bool = False
    withdrawn: bool = False
    """Its client has reported that it was not delivered: whether it is there is not known."""

    @property
    def offsets(self) -> range:
        return range(0) if self.offset is None else range(self.offset, self.offset + len(self.rows))


Committed = tuple[str, TopicPartition]
"""A group, and a partition of which it commits offsets."""


@dataclass(eq=False)
class Transaction:
    name: str
    fate: Fate = Fate.OPEN
    sent: list[Sent] = field(default_factory=list)
    begun_elapsed_ms: int = 0


@dataclass
class Found:
    """What readers of committed records find."""

    records: dict[TopicPartition, list[Record]]
    starts: dict[TopicPartition, int]
    stable: dict[TopicPartition, int]
    """The last stable offsets."""
    offsets: dict[Committed, int]


@dataclass
class History:
    transactions: list[Transaction] = field(default_factory=list)
    offsets: dict[Committed, list[tuple[Transaction, int]]] = field(default_factory=dict)
    """In the order in which they were written: the newest that is committed counts."""
    compacted: frozenset[str] = frozenset()

    def begin(self, name: str, *, elapsed_ms: int = 0, fate: Fate = Fate.OPEN) -> Transaction:
        self.transactions.append(Transaction(f"{name}/{len(self.transactions)}", fate, begun_elapsed_ms=elapsed_ms))
        return self.transactions[-1]

    def write_offset(self, transaction: Transaction, what: Committed, offset: int) -> None:
        self.offsets.setdefault(what, []).append((transaction, offset))


class Check:
    def __init__(self, history: History, found: Found) -> None:
        self._history, self._found = history, found
        self._seen = {place: {record.value: record for record in rows} for place, rows in found.records.items()}
        self._newest = {
            (place, record.key): record.offset
            for place, rows in found.records.items() if place.topic in history.compacted
            for record in rows
        }  # fmt: skip
        self._signs: dict[Transaction, set[bool]] = {}
        """By transaction: whether something of it was found, and whether something is missing."""

    def sentences(self) -> Iterator[str]:
        for place, rows in self._found.records.items():
            yield from self._of_partition(place, rows)
        for transaction in self._history.transactions:
            self._signs[transaction] = {
                sign for sent in transaction.sent for sign in [self._found_of(sent)] if sign is not None
            }
        for what, writes in self._history.offsets.items():
            yield from self._of_offsets(what, writes)
        for transaction, signs in self._signs.items():
            yield from _of_transaction(transaction, signs)

    def _of_partition(self, place: TopicPartition, rows: list[Record]) -> Iterator[str]:
        sender = {
            value: transaction.name.partition("/")[0]
            for transaction in self._history.transactions for sent in transaction.sent if sent.place == place
            for _, value in sent.rows
        }  # fmt: skip
        for value, times in Counter(record.value for record in rows).items():
            if times > 1:
                yield f"duplicate: {place} has {value!r} {times} times"
            if value not in sender:
                yield f"{place} has {value!r}, which nobody sent"
        for name in set(sender.values()):
            numbers = [number_of(record.value or b"") for record in rows if sender.get(record.value or b"") == name]
            if numbers != sorted(numbers):
                yield f"reordered: {place} has {numbers} of {name}"

    def _found_of(self, sent: Sent) -> bool | None:
        """Whether it is there, all of it; None if that says nothing, because it may have been deleted since, or an
        open transaction lies before it."""
        if sent.withdrawn:
            return None
        signs = set()
        for index, (key, value) in enumerate(sent.rows):
            offset = None if sent.offset is None else sent.offset + index
            if value in self._seen[sent.place]:
                signs.add(True)
            elif offset is None or not (self._hidden(sent.place, offset) or self._deleted(sent.place, key, offset)):
                signs.add(False)
        if signs == {True, False}:
            return False
        return signs.pop() if signs else None

    def _hidden(self, place: TopicPartition, offset: int) -> bool:
        return offset >= self._found.stable[place]

    def _deleted(self, place: TopicPartition, key: bytes | None, offset: int) -> bool:
        return offset < self._found.starts[place] or self._newest.get((place, key), -1) > offset

    def _of_offsets(self, what: Committed, writes: list[tuple[Transaction, int]]) -> Iterator[str]:
        offset = self._found.offsets.get(what)
        known = [index for index, (_, written) in enumerate(writes) if written == offset]
        if offset is not None and not known:
            yield f"{what} has offset {offset}, which nobody committed"
            return
        last = known[-1] if known else -1
        if known:
            self._signs[writes[last][0]].add(True)
        for transaction, _ in writes[last + 1 :]:
            self._signs[transaction].add(False)


def _of_transaction(transaction: Transaction, signs: set[bool]) -> Iterator[str]:
    match transaction.fate:
        case Fate.COMMITTED:
            if False in signs:
                yield f"lost write: {transaction.name} is committed, and not all of it is there"
        case Fate.COMMITTING:
            if signs == {True, False}:
                yield f"torn: {transaction.name} was being committed, and a part of it is there"
        case _:
            if True in signs:
                yield f"aborted read: {transaction.name} is {transaction.fate}, and some of it is there"


def number_of(value: bytes) -> int:
    return int(value.split(b".")[0])


def check(history: History, found: Found) -> list[str]:
    return list(Check(history, found).sentences())
