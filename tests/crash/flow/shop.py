"""The app that is killed, what it is fed, and in plain Python what must come of it."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import headwater as hw

APP, ORDERS, PARTITIONS = "shop", "orders", 2
BIG, TOTALS, ACCOUNTS, POISONED = "big-orders", "totals", "shop.accounts", "shop.orders.poisoned"
OUTPUTS = ("revenue", "last_order", TOTALS, BIG)
VIEWS = ("revenue", "last_order")
SCHEMA = "id string, user_id long, amount decimal(12,2), currency string, at timestamp"
LEAST = (10, 30, 50)
"""What an order must be worth to count as revenue; another number is a change of code."""
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = (b"", b"{", b'{"amount": "many"}', b"nonsense")


def declare(store: str, *, least: int = LEAST[0]) -> hw.App:
    """Outputs of every kind that keeps what it is given: two stores, a changelog and a stream."""
    app = hw.App(APP, shards=2)
    orders = app.stream(ORDERS, SCHEMA, time="at")

    @app.view(key="currency")
    def revenue() -> Any:
        return orders.where(f"amount >= {least}").by("currency").agg(
            "count(*) as orders", "sum(amount) as revenue", "max(at) as newest", "first(id) as first_id"
        )  # fmt: skip

    @app.view(key="user_id", store=store)
    def last_order() -> Any:
        return orders.latest("user_id")

    @app.topic(TOTALS)
    def totals() -> Any:
        return orders.by("user_id").agg("count(*) as orders", "sum(amount) as spent")

    @app.topic(BIG, key="id")
    def big_orders() -> Any:
        return orders.where("amount > 60").select("id", "amount")

    return app


class Fed(NamedTuple):
    """A record of the topic. Without an order it is one that cannot be read."""

    partition: int
    offset: int
    value: bytes
    order: dict[str, Any] | None

    @property
    def at(self) -> tuple[datetime, int, int]:
        assert self.order is not None
        return self.order["at"], self.partition, self.offset


@dataclass
class Feed:
    """All that was ever written to the topic; the same for the same seed."""

    random: Random
    fed: list[Fed] = field(default_factory=list)
    _ends: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def more(self, rows: int) -> list[Fed]:
        fresh = [self._next() for _ in range(rows)]
        self.fed += fresh
        return fresh

    def _next(self) -> Fed:
        partition = self.random.randrange(PARTITIONS)
        offset = self._ends[partition]
        self._ends[partition] += 1
        if self.random.random() < 0.05:
            return Fed(partition, offset, self.random.choice(BROKEN), None)
        order = self._order(sum(self._ends))
        text = {**order, "amount": str(order["amount"]), "at": order["at"].isoformat()}
        return Fed(partition, offset, json.dumps(text).encode(), order)

    def _order(self, number: int) -> dict[str, Any]:
        return {
            "id": f"o{number}",
            "user_id": self.random.randrange(12),
            "amount": Decimal(self.random.randrange(10_000)) / 100,
            "currency": self.random.choice(["EUR", "USD", "SEK"]),
            "at": BEGINNING + timedelta(minutes=number + self.random.randrange(30)),
        }


def good(fed: Iterable[Fed]) -> list[Fed]:
    return [one for one in fed if one.order is not None]


def revenue_of(fed: Iterable[Fed], least: int) -> list[dict[str, Any]]:
    groups: dict[str, list[Fed]] = defaultdict(list)
    for one in good(fed):
        if one.order and one.order["amount"] >= least:
            groups[one.order["currency"]].append(one)
    return [
        {
            "currency": currency,
            "orders": len(group),
            "revenue": sum(row["amount"] for row in orders_in(group)),
            "newest": max(row["at"] for row in orders_in(group)),
            "first_id": orders_in([min(group, key=lambda one: one.at)])[0]["id"],
        }
        for currency, group in sorted(groups.items())
    ]


def last_orders_of(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    newest: dict[int, dict[str, Any]] = {}
    for row in orders_in(sorted(good(fed), key=lambda one: one.at)):
        newest[row["user_id"]] = row
    return [row for _, row in sorted(newest.items())]


def totals_of(fed: Iterable[Fed]) -> dict[int, tuple[int, Decimal]]:
    totals: dict[int, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for row in orders_in(fed):
        count, spent = totals[row["user_id"]]
        totals[row["user_id"]] = count + 1, spent + row["amount"]
    return dict(totals)


def big_of(fed: Iterable[Fed]) -> list[str]:
    return [row["id"] for row in orders_in(fed) if row["amount"] > 60]


def orders_in(fed: Iterable[Fed]) -> list[dict[str, Any]]:
    return [one.order for one in fed if one.order is not None]
