"""Generates events of the shop and their arrival times: customers and sensors, deterministic for a seed (pure).

Things happen in one order and arrive in another. Most of what is sent arrives within half a second; some of it takes a
few seconds, some waits in a telephone without a signal until all other events have arrived. A little is broken.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

from headwater.demo.catalogue import PRODUCTS, QUERIES, USERS, url_of

TOPICS = {"searches": 2, "clicks": 2, "orders": 2, "payments": 1, "readings": 1}
"""Partitions of each."""

VISITS_PER_SECOND = 8.0
RESULTS = 5
CLICKS_BY_RANK = (0.34, 0.2, 0.12, 0.07, 0.04)

# How many of a thousand take how long, in milliseconds.
WAYS = ((900, 20, 450), (88, 450, 3_500), (12, 9_000, 40_000))
BROKEN_PER_THOUSAND = 4

READING_EVERY_MS = 1_000
CLOCKS_MS = {"cellar": 0, "dairy": 140_000, "fish": 0, "fruit": -3_600_000}
"""By how much the clock of each room's sensor is wrong."""
WARM_ROOM, DOOR_EVERY_MS, DOOR_OPEN_MS = "dairy", 40_000, 14_000


class Event(NamedTuple):
    arrives_ms: int
    number: int
    topic: str
    key: str
    value: bytes


class Customers:
    """Ask `until` again and again, with a time that goes forward."""

    def __init__(self, random: Random, start_ms: int) -> None:
        self._random, self._number = random, 0
        # Dice of their own: the customers' actions must not depend on how often the sensors are read.
        self._weather, self._reading = Random(random.getrandbits(64)), 0
        self._under_way: list[Event] = []
        self._next_visit_ms, self._next_reading_ms = float(start_ms), start_ms
        self._start_ms = start_ms

    def until(self, now_ms: int) -> Iterator[Event]:
        """Returns the events that arrive up to a time and were not returned yet, in arrival order.

        >>> [event.topic for event in Customers(Random(1), 0).until(1_000)][0]
        'searches'
        """
        while self._next_visit_ms <= now_ms:
            self._visit(self._next_visit_ms)
            self._next_visit_ms += 1000 * self._random.expovariate(VISITS_PER_SECOND)
        while self._next_reading_ms <= now_ms:
            self._read_sensors(self._next_reading_ms)
            self._next_reading_ms += READING_EVERY_MS
        while self._under_way and self._under_way[0].arrives_ms <= now_ms:
            yield heappop(self._under_way)

    def _visit(self, at_ms: float) -> None:
        user = self._random.choice(USERS).id
        while True:
            self._search(user, at_ms)
            if self._random.random() > 0.45:
                return
            at_ms += self._random.uniform(3_000, 11_000)

    def _search(self, user: int, at_ms: float) -> None:
        query = self._favourite(QUERIES)
        fitting = [one for one in PRODUCTS if query in (one.category, one.title)]
        found = self._random.sample(fitting, RESULTS) if len(fitting) > RESULTS else fitting
        search = f"s{self._number}"
        ms = round(self._random.lognormvariate(3.4, 0.5), 1)
        row = {"id": search, "user_id": user, "query": query, "results": [url_of(one) for one in found], "ms": ms}
        self._tell("searches", user, at_ms, row)
        for product, likely in zip(found, CLICKS_BY_RANK, strict=False):
            if self._random.random() < likely:
                self._click(search, user, product.id, at_ms + self._random.uniform(900, 12_000))

    def _click(self, search: str, user: int, product: int, at_ms: float) -> None:
        slow = 4.0 if self._random.random() < 0.02 else 1.0
        ms = round(self._random.lognormvariate(3.9, 0.6) * slow, 1)
        row = {"search_id": search, "user_id": user, "url": url_of(PRODUCTS[product - 1]), "ms": ms}
        self._tell("clicks", user, at_ms, row)
        if self._random.random() < 0.35:
            self._order(user, product, at_ms + self._random.uniform(1_500, 6_000))

    def _order(self, user: int, product: int, at_ms: float) -> None:
        order, pieces = f"o{self._number}", 1 + int(self._random.random() ** 3 * 4)
        amount = float(PRODUCTS[product - 1].price) * pieces
        row = {"id": order, "user_id": user, "product_id": product, "pieces": pieces, "amount": round(amount, 2)}
        self._tell("orders", user, at_ms, row)
        if self._random.random() < 0.94:
            method = self._favourite(("card", "transfer", "voucher"))
            paid_ms = at_ms + self._random.uniform(700, 8_000)
            self._tell("payments", user, paid_ms, {"order_id": order, "method": method, "amount": row["amount"]})

    def _read_sensors(self, at_ms: int) -> None:
        for room, wrong_ms in CLOCKS_MS.items():
            celsius = 3.5 + self._weather.gauss(0, 0.25)
            open_ms = (at_ms - self._start_ms) % DOOR_EVERY_MS - (DOOR_EVERY_MS - DOOR_OPEN_MS) / 2
            if room == WARM_ROOM and 0 <= open_ms < DOOR_OPEN_MS:
                celsius += 8 * min(1.0, open_ms / 3_000)
            sent_ms = at_ms + self._weather.uniform(5, 60)
            row = {"sensor": room, "celsius": round(celsius, 2), "occurred_at": _iso(at_ms + wrong_ms)}
            value = json.dumps({**row, "sent_at": _iso(sent_ms + wrong_ms)}).encode()
            self._reading += 1
            heappush(self._under_way, Event(round(sent_ms + 20), self._reading, "readings", room, value))

    def _tell(self, topic: str, user: int, at_ms: float, row: Mapping[str, Any]) -> None:
        ((_, least_ms, most_ms),) = self._random.choices(WAYS, [share for share, _, _ in WAYS])
        arrives_ms = at_ms + self._random.uniform(least_ms, most_ms)
        value = json.dumps({**row, "at": _iso(at_ms)}).encode()
        if self._random.uniform(0, 1000) < BROKEN_PER_THOUSAND:
            value = value[: len(value) // 2]  # a connection that broke off, and a sender that did not check
        self._number += 1
        heappush(self._under_way, Event(round(arrives_ms), self._number, topic, str(user), value))

    def _favourite(self, choices: tuple[str, ...]) -> str:
        """The first most often."""
        return choices[int(self._random.random() ** 2 * len(choices))]


def _iso(ms: float) -> str:
    return datetime.fromtimestamp(round(ms) / 1000, UTC).isoformat(timespec="milliseconds")
