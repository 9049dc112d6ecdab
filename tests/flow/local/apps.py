"""Apps of every operator, over random steps, and random rows for them."""

import random
from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as f

import headwater as hw
from headwater.flow.declare.stream import Stream, Table

Rows = list[Any]
SCHEMA = "id long, user string, amount decimal(12,2), score double, n int, flag boolean, at timestamp"
MINUTES = 240
EACH = 3
"""Views of an app."""

CONDITIONS: list[Callable[[], Any]] = [
    lambda: "amount > 3", lambda: "user is not null and n % 2 = 0", lambda: "user in ('ann', 'bob')",
    lambda: "not flag or amount between 1 and 9.50", lambda: "user like 'a%'", lambda: f.col("n") > 2,
    lambda: f.col("user").isNotNull() & (f.col("amount") >= 1), lambda: f.expr("coalesce(n, 0) < 8"),
    lambda: "at > '2026-03-01 00:30:00'", lambda: f.col("user").isin("ann", "cid"),
]  # fmt: skip
COLUMNS: list[Callable[[], dict[str, Any]]] = [
    lambda: {"twice": "amount * 2"}, lambda: {"user": "upper(user)"}, lambda: {"n": "n + 1"},
    lambda: {"part": "case when n > 4 then 'many' else 'few' end"}, lambda: {"hour": "hour(at)"},
    lambda: {"amount": "amount + n"}, lambda: {"whole": f.col("score") * 2},
    lambda: {"label": f.concat(f.col("user"), f.lit("-"), f.col("n").cast("string"))},
    lambda: {"known": f.coalesce(f.col("n"), f.lit(0))},
    lambda: {"big": f.when(f.col("amount") > 5, "big").otherwise("small")},
]  # fmt: skip
AGGREGATES: list[Callable[[], Any]] = [
    lambda: "count(*) as rows", lambda: "count(n) as known", lambda: "sum(amount) as total",
    lambda: "avg(amount) as mean", lambda: "min(n) as least", lambda: "max(user) as last_user",
    lambda: "count(distinct user) as users", lambda: "sum(n) filter (where flag) as flagged",
    lambda: "first(n) as first_n", lambda: "last(user) as newest_user", lambda: "collect_list(n) as all_n",
    lambda: "count_if(flag) as flags", lambda: "bool_or(flag) as some_flag", lambda: "max_by(user, n) as most",
    lambda: f.sum("n").alias("sum_n"), lambda: f.count("*").alias("n_rows"), lambda: f.max("score").alias("top"),
    lambda: "collect_set(user) as names", lambda: f.avg("n").alias("mean_n"),
]  # fmt: skip
WINDOWS = [
    lambda: hw.tumbling("30 minutes"), lambda: hw.hopping("1 hour", "20 minutes"), lambda: hw.session("7 minutes"),
    lambda: hw.calendar("day", zone="UTC"), lambda: hw.sliding("10 minutes"), lambda: hw.count_window(3),
]  # fmt: skip


def steps(dice: random.Random, stream: Stream) -> Stream:
    """Up to three steps that look at one row."""
    for _ in range(dice.randint(0, 3)):
        if dice.random() < 0.5:
            stream = stream.where(dice.choice(CONDITIONS)())
        else:
            stream = stream.with_columns(**dice.choice(COLUMNS)())
    return stream


def aggregates(dice: random.Random) -> list[Any]:
    return [one() for one in dice.sample(AGGREGATES, dice.randint(1, 4))]


def random_app(seed: int) -> hw.App:
    """The same for the same seed, made again: its columns are of the session that it is made for."""
    app = hw.App("plant")
    orders = app.stream("orders", SCHEMA, time="at", lateness="5 minutes")
    users = app.table("users", "name string, age int, since timestamp", key="name")
    for number, (key, declare) in enumerate(outputs_of(seed)):
        _declare(app, f"out{number}", key, declare, orders, users, seed * 10 + number)
    app.topic("seen")(lambda: steps(random.Random(seed + 7), orders).select("id", "user", "n"))
    app.topic("totals")(lambda: steps(random.Random(seed + 8), orders).by("user").agg("count(*) as rows"))
    return app


def join_app(seed: int) -> hw.App:
    """Every kind of join, after random steps; and an operator after a join. Streams are never idle: on a slow machine
    that would depend on the wall clock."""
    app = hw.App("joins")
    orders = app.stream("orders", SCHEMA, time="at", lateness="5 minutes", idle=None)
    clicks = app.stream("clicks", "user string, url string, at timestamp", time="at", lateness="5 minutes", idle=None)
    users = app.table("users", "name string, age int, since timestamp", key="name")
    rates = app.table("rates", "n int, rate double, at timestamp", key="n", versions="1 day", valid_from="at")

    def some(number: int) -> Stream:
        return steps(random.Random(seed * 10 + number), orders)

    app.view(name="near", key="id")(lambda: some(0).join(clicks, on="user", within="20 minutes").latest("id"))
    app.view(name="clicked", key=("user", "window"))(
        lambda: some(1).join(clicks, on="user", within="10 minutes", how="left")
        .window(hw.tumbling("30 minutes")).by("user").agg("count(*) as rows", "count(clicks.at) as clicked")
    )  # fmt: skip
    app.view(name="priced", key="id")(
        lambda: orders.join(rates.select("n", "rate", "at"), on="n", as_of="at", how="left").latest("id")
    )
    app.view(name="aged", key="id")(
        lambda: orders.join(users, on=orders.user == users.name, how="left").select("id", "age").latest("id")
    )
    app.view(name="pairs", key="name")(
        lambda: users.join(users.select("name", "since"), on="name", how="left").select("name", "age")
    )
    return app


def outputs_of(seed: int) -> list[tuple[Any, Callable[..., Any]]]:
    """Three of all, in turn."""
    return [OUTPUTS[(EACH * seed + place) % len(OUTPUTS)] for place in range(EACH)]


def _declare(
    app: hw.App, name: str, key: Any, declare: Callable[..., Any], orders: Stream, users: Table, seed: int
) -> None:
    def body() -> Any:
        return declare(random.Random(seed), orders, users)

    body.__name__ = name
    app.view(key=key)(body)


def windows(number: int, *, emit: str | None = None) -> tuple[Any, Callable[..., Any]]:
    def declare(dice: random.Random, orders: Stream, users: Table) -> Any:
        made = steps(dice, orders).window(WINDOWS[number]()).by("user")
        return made.agg(*aggregates(dice), emit=emit)

    return ("user", "window"), declare


def _grouped(dice: random.Random, orders: Stream, users: Table) -> Any:
    return steps(dice, orders).by("user").agg(*aggregates(dice))


def _refined(dice: random.Random, orders: Stream, users: Table) -> Any:
    made = steps(dice, orders).by("user").agg("count(*) as rows", "sum(amount) as total")
    return made.where("rows > 1").with_columns(each="total / rows", many=f.col("rows") > 3)


def _latest(dice: random.Random, orders: Stream, users: Table) -> Any:
    return steps(dice, orders).latest("id")


def _deduplicated(dice: random.Random, orders: Stream, users: Table) -> Any:
    return steps(dice, orders).dedupe("id", within="1 hour").by("user").agg(*aggregates(dice))


def _windowed_after_dedupe(dice: random.Random, orders: Stream, users: Table) -> Any:
    first = steps(dice, orders).dedupe("id", within="2 hours")
    return first.window(hw.tumbling("30 minutes")).by("user").agg(*aggregates(dice))


def _table(dice: random.Random, orders: Stream, users: Table) -> Any:
    return users.where("age >= 18").with_columns(next=f.col("age") + 1)


def _newest(dice: random.Random, orders: Stream, users: Table) -> Any:
    return steps(dice, orders).latest("id").newest("user", order="id", limit=2)


def _history(dice: random.Random, orders: Stream, users: Table) -> Any:
    return orders.latest("id").history()


def _compared(dice: random.Random, orders: Stream, users: Table) -> Any:
    made = orders.window(hw.tumbling("30 minutes")).by("user").agg("count(*) as rows")
    return made.compare(before=hw.change("rows", "30 minutes"))


def _united(dice: random.Random, orders: Stream, users: Table) -> Any:
    one, other = orders.where("n > 3").select("user", "n"), orders.where("flag").select("user", "n")
    return one.union(other).by("user").agg("count(*) as rows", "sum(n) as total")


def _of_changes(dice: random.Random, orders: Stream, users: Table) -> Any:
    made = orders.by("user").agg("count(*) as rows").changes()
    return made.where("op <> 'd'").by("op").agg("count(*) as times")


OUTPUTS: list[tuple[Any, Callable[..., Any]]] = [
    *(windows(number) for number in range(len(WINDOWS))), windows(0, emit="final"), windows(1, emit="final"),
    windows(2, emit="final"), ("user", _grouped), ("user", _refined), ("id", _latest), ("user", _deduplicated),
    (("user", "window"), _windowed_after_dedupe), ("name", _table), ("user", _newest), (("id", "valid_from"), _history),
    (("user", "window"), _compared), ("user", _united), ("op", _of_changes),
]  # fmt: skip


def random_orders(dice: random.Random, count: int) -> Rows:
    """Mostly in order; some repeat, some are late, some cannot be decoded."""
    rows: Rows = []
    for place in range(count):
        minute = max(0, place * MINUTES // count - (dice.randint(6, 90) if dice.random() < 0.1 else 0))
        row = {
            "id": dice.randint(1, count), "user": dice.choice(["ann", "bob", "cid", "Ada", None]),
            "amount": dice.choice([None, "1.50", 7, "9.99", 3]), "score": dice.choice([None, 0.5, -2.25, 1e10]),
            "n": dice.choice([None, *range(10)]), "flag": dice.choice([None, True, False]),
            "at": f"2026-03-01T{minute // 60:02}:{minute % 60:02}:{dice.randint(0, 59):02}Z",
        }  # fmt: skip
        rows.append(b"no json" if dice.random() < 0.05 else row)
    return rows


def random_clicks(dice: random.Random, count: int) -> Rows:
    return [
        {"user": dice.choice(["ann", "bob", "cid", None]), "url": dice.choice("ab"),
         "at": f"2026-03-01T{dice.randint(0, 3):02}:{dice.randint(0, 59):02}:00Z"}
        for _ in range(count)
    ]  # fmt: skip


def random_rates(dice: random.Random) -> Rows:
    return [
        {
            "n": dice.randint(0, 9),
            "rate": dice.choice([1.0, 1.5, 2.0]),
            "at": f"2026-03-01T0{dice.randint(0, 3)}:00:00Z",
        }
        for _ in range(8)
    ]


def random_users(dice: random.Random) -> tuple[Rows, list[str]]:
    names = [f"user{number}" for number in range(6)]
    made = [
        {"name": dice.choice(names), "age": dice.choice([None, 5, 17, 18, 40]), "since": "2026-01-01T00:00:00Z"}
        for _ in range(8)
    ]
    return made, dice.sample(names, 2)
