"""The app whose start and latency are measured, run as users run theirs."""

import headwater as hw
from benchmarks.flow.orders import SCHEMA
from headwater.flow.declare.stream import Table

app = hw.App("bench")
orders = app.stream("orders", SCHEMA, time="at")


@app.view(key="user_id")
def counts() -> Table:
    """Orders of each user."""
    return orders.by("user_id").count()
