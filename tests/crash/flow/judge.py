"""What an app has left behind, held against what it was fed. Every sentence is a broken promise."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from headwater.flow.job.accounts import Account
from headwater.flow.kafka.client import Client
from headwater.flow.source.records import decode_batches
from headwater.record import TopicPartition
from headwater.views.view import View
from tests.crash.flow import shop
from tests.crash.flow.shop import Fed

FETCH_BYTES = 64 * 1024**2


class Place(NamedTuple):
    """Where everything is to be found."""

    data: Path
    address: str
    store: str


def judge(place: Place, fed: Sequence[Fed], *, least: int) -> list[str]:
    with Client(place.address) as client:
        return [
            *views(place, fed, least),
            *changelog(values(client, shop.TOTALS), fed),
            *stream(values(client, shop.BIG), fed),
            *accounts(values(client, shop.ACCOUNTS), fed),
            *poisoned(values(client, shop.POISONED), fed),
        ]


def values(client: Client, topic: str) -> list[Any]:
    """What is in a topic, as what its JSON says."""
    found = []
    for partition in range(client.partitions([topic])[topic]):
        found += [json.loads(text, parse_float=Decimal) for text in _texts(client, TopicPartition(topic, partition))]
    return found


def _texts(client: Client, place: TopicPartition) -> Iterator[bytes]:
    offset = 0
    while True:
        fetched = client.fetch(place, offset, bytes_max=FETCH_BYTES)
        if offset >= fetched.high_watermark:
            return
        records = decode_batches(fetched.records, offset, fetched.high_watermark, headers=False)
        yield from records.values.to_pylist()
        offset = int(records.offsets[-1]) + 1


def views(place: Place, fed: Sequence[Fed], least: int) -> Iterator[str]:
    wanted = {"revenue": shop.revenue_of(fed, least), "last_order": shop.last_orders_of(fed)}
    for name, store in (("revenue", place.data), ("last_order", place.store)):
        with View.open(store, shop.APP, name) as view:
            rows = view.rows(order=list(view.key))
            position = view.position()
        if rows != wanted[name]:
            yield f"view {name} holds {rows} and should hold {wanted[name]}"
        ends = {number: sum(one.partition == number for one in fed) for number in range(shop.PARTITIONS)}
        if position != {shop.ORDERS: ends}:
            yield f"view {name} says it is at {position}, and the topic ends at {ends}"


def changelog(changes: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    """Every change follows the one before it; the last of each key is the table."""
    table: dict[int, Any] = {}
    for change in changes:
        user = change["after"]["user_id"]
        if change["before"] != table.get(user):
            yield f"{shop.TOTALS}: user {user} had {table.get(user)}, and a change says {change['before']}"
        table[user] = change["after"]
    held = {user: (row["orders"], Decimal(row["spent"])) for user, row in table.items()}
    if held != shop.totals_of(fed):
        yield f"{shop.TOTALS} adds up to {held} and should to {shop.totals_of(fed)}"


def stream(rows: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    yield from _once(shop.BIG, Counter(row["id"] for row in rows), Counter(shop.big_of(fed)))


def accounts(rows: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    said = Counter((row["output"], row["batch"]) for row in rows)
    yield from (f"{count} accounts of {which}" for which, count in said.items() if count > 1)
    broken = len(fed) - len(shop.good(fed))
    for output in shop.OUTPUTS:
        own = [_account(row) for row in rows if row["output"] == output]
        yield from (f"{shop.ACCOUNTS}: {output} is not balanced: {one}" for one in own if not one.balanced)
        total = sum(own, Account())
        if (total.rows_in, total.poisoned) != (len(fed), broken):
            yield f"{shop.ACCOUNTS}: {output} accounts for {total}; {len(fed)} rows were fed, {broken} of them broken"


def _account(row: dict[str, Any]) -> Account:
    return Account.from_json({name: row[name] for name in Account().to_json()})


def poisoned(rows: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    found = Counter((row["partition"], row["offset"]) for row in rows)
    wanted = Counter((one.partition, one.offset) for one in fed if one.order is None)
    yield from _once(shop.POISONED, found, wanted)


def _once(what: str, found: Counter[Any], wanted: Counter[Any]) -> Iterator[str]:
    for one in sorted(found.keys() | wanted.keys()):
        if found[one] != wanted[one]:
            yield f"{what} holds {one} {found[one]} times, not {wanted[one]} times"
