"""What the app is fed: orders, good, broken, repeated or late; customers and cities that come, change and go."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

from tests.crash.flow.shop import CITIES, CUSTOMERS, ORDERS, PARTITIONS

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = (b"", b"{", b"nonsense", b"\xff\xfe")
BROKEN_ORDER = b'{"amount": "many"}'
USERS = 12
HOMES = ("Lund", "Lund", "Lund", "Oslo", "Oslo", "Umeå", "Umeå", "Umeå", "Tampere", "Turku", "Bergen", None)
"""Several in each shard of an app (test_feeding.py), some with many customers and some with few."""
BROKEN_SHARE, REPEATED_SHARE, LATE_SHARE = 0.05, 0.08, 0.04
CUSTOMERS_SHARE, CITIES_SHARE, DELETED_SHARE = 0.25, 0.3, 0.2
MUCH_TOO_LATE = timedelta(hours=3)


class Fed(NamedTuple):
    """A record of a topic. One without a row cannot be read; or, of customers, deletes its key."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    row: dict[str, Any] | None
    time_ms: int

    @property
    def at(self) -> tuple[datetime, int, int]:
        """What puts orders in order."""
        assert self.row is not None
        return self.row["at"], self.partition, self.offset

    @property
    def broken(self) -> bool:
        return self.row is None and (self.topic == ORDERS or self.value is not None)


@dataclass
class Feed:
    """All that was ever written; the same for the same seed."""

    random: Random
    customers: bool = True
    fed: list[Fed] = field(default_factory=list)
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def more(self, rows: int) -> list[Fed]:
        fresh = []
        for _ in range(rows):
            fresh.append(self._next())
            self.fed.append(fresh[-1])
        return fresh

    def _next(self) -> Fed:
        if self.customers and self.random.random() < CUSTOMERS_SHARE:
            return self._city() if self.random.random() < CITIES_SHARE else self._customer()
        partition = self.random.randrange(PARTITIONS)
        if self.random.random() < BROKEN_SHARE:
            return self._record(ORDERS, partition, None, self.random.choice((*BROKEN, BROKEN_ORDER, None)), None)
        order = self._order()
        text = {**order, "amount": str(order["amount"]), "at": order["at"].isoformat()}
        return self._record(ORDERS, partition, None, json.dumps(text).encode(), order)

    def _record(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, row: dict[str, Any] | None
    ) -> Fed:
        offset = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = offset + 1
        time = BEGINNING + timedelta(minutes=len(self.fed))
        return Fed(topic, partition, offset, key, value, row, round(time.timestamp() * 1000))

    def _order(self) -> dict[str, Any]:
        number = len(self.fed)
        recent = [one.row for one in self.fed[-20:] if one.topic == ORDERS and one.row is not None]
        if recent and self.random.random() < REPEATED_SHARE:
            repeated = self.random.choice(recent)
            return {**repeated, "at": repeated["at"] + timedelta(minutes=self.random.choice((0, 5, 15)))}
        late = MUCH_TOO_LATE if self.random.random() < LATE_SHARE else timedelta()
        return {
            "id": f"o{number}",
            "user_id": self.random.randrange(USERS),
            "amount": Decimal(self.random.randrange(10_000)) / 100,
            "currency": self.random.choice(["EUR", "USD", "SEK"]),
            "at": BEGINNING + timedelta(minutes=number + self.random.randrange(30)) - late,
        }

    def _customer(self) -> Fed:
        user = self.random.randrange(USERS)
        key = json.dumps({"user_id": user}).encode()
        if self.random.random() < BROKEN_SHARE:
            return self._record(CUSTOMERS, 0, key, self.random.choice(BROKEN), None)
        if self.random.random() < DELETED_SHARE:
            return self._record(CUSTOMERS, 0, key, None, None)
        city = self.random.choice(HOMES)
        row = {"user_id": user, "name": f"name {len(self.fed)}", "city": city}
        return self._record(CUSTOMERS, 0, key, json.dumps(row).encode(), row)

    def _city(self) -> Fed:
        city = self.random.choice(sorted({home for home in HOMES if home is not None}))
        key = json.dumps({"city": city}).encode()
        if self.random.random() < DELETED_SHARE:
            return self._record(CITIES, 0, key, None, None)
        row = {"city": city, "mayor": f"mayor {len(self.fed)}"}
        return self._record(CITIES, 0, key, json.dumps(row).encode(), row)
