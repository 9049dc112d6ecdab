"""Events of an auction house, from a seed: people who register, auctions that they open, and bids on these.

Of fifty events one is a person, three are auctions and the others bids. They come in the order of their times, but for
some bids, which come up to two seconds late.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 3, 1, 11, 59, tzinfo=UTC)
BETWEEN_EVENTS = timedelta(milliseconds=150)
LATE_MAX_MS = 2000
STATES = ("OR", "ID", "CA", "WA", "NV", "AZ")
CITIES = ("Bend", "Boise", "Fresno", "Seattle", "Reno", "Tucson")
NAMES = ("Ada", "Bela", "Cem", "Dora", "Eino", "Fay", "Gus", "Hana")
CHANNELS = ("Apple", "Google", "Facebook", "Baidu", "channel-17", "channel-230")
CATEGORIES = (10, 11, 12, 13, 14)
PERSON, AUCTION, BID = "person", "auction", "bid"


@dataclass
class House:
    """What has been made so far: new events refer to it."""

    dice: random.Random
    people: list[int] = field(default_factory=list)
    auctions: list[int] = field(default_factory=list)

    def person(self, at: datetime) -> dict[str, Any]:
        number = 1000 + len(self.people)
        self.people.append(number)
        name = self.dice.choice(NAMES)
        return {
            "id": number, "name": name, "email": f"{name.lower()}{number}@example.com",
            "city": self.dice.choice(CITIES), "state": self.dice.choice(STATES), "date_time": _text(at),
            "extra": self._extra(),
        }  # fmt: skip

    def auction(self, at: datetime) -> dict[str, Any]:
        number = 1100 + len(self.auctions)
        self.auctions.append(number)
        least = self.dice.randrange(1, 1000)
        return {
            "id": number, "item_name": f"item {number}", "description": self._extra(), "initial_bid": least,
            "reserve": least + self.dice.randrange(1000), "date_time": _text(at),
            "expires": _text(at + timedelta(seconds=self.dice.randrange(10, 60))),
            "seller": self.dice.choice(self.people[-8:]), "category": self.dice.choice(CATEGORIES),
            "extra": self._extra(),
        }  # fmt: skip

    def bid(self, at: datetime) -> dict[str, Any]:
        """Most bids are on auctions that are new, and half of these on one."""
        late = timedelta(milliseconds=self.dice.randrange(LATE_MAX_MS) if self.dice.random() < 0.2 else 0)
        newest = self.auctions[-1] if self.dice.random() < 0.5 else self.dice.choice(self.auctions[-20:])
        channel = self.dice.choice(CHANNELS)
        folders = "/".join(self.dice.choice(("lamps", "chairs", "maps", "coins")) for _ in range(3))
        known = f"?page=2&channel_id={self.dice.randrange(100)}" if self.dice.random() < 0.5 else ""
        return {
            "auction": newest, "bidder": self.dice.choice(self.people),
            "price": 1 + int(10 ** (self.dice.random() * 8)), "channel": channel, "url": f"https://bids.example.com/{folders}/item.htm{known}",
            "date_time": _text(at - late), "extra": self._extra(),
        }  # fmt: skip

    def _extra(self) -> str:
        return "".join(self.dice.choice("abcdefgh") for _ in range(self.dice.randrange(5, 15)))


def events(seed: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The topic of each event, and its row. The same for the same seed."""
    house = House(random.Random(seed))
    for number in range(count):
        at = BEGIN + number * BETWEEN_EVENTS
        match number % 50:
            case 0:
                yield PERSON, house.person(at)
            case 1 | 2 | 3:
                yield AUCTION, house.auction(at)
            case _:
                yield BID, house.bid(at)


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
