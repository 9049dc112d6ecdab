"""The app that is killed: outputs of every kind that keeps what it is given, and rows of every kind that go astray."""

from pathlib import Path
from typing import Any

import headwater as hw
from tests.crash.flow.moments import SHOP

APP, ORDERS, PARTITIONS, CUSTOMERS, CITIES = SHOP, "orders", 2, "customers", "cities"
BIG, TOTALS, ONCE, CUSTOMER_LOG, FILES = "big-orders", "totals", "orders-once", "customer-log", "files"
HALF_HOURS, VISITS = "half_hours", "visits"
FOLLOWED, PAIRS, TRIPLES, NAMED = "followed", "followed-pairs", "followed-triples", "named"
NEIGHBOURS, GOVERNED = "neighbours", "governed"
CHANGELOGS = (TOTALS, VISITS, CUSTOMER_LOG, NEIGHBOURS)
SHARDS = 2
ACCOUNTS, LATE = "shop.accounts", "shop.orders.late"
OUTPUTS_OF_ORDERS = ("revenue", "last_order", "cheap", TOTALS, BIG, ONCE, FILES, HALF_HOURS, VISITS)
OUTPUTS_OF_CUSTOMERS = ("customer", CUSTOMER_LOG, NEIGHBOURS)
VIEWS = ("revenue", "last_order", "cheap", HALF_HOURS, "customer", FOLLOWED, NAMED, GOVERNED)
SCHEMA = "id string, user_id long, amount decimal(12,2), currency string, at timestamp"
LEAST = (10, 30, 50)
"""What an order must be worth to count as revenue; another number is a change of code."""
FIRST = 2
LATENESS_MINUTES, WITHIN_MINUTES = 40, 10
WINDOW_MINUTES, GAP_MINUTES, CORRECTED_MINUTES, FOLLOWED_MINUTES = 30, 20, 60, 20


def declare(store: str, files: Path, *, least: int = LEAST[0], customers: bool = True) -> hw.App:
    """Jobs of orders, and only if wanted of customers, of both, and of customers and cities: those of two topics join
    what they read, and nothing else. `store` is a database of its own, `files` a folder."""
    app = hw.App(APP, shards=SHARDS)
    orders = declare_orders(app, store, files, least)
    if customers:
        declare_joins(app, orders, declare_customers(app))
    return app


def declare_orders(app: hw.App, store: str, files: Path, least: int) -> Any:
    orders = app.stream(ORDERS, SCHEMA, time="at", lateness=f"{LATENESS_MINUTES}m")
    newest = orders.latest("user_id")

    @app.view(key="currency")
    def revenue() -> Any:
        return orders.where(f"amount >= {least}").by("currency").agg(
            "count(*) as orders", "sum(amount) as revenue", "max(at) as newest", "first(id) as first_id"
        )  # fmt: skip

    @app.view(key="user_id", store=store)
    def last_order() -> Any:
        return newest

    @app.view(key="user_id", store=store)
    def cheap() -> Any:
        return newest.where("amount < 50")  # rows come and go

    @app.topic(TOTALS)
    def totals() -> Any:
        return orders.by("user_id").agg("count(*) as orders", "sum(amount) as spent")

    @app.topic(BIG, key="id")
    def big_orders() -> Any:
        return orders.where("amount > 60").select("id", "amount")

    @app.sink(hw.sinks.Parquet(str(files)), name=FILES)
    def big_files() -> Any:
        return orders.where("amount > 60").select("id", "amount")

    @app.topic(ONCE, key="id")
    def orders_once() -> Any:
        return orders.dedupe("id", within=f"{WITHIN_MINUTES}m").select("id", "amount")

    @app.view(key=["currency", "window"], name=HALF_HOURS)
    def half_hours() -> Any:
        cut = orders.window(hw.tumbling(f"{WINDOW_MINUTES}m")).by("currency")
        return cut.agg("count(*) as orders", "sum(amount) as revenue", emit="final", name=HALF_HOURS)

    @app.topic(VISITS)
    def visits() -> Any:
        cut = orders.window(hw.session(f"{GAP_MINUTES}m")).by("user_id")
        return cut.agg("count(*) as orders", "max(amount) as most", corrections=f"{CORRECTED_MINUTES}m", name=VISITS)

    return orders


def declare_joins(app: hw.App, orders: Any, customers: Any) -> None:
    """Windows behind joins of orders with others that follow them, and behind one with customers as they were.

    Joins one behind the other on the same column are done by one task.
    """

    @app.view(key=["currency", "window"], name=FOLLOWED)
    def followed() -> Any:
        soon = ("1s", f"{FOLLOWED_MINUTES}m")
        pairs = orders.join(orders, on="user_id", between=soon, how="left", prefix="next_", name=PAIRS)
        triples = pairs.join(orders, on="user_id", between=soon, how="left", prefix="other_", name=TRIPLES)
        cut = triples.window(hw.tumbling(f"{WINDOW_MINUTES}m")).by("currency")
        counts = "count(*) as rows", "count(next_id) as followed", "count(other_id) as others"
        return cut.agg(*counts, emit="final", name=FOLLOWED)

    @app.view(key=["name", "window"], name=NAMED)
    def named() -> Any:
        held = orders.join(customers, on="user_id", as_of="at", how="left", name="held")
        cut = held.window(hw.tumbling(f"{WINDOW_MINUTES}m")).by("name")
        return cut.agg("count(*) as orders", "sum(amount) as revenue", emit="final", name=NAMED)


def declare_customers(app: hw.App) -> Any:
    table = app.table(CUSTOMERS, "user_id long, name string, city string", key="user_id", versions="30 days")

    @app.view(key="user_id")
    def customer() -> Any:
        return table

    @app.topic(CUSTOMER_LOG)
    def customer_log() -> Any:
        return table

    @app.topic(NEIGHBOURS)
    def neighbours() -> Any:
        """Who lives in one city, and the first two that do. One task does both joins, if no city is split."""
        pairs = table.join(table, on="city", prefix="other_", name="pairs")
        first = table.select("user_id", "city").newest("city", order="user_id", limit=FIRST, into="first", name="first")
        return pairs.join(first, on="city", name=NEIGHBOURS)

    @app.view(key="user_id", name=GOVERNED)
    def governed() -> Any:
        return table.join(app.table(CITIES, "city string, mayor string", key="city"), on="city", name=GOVERNED)

    return table
