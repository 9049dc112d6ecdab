"""Events of an auction house, from a seed: people who register, auctions that they open, and bids on these.

Of fifty events one is a person, three are auctions and the others bids. They come in the order of their times, but for
some bids, which come up to two seconds late. As Nexmark has it, half of the bids are on one auction, which changes with
every hundredth, and the others on the last hundred; three of four bids and auctions are of one person, who changes
likewise, and the others of the last thousand.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 3, 1, 11, 59, tzinfo=UTC)
BETWEEN_EVENTS = timedelta(milliseconds=150)
LATE_MAX_MS = 2000
STATES = ("OR", "ID", "CA", "WA", "NV", "AZ")
CITIES = ("Bend", "Boise", "Fresno", "Seattle", "Reno", "Tucson")
NAMES = ("Ada", "Bela", "Cem", "Dora", "Eino", "Fay", "Gus", "Hana")
CHANNELS = ("Apple", "Google", "Facebook", "Baidu", "channel-17", "channel-230")
FOLDERS = ("lamps", "chairs", "maps", "coins")
CATEGORIES = (10, 11, 12, 13, 14)
PERSON, AUCTION, BID = "person", "auction", "bid"
FIRST_PERSON, FIRST_AUCTION = 1000, 1100
EVERY = 100
"""With each hundredth auction or person another one becomes the one that most events are about."""
AUCTIONS_OPEN, PEOPLE_ACTIVE = 100, 1000
EXPIRES_EVENTS = (70, 400)
"""After how many events an auction expires: at least, and less than."""


@dataclass
class House:
    """What has been made so far: new events refer to it."""

    dice: random.Random
    between: timedelta
    people: int = 0
    auctions: int = 0

    def person(self, at: datetime) -> dict[str, Any]:
        number = FIRST_PERSON + self.people
        self.people += 1
        name = self._one_of(NAMES)
        return {
            "id": number, "name": name, "email_address": f"{name.lower()}{number}@example.com",
            "credit_card": f"{self._below(10**16):016}", "city": self._one_of(CITIES), "state": self._one_of(STATES),
            "date_time": _text(at), "extra": self._extra(),
        }  # fmt: skip

    def auction(self, at: datetime) -> dict[str, Any]:
        number = FIRST_AUCTION + self.auctions
        self.auctions += 1
        least, (soon, late) = self._below(1000) + 1, EXPIRES_EVENTS
        return {
            "id": number, "item_name": f"item {number}", "description": self._extra(), "initial_bid": least,
            "reserve": least + self._below(1000), "date_time": _text(at),
            "expires": _text(at + (soon + self._below(late - soon)) * self.between),
            "seller": self._person(), "category": self._one_of(CATEGORIES), "extra": self._extra(),
        }  # fmt: skip

    def bid(self, at: datetime) -> dict[str, Any]:
        late = timedelta(milliseconds=self._below(LATE_MAX_MS) if self.dice.random() < 0.2 else 0)
        folders = f"{self._one_of(FOLDERS)}/{self._one_of(FOLDERS)}/{self._one_of(FOLDERS)}"
        known = f"?page=2&channel_id={self._below(100)}" if self.dice.random() < 0.5 else ""
        return {
            "auction": FIRST_AUCTION + self._one_in(2, self.auctions, AUCTIONS_OPEN), "bidder": self._person(),
            "price": 1 + int(10 ** (self.dice.random() * 8)), "channel": self._one_of(CHANNELS),
            "url": f"https://bids.example.com/{folders}/item.htm{known}",
            "date_time": _text(at - late), "extra": self._extra(),
        }  # fmt: skip

    def _person(self) -> int:
        return FIRST_PERSON + self._one_in(4, self.people, PEOPLE_ACTIVE)

    def _one_in(self, ratio: int, count: int, last: int) -> int:
        """The one that most events are about, or, one time of `ratio`, one of the `last`."""
        if self._below(ratio):
            return (count - 1) // EVERY * EVERY
        return count - 1 - self._below(min(count, last))

    def _extra(self) -> str:
        return f"{self.dice.getrandbits(4 * (5 + self._below(10))):x}"

    def _one_of(self, known: Sequence[Any]) -> Any:
        return known[int(self.dice.random() * len(known))]

    def _below(self, bound: int) -> int:
        return int(self.dice.random() * bound)


def events(seed: int, count: int, between: timedelta = BETWEEN_EVENTS) -> Iterator[tuple[str, dict[str, Any]]]:
    """The topic of each event, and its row. The same for the same seed."""
    house = House(random.Random(seed), between)
    for number in range(count):
        at = BEGIN + number * between
        match number % 50:
            case 0:
                yield PERSON, house.person(at)
            case 1 | 2 | 3:
                yield AUCTION, house.auction(at)
            case _:
                yield BID, house.bid(at)


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
