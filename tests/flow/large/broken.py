"""A million rows of which a thousand are broken: exactly those are set aside, each with a reason."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import headwater as hw
from headwater.flow.commit.accounts import Account
from headwater.flow.run.app_tester import AppTester
from headwater.testing import running_app
from tests.flow.large.orders import CHUNK, SCHEMA, TOPIC, Advance, Orders, feed
from tests.flow.large.topics import read_values

PARTITIONS = 4
ONE_IN = 1000
ROWS_PER_BATCH = 150_000
POISONED = "dirty.orders.poisoned"
OUTPUTS = ("revenue", "big-orders")


class Fault(NamedTuple):
    """How a row is broken, and the words in which a person must be told."""

    value: bytes | None
    reason: str


def whole(**changed: object) -> bytes:
    fields = {"id": "x", "user_id": 1, "amount": "1.00", "currency": "EUR", "at": "2026-01-01T00:00:00Z", **changed}
    return json.dumps(fields).encode()


FAULTS = (
    Fault(b"", r"the value is empty"),
    Fault(None, r"the value is null"),
    Fault(b"nonsense", r"not a JSON object"),
    Fault(b'{"id": "x", "user_id": 1', r"not JSON: the text ends too early"),
    Fault(b'{"id": "\xff\xfe"}', r"the bytes are not UTF-8"),
    Fault(b"[1, 2]", r"not a JSON object"),
    Fault(whole(amount="many"), r"amount: .*many.* is not a decimal"),
    Fault(whole(amount="99999999999.99"), r"amount: .*99999999999.99.* decimal\(12,2\)"),
    Fault(whole(user_id="somebody"), r"user_id: .*somebody.* is not a"),
    Fault(whole(user_id=2**70), r"user_id: .*does not fit"),
    Fault(whole(at="yesterday"), r"at: .*yesterday.* is not a timestamp"),
    Fault(whole(at=1767225600), r"at: .*is a number"),
)


def declare() -> hw.App:
    app = hw.App("dirty", shards=2)
    orders = app.stream(TOPIC, SCHEMA, time="at")

    @app.view(key="currency")
    def revenue() -> Any:
        return orders.by("currency").agg("count(*) as orders", "sum(amount) as revenue")

    @app.topic("big-orders", key="id")
    def big_orders() -> Any:
        return orders.where("amount >= 90").select("id", "amount")

    return app


def texts(made: Orders, faults: dict[int, Fault]) -> Iterator[tuple[list[Any], list[int]]]:
    for number, (values, partitions) in enumerate(made.texts()):
        first = number * CHUNK
        yield (
            [faults[first + at].value if first + at in faults else value for at, value in enumerate(values)],
            partitions,
        )


def run(rows: int, seed: int, folder: Path, *, fed: Advance, processed: Advance) -> tuple[list[str], Counter[str]]:
    """What is wrong, a sentence each; and how often each reason was given."""
    made, random = Orders.make(rows, partitions=PARTITIONS, seed=seed), Random(seed)
    chosen = random.sample(range(rows), rows // ONE_IN)
    faults = {number: FAULTS[place % len(FAULTS)] for place, number in enumerate(chosen)}
    with running_app(declare(), folder / "data", spark=True) as tester:
        tester.node.log.create_topic(TOPIC, partitions=PARTITIONS)
        feed(tester.node.kafka_address, texts(made, faults), fed)
        for account in tester.run(rows_per_batch=ROWS_PER_BATCH)[:: len(OUTPUTS)]:
            processed(account.rows_in)
        set_aside = [json.loads(value) for value in read_values(tester.node.kafka_address, POISONED)]
        found = [*wrong_in(tester, made, faults), *poisoned(set_aside, made, faults)]
        return found, Counter(row["reason"] for row in set_aside)


def wrong_in(tester: AppTester, made: Orders, faults: dict[int, Fault]) -> Iterator[str]:
    good = made.frame.drop(index=list(faults))
    grouped = good.groupby("currency")["cents"].agg(["size", "sum"])
    wanted = {(currency, int(count), int(cents)) for currency, count, cents in grouped.itertuples()}
    held = {(row["currency"], row["orders"], int(row["revenue"] * 100)) for row in tester.rows("revenue")}
    if held != wanted:
        yield f"view revenue holds {held}, not {wanted}"
    for output in OUTPUTS:
        account: Account = tester.account(output)
        if not account.balanced or (account.rows_in, account.poisoned) != (len(made.frame), len(faults)):
            yield f"{output} accounts for {account}; {len(made.frame):,} were fed, {len(faults):,} of them broken"


def poisoned(set_aside: list[Any], made: Orders, faults: dict[int, Fault]) -> Iterator[str]:
    places = made.frame.loc[list(faults), ["partition", "offset"]].itertuples()
    wanted = {(int(partition), int(offset)): faults[number] for number, partition, offset in places}
    found = Counter((row["partition"], row["offset"]) for row in set_aside)
    if found != Counter(wanted.keys()):
        there = len(found.keys() & wanted.keys())
        yield f"{POISONED} holds {len(set_aside):,} rows, {there:,} of {len(wanted):,} broken ones"
    for row in set_aside:
        fault = wanted.get((row["partition"], row["offset"]))
        if fault is not None and not re.search(fault.reason, row["reason"]):
            yield f"{POISONED}: of {fault.value!r} it says only: {row['reason']}"
