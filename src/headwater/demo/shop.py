"""The shop of `headwater demo`: every flow of it, to read and to copy. Run one like it with: headwater run shop.py

Five streams of facts, two tables that are captured from PostgreSQL, what people want to know of them, and an alert.
Nothing here is special to the demo but the address of its database.
"""

import os
from typing import cast

import headwater as hw
from headwater.flow.declare.stream import Stream, Table

DATABASE = os.environ.get("HEADWATER_DEMO_DATABASE", "postgresql://postgres@127.0.0.1:5432/shop")

app = hw.App("shop")

# -- what comes in -----------------------------------------------------------------------------------------------------

# What people do on the site. `lateness`: how long a window waits for what is still under way.
searches = app.stream(
    "searches",
    "id string, user_id long, query string, results array<string>, ms double, at timestamp",
    time="at",
    lateness="4 seconds",
)
clicks = app.stream(
    "clicks",
    "search_id string, user_id long, url string, ms double, at timestamp",
    time="at",
    lateness="4 seconds",
)
orders = app.stream(
    "orders",
    "id string, user_id long, product_id long, pieces int, amount decimal(12,2), at timestamp",
    time="at",
    lateness="4 seconds",
)
payments = app.stream(
    "payments",
    "order_id string, method string, amount decimal(12,2), at timestamp",
    time="at",
    lateness="4 seconds",
)

# Sensors of the cold rooms have clocks that are never set: the time of an event is computed from three of them.
readings = app.stream(
    "readings",
    "sensor string, celsius double, occurred_at timestamp, sent_at timestamp",
    time=hw.device_time(occurred="occurred_at", sent="sent_at"),
    lateness="4 seconds",
)

# Tables of the shop's database: their rows, then every change; versions are kept, so that the past can be asked.
users = app.table(
    "users",
    "id long, name string, country string",
    key="id",
    versions="1 hour",
    capture=hw.capture.postgres(DATABASE, table="public.users", name="shop"),
)
products = app.table(
    "products",
    "id long, title string, category string, price decimal(12,2)",
    key="id",
    versions="1 hour",
    capture=hw.capture.postgres(DATABASE, table="public.products", name="shop"),
)

visits = searches.select("user_id", "'search' as kind", "query", "ms", "at").union(
    clicks.select("user_id", "'click' as kind", "cast(null as string) as query", "ms", "at")
)


# -- the site ----------------------------------------------------------------------------------------------------------


@app.view(key=["url", "window"])
def click_through() -> Table:
    """Per URL and minute: how often it was shown in the results of a search, and clicked within twenty seconds."""
    shown = searches.explode("results", "url").select("id as search_id", "url", "at")
    followed = cast(
        Stream, shown.join(clicks, on=["search_id", "url"], within="20 seconds", how="left", prefix="click_")
    )
    counts = followed.window(hw.tumbling("1 minute")).by("url").agg("count(*) as shown", "count(click_at) as clicked")
    return counts.with_columns(rate="round(clicked / shown, 3)")


@app.view(key=["user_id", "window"])
def sessions() -> Table:
    """Visits of a user: searches and clicks with at most fifteen seconds between them."""
    return (
        visits.window(hw.session("15 seconds"))
        .by("user_id")
        .agg("count(*) as steps", "count_if(kind = 'click') as clicks")
    )


@app.view(key="window")
def trending() -> Table:
    """What is searched for most, every half minute."""
    return visits.window(hw.tumbling("30 seconds")).agg(
        "count(query) as searches", hw.top_k("query", 5).alias("queries")
    )


@app.view(key=["kind", "window"])
def speed() -> Table:
    """How fast the site answers: half of all requests, and all but one in twenty or a hundred."""
    return (
        visits.window(hw.tumbling("10 seconds"))
        .by("kind")
        .agg(
            "count(*) as requests",
            hw.percentile("ms", 0.5).alias("p50"),
            hw.percentile("ms", 0.95).alias("p95"),
            hw.percentile("ms", 0.99).alias("p99"),
        )
    )


# -- the money ---------------------------------------------------------------------------------------------------------


@app.view(key="window")
def revenue() -> Table:
    """Money per minute: while it lasts, when it is over (`final`), and corrected by whatever comes after that."""
    nothing = "cast(null as decimal(12,2))"
    money = orders.select("amount as ordered", f"{nothing} as paid", "at").union(
        payments.select(f"{nothing} as ordered", "amount as paid", "at")
    )
    return money.window(hw.tumbling("1 minute")).agg(
        "count(ordered) as orders", "sum(ordered) as ordered", "sum(paid) as paid", corrections="3 minutes", early=True
    )


@app.view(key="id")
def unpaid() -> Table:
    """Orders that were not paid within fifteen seconds."""
    answered = orders.join(
        payments, on=orders.id == payments.order_id, within="15 seconds", how="left", prefix="payment_"
    )
    return answered.where("payment_at is null").select("id", "user_id", "amount", "at").latest("id")


# Orders with what the product cost, and where the customer lived, when the order was made. Two outputs share it.
goods, buyers = products.select("id", "title", "category", "price"), users.select("id", "country")
priced = cast(Stream, orders.join(goods, on=orders.product_id == goods.id, as_of="at", how="left"))
complete = cast(Stream, priced.join(buyers, on=priced.user_id == buyers.id, as_of="at", how="left"))


@app.topic("orders-priced", key="id")
def orders_priced() -> Stream:
    """For the warehouse: every order, complete, once."""
    return complete


@app.view(key=["country", "category"])
def sales() -> Table:
    """What is sold where, at the prices of the time."""
    return complete.by("country", "category").agg("sum(pieces) as pieces", "sum(pieces * price) as revenue")


# -- the cold rooms ----------------------------------------------------------------------------------------------------


@app.view(key=["sensor", "window"])
def rooms() -> Table:
    """How warm the cold rooms are, every five seconds."""
    return (
        readings.window(hw.tumbling("5 seconds"))
        .by("sensor")
        .agg("count(*) as readings", "avg(celsius) as celsius", "max(celsius) as warmest")
    )


# -- alerts ------------------------------------------------------------------------------------------------------------

app.alert(
    "too_warm",
    on=rooms,
    when="celsius > 6",
    notify=[hw.notify.topic("warnings")],  # or a webhook, or e-mail
    about="A cold room is not cold: its door may be open.",
)
