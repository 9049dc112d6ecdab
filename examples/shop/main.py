"""What a shop wants to know of its orders. Run it with: headwater run examples/shop/main.py"""

from pyspark.sql import functions as f

import headwater as hw
from headwater.flow.declare.stream import Stream, Table

app = hw.App("shop")

orders = app.stream(
    "orders",
    "id long, customer string, amount decimal(12,2), currency string, items array<string>, at timestamp",
    time="at",
)
paid = orders.where("amount > 0")


@app.view(key="currency")
def revenue() -> Table:
    """Orders and revenue per currency."""
    return paid.by("currency").agg(f.count("*").alias("orders"), f.sum("amount").alias("revenue"))


@app.view(key="customer")
def last_order() -> Table:
    """The newest order of each customer, by its own time."""
    return paid.latest("customer")


@app.view(key="item")
def best_sellers() -> Table:
    """What is bought at least twice."""
    return paid.explode("items", "item").by("item").count().where("count > 1")


@app.topic("large-orders", key="id")
def large_orders() -> Stream:
    """For somebody to call the customer."""
    return paid.where("amount >= 100").select("id", "customer", "amount")
