"""The app that most tests of jobs run, and rows for it."""

import json
from collections import defaultdict
from decimal import Decimal
from random import Random
from typing import Any

import headwater as hw

SCHEMA = "id string, user_id long, amount decimal(12,2), currency string, at timestamp"


def shop() -> hw.App:
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", SCHEMA, time="at")
    paid = orders.where("amount >= 10")

    @app.view(key="currency")
    def revenue() -> Any:
        return paid.by("currency").agg(
            "count(*) as orders", "sum(amount) as revenue", "max(at) as newest", "first(id) as first_id"
        )

    @app.view(key="user_id")
    def last_order() -> Any:
        return orders.latest("user_id")

    @app.topic("big-orders", key="id")
    def big_orders() -> Any:
        return orders.where("amount > 90").select("id", "amount")

    return app


def order(
    number: int, *, user: int = 1, amount: str = "20.00", currency: str = "EUR", minute: int | None = None
) -> dict[str, Any]:
    at = f"2026-01-01T{(minute or number) // 60 % 24:02d}:{(minute or number) % 60:02d}:00Z"
    return {"id": f"o{number}", "user_id": user, "amount": Decimal(amount), "currency": currency, "at": at}


def orders(count: int, seed: int = 1) -> list[dict[str, Any]]:
    random = Random(seed)
    return [
        order(
            number,
            user=random.randrange(10),
            amount=f"{random.randrange(10_000) / 100:.2f}",
            currency=random.choice(["EUR", "USD", "SEK"]),
        )
        for number in range(count)
    ]


def revenue_of(rows: list[dict[str, Any]]) -> dict[str, tuple[int, Decimal]]:
    """Plain Python's idea of the view revenue: number and sum of orders per currency."""
    found: dict[str, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for row in rows:
        if row["amount"] >= 10:
            count, total = found[row["currency"]]
            found[row["currency"]] = count + 1, total + row["amount"]
    return dict(found)


def text(row: dict[str, Any]) -> bytes:
    return json.dumps(row, default=str).encode()
