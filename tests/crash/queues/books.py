"""What producers and consumers of a queue know of each message, and what of that may be found after an accident. Pure.

open        nobody has decided about it: it is delivered again, or put aside after its last attempt
acking      asked for and not answered: it is done, or delivered again
acked       answered: it is never delivered again, nor put aside
rejecting   asked for and not answered: it is put aside, or delivered again
rejected    answered: it is put aside, once
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headwater.record import Record


class Fate(StrEnum):
    OPEN = "open"
    ACKING = "acking"
    ACKED = "acked"
    REJECTING = "rejecting"
    REJECTED = "rejected"


@dataclass
class Entry:
    key: bytes | None
    fate: Fate = Fate.OPEN
    attempts: int = 0


class Delivered(NamedTuple):
    offset: int
    deliveries: int


@dataclass
class Books:
    attempts_max: int
    ordered: bool
    entries: dict[int, Entry] = field(default_factory=dict)
    """By offset: messages whose append was answered, and those that were delivered all the same."""
    taking: int = 0
    """Consumers that are taking messages: what they were given is not known."""

    def entry(self, offset: int, key: bytes | None) -> Entry:
        return self.entries.setdefault(offset, Entry(key))

    def deliver(self, record: Record, deliveries: int, held: Iterable[int], *, exact: bool) -> Iterator[str]:
        """A message was delivered; what is wrong with that. `held` are those that consumers have."""
        entry = self.entry(record.offset, record.key)
        name = f"message {record.offset}"
        if entry.fate in (Fate.ACKED, Fate.REJECTED):
            yield f"delivered again: {name} is {entry.fate}"
        if record.offset in held:
            yield f"two consumers have {name}"
        entry.attempts += 1
        low = entry.attempts if exact else 1
        if not low <= deliveries <= entry.attempts + self.taking:
            yield f"miscounted: {name} says {deliveries} deliveries, and has had {entry.attempts}"
        if deliveries > self.attempts_max:
            yield f"{name} is delivered {deliveries} times"
        if self.ordered:
            yield from self._order(record, held)
        entry.attempts = deliveries

    def _order(self, record: Record, held: Iterable[int]) -> Iterator[str]:
        for offset in held:
            if record.key is not None and self.entries[offset].key == record.key:
                yield f"order: message {record.offset} is delivered while {offset} of the same key is"
        for offset, entry in self.entries.items():
            waits = entry.fate is Fate.OPEN and entry.attempts < self.attempts_max
            if record.key is not None and entry.key == record.key and offset < record.offset and waits:
                yield f"order: message {record.offset} is delivered before {offset} of the same key"

    def end(self, letters: Counter[int], stored: dict[int, Record], acknowledged: int, dead: int) -> Iterator[str]:
        """What is wrong once the queue is empty."""
        for offset, times in letters.items():
            entry = self.entries.get(offset)
            if times > 1:
                yield f"put aside {times} times: message {offset}"
            if entry is None or entry.fate is Fate.ACKED:
                yield f"put aside although it is done: message {offset}"
            elif entry.fate not in (Fate.REJECTING, Fate.REJECTED) and entry.attempts + self.taking < self.attempts_max:
                yield f"put aside too early: message {offset} after {entry.attempts} attempts"
        for offset in self.entries.keys() | stored.keys():
            fate = self.entries[offset].fate if offset in self.entries else None
            if fate not in (Fate.ACKING, Fate.ACKED) and not letters[offset]:
                yield f"lost: message {offset} is {fate}, and neither delivered nor put aside"
        if dead != letters.total():
            yield f"the books say {dead} were put aside, and {letters.total()} were"
        if acknowledged + dead != len(stored):
            yield f"the books say {acknowledged} done and {dead} put aside of {len(stored)} messages"
