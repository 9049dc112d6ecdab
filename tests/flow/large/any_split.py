"""Millions of rows in batches cut at random, many of which come twice: the result is that of one batch."""

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import headwater as hw
from headwater.flow.commit.accounts import Account
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_app
from tests.flow.job.steps import Step, run_steps
from tests.flow.large.orders import SCHEMA, TOPIC, Advance, Orders, feed
from tests.flow.large.topics import read_values

PARTITIONS = 8
BATCHES = 40
TWICE = 0.3
"""How many of the batches come again."""
TOTALS, BIG = "totals", "big-orders"
VIEWS, OUTPUTS = ("revenue", "spent"), ("revenue", "spent", TOTALS, BIG)


def declare() -> hw.App:
    app = hw.App("large", shards=2)
    orders = app.stream(TOPIC, SCHEMA, time="at")

    @app.view(key="currency")
    def revenue() -> Any:
        return orders.where("amount >= 10").by("currency").agg(
            "count(*) as orders", "sum(amount) as revenue", "max(at) as newest", "first(id) as first_id"
        )  # fmt: skip

    @app.view(key="user_id")
    def spent() -> Any:
        return orders.by("user_id").agg("count(*) as orders", "sum(amount) as spent")

    @app.topic(TOTALS)
    def totals() -> Any:
        return orders.by("user_id").agg("count(*) as orders", "max(amount) as dearest")

    @app.topic(BIG, key="id", partitions=2)
    def big_orders() -> Any:
        return orders.where("amount >= 90").select("id", "amount")

    return app


def cuts(ends: list[int], random: Random, *, batches: int = BATCHES) -> list[Step]:
    """Steps that read everything, of which no two are alike; partitions run ahead of and behind each other."""
    left, steps = list(ends), []
    while any(left):
        sizes = tuple(
            min(rest, random.randint(0, 2 * end // batches + 1)) for rest, end in zip(left, ends, strict=True)
        )
        left = [rest - size for rest, size in zip(left, sizes, strict=True)]
        if any(sizes):
            steps.append(Step(sizes, 2 if random.random() < TWICE else 1))
    return steps


def run(rows: int, seed: int, folder: Path, *, fed: Advance, processed: Advance) -> list[str]:
    """What is wrong, a sentence each."""
    made = Orders.make(rows, partitions=PARTITIONS, seed=seed)
    with running_app(declare(), folder / "data", spark=True) as tester:
        tester.node.log.create_topic(TOPIC, partitions=PARTITIONS)
        # Not compacted: every change is looked at.
        tester.node.log.create_topic(TOTALS)
        feed(tester.node.kafka_address, made.texts(), fed)
        ends = [int((made.frame["partition"] == number).sum()) for number in range(PARTITIONS)]
        run_steps(tester, cuts(ends, Random(seed)), done=lambda step: processed(sum(step.rows)))
        return list(wrong_in(tester, made))


def wrong_in(tester: AppTester, made: Orders) -> Iterator[str]:
    for view in VIEWS:
        if different := tester.prove(view).different:
            yield f"view {view}: the batch query finds {different:,} differences"
    wanted = {"revenue": revenue_of(made), "spent": spent_of(made)}
    for view in VIEWS:
        held = {tuple(row.values()) for row in tester.rows(view)}
        if held != wanted[view]:
            yield f"view {view} holds {sorted(held - wanted[view])[:3]}, not {sorted(wanted[view] - held)[:3]}"
    yield from changelog(tester, made)
    yield from stream(tester, made)
    for output in OUTPUTS:
        account = tester.account(output)
        if not account.balanced or account.rows_in != len(made.frame):
            yield f"{output} accounts for {account}; {len(made.frame):,} rows were fed"
        yield from accounted_once(tester, output)


def accounted_once(tester: AppTester, output: str) -> Iterator[str]:
    rows = [row for row in tester.values("large.accounts") if row["output"] == output]
    for batch, times in Counter(row["batch"] for row in rows).items():
        if times > 1:
            yield f"{output}: batch {batch} is accounted for {times} times"
    for row in rows:
        own = Account.from_json({name: row[name] for name in Account().to_json()})
        if not own.balanced:
            yield f"{output}: batch {row['batch']} is not balanced: {own}"


def changelog(tester: AppTester, made: Orders) -> Iterator[str]:
    """Every change follows the one before it; the last of each key is the table."""
    table: dict[int, Any] = {}
    for value in read_values(tester.node.kafka_address, TOTALS):
        change = json.loads(value)
        user = change["after"]["user_id"]
        if change["before"] != table.get(user):
            yield f"{TOTALS}: user {user} had {table.get(user)}, and a change says {change['before']}"
        table[user] = change["after"]
    held = {(user, row["orders"], Decimal(str(row["dearest"]))) for user, row in table.items()}
    grouped = made.frame.groupby("user_id")["cents"].agg(["size", "max"])
    wanted = {(int(user), int(count), money(most)) for user, count, most in grouped.itertuples()}
    if held != wanted:
        yield f"{TOTALS} adds up to {sorted(held - wanted)[:3]}, not to {sorted(wanted - held)[:3]}"


def stream(tester: AppTester, made: Orders) -> Iterator[str]:
    found = Counter(json.loads(value)["id"] for value in read_values(tester.node.kafka_address, BIG))
    wanted = {f"o{number}" for number in made.frame["number"][made.frame["cents"] >= 9000]}
    if missing := wanted - found.keys():
        yield f"{BIG} lacks {len(missing):,} orders, {min(missing)} is one"
    if strange := found.keys() - wanted:
        yield f"{BIG} holds {len(strange):,} orders that do not belong there, {min(strange)} is one"
    if several := [id for id, times in found.items() if times > 1]:
        yield f"{BIG} holds {len(several):,} orders more than once, {min(several)} is one"


def revenue_of(made: Orders) -> set[tuple[Any, ...]]:
    paid = made.frame[made.frame["cents"] >= 1000].sort_values(["at", "partition", "offset"])
    grouped = paid.groupby("currency").agg({"cents": ["size", "sum"], "at": "max", "number": "first"})
    return {
        (currency, int(count), money(cents), newest.tz_localize("UTC").to_pydatetime(), f"o{first}")
        for currency, count, cents, newest, first in grouped.itertuples()
    }


def spent_of(made: Orders) -> set[tuple[Any, ...]]:
    grouped = made.frame.groupby("user_id")["cents"].agg(["size", "sum"])
    return {(int(user), int(count), money(cents)) for user, count, cents in grouped.itertuples()}


def money(cents: int) -> Decimal:
    return Decimal(int(cents)) / 100
