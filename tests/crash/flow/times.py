"""The second app that is killed: the kinds of windows and operators that the shop does not have, over its topics."""

from typing import Any

import headwater as hw
from headwater.flow.declare.topology.naming import accounts_topic, late_topic
from headwater.flow.operators.windows.kinds.kept import kept_for
from tests.crash.flow.moments import TIMES
from tests.crash.flow.shop import CUSTOMERS, LATENESS_MINUTES, ORDERS, SCHEMA, SHARDS

APP = TIMES
DAYS, HOURS, TRENDS, RECENT, FIVES, CENTRES = "days", "hours", "trends", "recent", "fives", "centres"
LATELY, KEEP, RISES = "lately", "20 minutes", "rises"
HISTORY, SERVED = "customer_history", "served"
BOTH = "customers+orders"
ACCOUNTS, LATE = accounts_topic(APP), late_topic(APP, ORDERS)
CHANGELOGS = (RECENT,)
OUTPUTS_OF_ORDERS = (DAYS, TRENDS, RECENT, FIVES, LATELY, RISES, CENTRES)
ZONE, K, WAIT_MINUTES = "Europe/Berlin", 2, 20
COMPARED = {
    "rate": hw.rate("orders", per="1 minute"),
    "average": hw.rolling("orders", 3),
    "change": hw.change("orders"),
    "ratio": hw.ratio("orders", "1 hour"),
    "odd": hw.anomaly("orders", season="20 minutes", over=4, deviations=1, least=2),
}
WINDOWS = {
    DAYS: hw.calendar("day", zone=ZONE),
    HOURS: hw.hopping("1 hour", every="20 minutes"),
    RECENT: hw.sliding("15 minutes"),
    FIVES: hw.count_window(5),
    LATELY: kept_for(KEEP),
    f"{CENTRES}-windows": hw.tumbling("30 minutes"),
}
"""By operator."""


def declare(store: str) -> hw.App:
    """Jobs of orders, of customers, and of both. `store` is a database of its own."""
    app = hw.App(APP, shards=SHARDS)
    orders = app.stream(ORDERS, SCHEMA, time="at", lateness=f"{LATENESS_MINUTES}m")
    declare_windows(app, orders, store)
    customers = app.table(CUSTOMERS, "user_id long, name string, city string", key="user_id")

    @app.view(key=["user_id", "valid_from"], name=HISTORY)
    def history() -> Any:
        return customers.history(name=HISTORY)

    @app.topic(SERVED, key="id")
    def served() -> Any:
        return orders.join(customers, on="user_id", how="left", wait=f"{WAIT_MINUTES}m", name=SERVED)

    return app


def declare_windows(app: hw.App, orders: Any, store: str) -> None:
    counted = "count(*) as orders", "sum(amount) as revenue"

    def cut(name: str) -> Any:
        return orders.window(WINDOWS[name]).by("user_id")

    @app.view(key=["user_id", "window"], name=DAYS)
    def days() -> Any:
        return cut(DAYS).agg(*counted, name=DAYS)

    @app.view(key=["user_id", "window"], name=TRENDS, store=store)
    def trends() -> Any:
        return cut(HOURS).agg("count(*) as orders", name=HOURS).compare(name=TRENDS, **COMPARED)

    @app.topic(RECENT)
    def recent() -> Any:
        return cut(RECENT).agg(*counted, emit="final", name=RECENT)

    @app.view(key=["user_id", "window"], name=FIVES)
    def fives() -> Any:
        return cut(FIVES).agg(*counted, emit="final", name=FIVES)

    @app.view(key="user_id", name=LATELY)
    def lately() -> Any:
        return orders.by("user_id").agg(*counted, keep=KEEP, name=LATELY)

    @app.view(key="match_id", name=RISES)
    def rises() -> Any:
        found = orders.match(
            by="user_id", order="at", within="30 minutes", pattern="low higher+",
            define={"low": "amount < 100", "higher": "amount > prev(amount)"},
            measures={"first_id": "low.id", "steps": "count(higher.*)", "most": "max(higher.amount)"}, name=RISES,
        )  # fmt: skip
        return found.latest("match_id", name=f"{RISES}-newest")

    @app.view(key=["user_id", "cluster"], name=CENTRES)
    def centres() -> Any:
        return cut(f"{CENTRES}-windows").kmeans(["amount"], K, half_life="2 hours", name=CENTRES)
