"""An app whose code changes so that its state is carried over, and a driver of it that dies at a chosen moment.

python -m tests.crash.flow.migrating DATA ADDRESS PLACE BEFORE|AFTER NTH
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.flow.session import start_session
from tests.crash.flow.driver import SHORT_LIVED
from tests.crash.flow.moments import Moment, arm
from tests.flow.job.shop import SCHEMA

KEYS_PER_SHARE = 3
"""So that a view is written in several pieces."""


def app(*, changed: bool) -> hw.App:
    """Two views of one table. The change renames and drops aggregates, and is one behind them too."""
    app = hw.App("shop", shards=2)
    orders = app.stream("orders", SCHEMA, time="at")
    if changed:
        table = orders.by("user_id").agg("count(*) as number", "sum(amount) as spent")
        app.view(key="user_id", name="users")(lambda: table.with_columns(mean="spent / number"))
    else:
        table = orders.by("user_id").agg("sum(amount) as amount", "count(*) as orders", "max(at) as newest")
        app.view(key="user_id", name="users")(lambda: table)
    column = "number" if changed else "orders"
    app.view(key="user_id", name="often")(lambda: table.where(f"{column} > 5"))
    return app


def expected(rows: list[dict[str, Any]], *, changed: bool) -> dict[str, list[tuple[Any, ...]]]:
    """Plain Python's idea of both views, without the columns that are computed from others."""
    users: dict[int, list[Any]] = {}
    for row in rows:
        kept = users.setdefault(row["user_id"], [0, 0])
        kept[0] += 1
        kept[1] += row["amount"]
    found = [(user, number, spent) for user, (number, spent) in sorted(users.items())]
    return {"users": found, "often": [one for one in found if one[1] > 5]}


def main() -> None:
    data, address, place, when, nth = sys.argv[1:]
    session = start_session(
        "crash tests", Path(data).parent / "spark", master="local[2]",
        settings={**SHORT_LIVED, "spark.local.dir": str(Path(data).parent / "spark" / "local")},
    )  # fmt: skip
    arm(Moment(place, after=when == "after"), int(nth), lambda: os.kill(os.getpid(), signal.SIGKILL))
    settings = RunSettings(Path(data), address, once=True, rows_per_batch=KEYS_PER_SHARE)
    running = RunningApp(app(changed=True), session, settings)
    running.start()
    running.wait()


if __name__ == "__main__":
    main()
