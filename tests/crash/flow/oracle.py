"""What an app has left behind, held against what it was fed. Every sentence is a broken promise."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from headwater.flow.commit.accounts import Account
from headwater.flow.declare.topology.naming import poisoned_topic
from headwater.flow.kafka.client import Client
from headwater.flow.source.record_batches.records import decode_batches
from headwater.record import TopicPartition
from headwater.views.view import View
from tests.crash.flow import model, shop, windows
from tests.crash.flow.feeding import Fed
from tests.crash.flow.folding import folded

FETCH_BYTES = 64 * 1024**2


class Place(NamedTuple):
    """Where everything is to be found."""

    data: Path
    address: str
    store: str

    @property
    def files(self) -> Path:
        return self.data.parent / "files"


class Kept(NamedTuple):
    """A record of a topic, as what its JSON says."""

    key: Any
    value: Any


def differences(place: Place, fed: Sequence[Fed], *, least: int) -> list[str]:
    """Of customers only if there are any."""
    customers = [one for one in fed if one.topic == shop.CUSTOMERS]
    with Client(place.address) as client:
        accounts = values(client, shop.ACCOUNTS)
        found = [
            *views(place, fed, least, customers=bool(customers)),
            *totals(values(client, shop.TOTALS), fed),
            *same_rows(shop.BIG, Counter(row["id"] for row in values(client, shop.BIG)), Counter(model.big_of(fed))),
            *same_rows(shop.FILES, Counter(ids_in_files(place.files)), Counter(model.big_of(fed))),
            *let_through_once(client, accounts, fed),
            *windowed(client, place, accounts, fed),
            *balanced(accounts, fed, [shop.ORDERS], shop.OUTPUTS_OF_ORDERS),
            *poisoned(client, fed, shop.APP, shop.ORDERS),
        ]
        if customers:
            found += customer_log(records(client, shop.CUSTOMER_LOG), fed)
            found += balanced(accounts, fed, [shop.CUSTOMERS], shop.OUTPUTS_OF_CUSTOMERS)
            found += followed(client, place, accounts, fed)
            found += balanced(accounts, fed, [shop.ORDERS] * 3, [shop.FOLLOWED])
            found += neighbours(records(client, shop.NEIGHBOURS), fed)
            found += balanced(accounts, fed, [shop.ORDERS, shop.CUSTOMERS], [shop.NAMED])
            found += balanced(accounts, fed, [shop.CUSTOMERS, shop.CITIES], [shop.GOVERNED])
            found += poisoned(client, fed, shop.APP, shop.CUSTOMERS)
        return found


# -- what is there -----------------------------------------------------------------------------------------------------


def values(client: Client, topic: str) -> list[Any]:
    return [record.value for record in records(client, topic)]


def records(client: Client, topic: str) -> list[Kept]:
    found = []
    for partition in range(client.partitions([topic])[topic]):
        found += list(_records(client, TopicPartition(topic, partition)))
    return found


def _records(client: Client, place: TopicPartition) -> Iterator[Kept]:
    offset = 0
    while True:
        fetched = client.fetch(place, offset, bytes_max=FETCH_BYTES)
        if offset >= fetched.high_watermark:
            return
        found = decode_batches(fetched.records, offset, fetched.high_watermark, headers=False)
        for key, value in zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True):
            yield Kept(_said(key), _said(value))
        offset = int(found.offsets[-1]) + 1


def _said(text: bytes | None) -> Any:
    return None if text is None else json.loads(text, parse_float=Decimal)


def ids_in_files(folder: Path) -> list[str]:
    return [id for file in folder.glob("*.parquet") for id in pq.read_table(file)["id"].to_pylist()]


# -- what is wrong with it ---------------------------------------------------------------------------------------------


def views(place: Place, fed: Sequence[Fed], least: int, *, customers: bool) -> Iterator[str]:
    wanted: dict[str, tuple[str | Path, list[Any]]] = {
        "revenue": (place.data, model.revenue_of(fed, least)),
        "last_order": (place.store, model.last_orders_of(fed)),
        "cheap": (place.store, model.cheap_of(fed)),
    }
    if customers:
        wanted["customer"] = place.data, model.customers_of(fed)
        wanted[shop.GOVERNED] = place.data, model.governed_of(fed)
    for name, (store, expected) in wanted.items():
        with View.open(store, shop.APP, name) as view:
            rows = view.rows(order=list(view.key))
            position = view.position()
        if rows != expected:
            yield f"view {name} holds {rows} and should hold {expected}"
        topics = {"customer": [shop.CUSTOMERS], shop.GOVERNED: [shop.CUSTOMERS, shop.CITIES]}.get(name, [shop.ORDERS])
        ends = {topic: dict(Counter(one.partition for one in fed if one.topic == topic)) for topic in topics}
        if position != ends:
            yield f"view {name} says it is at {position}, and its topics end at {ends}"


def totals(changes: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    """Every change follows the one before it; the last of each key is the table."""
    table: dict[int, Any] = {}
    for change in changes:
        user = change["after"]["user_id"]
        if change["before"] != table.get(user):
            yield f"{shop.TOTALS}: user {user} had {table.get(user)}, and a change says {change['before']}"
        table[user] = change["after"]
    held = {user: (row["orders"], Decimal(row["spent"])) for user, row in table.items()}
    if held != model.totals_of(fed):
        yield f"{shop.TOTALS} adds up to {held} and should to {model.totals_of(fed)}"


def customer_log(changes: list[Kept], fed: Sequence[Fed]) -> Iterator[str]:
    view = folded(shop.CUSTOMER_LOG, changes, ["user_id"])
    held, wanted = [row for _, row in sorted(view.table.items())], model.customers_of(fed)
    yield from view.wrong
    if held != wanted:
        yield f"{shop.CUSTOMER_LOG} adds up to {held} and should to {wanted}"


def neighbours(changes: list[Kept], fed: Sequence[Fed]) -> Iterator[str]:
    view, wanted = folded(shop.NEIGHBOURS, changes, ["user_id", "other_user_id"]), model.neighbours_of(fed)
    yield from view.wrong
    if view.table != wanted:
        yield f"{shop.NEIGHBOURS} adds up to {view.table} and should to {wanted}"


def let_through_once(client: Client, accounts: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    own = sorted((row for row in accounts if row["output"] == shop.ONCE), key=lambda row: int(row["batch"]))
    ends = [{int(number): offset for number, offset in row["end"][shop.ORDERS].items()} for row in own]
    wanted = model.once_of(fed, ends, [windows.moment(row["watermark"]) for row in own])
    passed = Counter(row["id"] for row in values(client, shop.ONCE))
    yield from same_rows(shop.ONCE, passed, Counter(wanted.passed))
    others = (shop.HALF_HOURS, shop.VISITS, shop.PAIRS, shop.TRIPLES, shop.FOLLOWED)
    rows = [row for row in values(client, shop.LATE) if row["operator"] not in others]
    yield from same_rows(shop.LATE, Counter((row["partition"], row["offset"]) for row in rows), Counter(wanted.late))
    whys = ("behind", "before the watermark")
    yield from (f"{shop.LATE} does not say why: {row}" for row in rows if not any(why in row["reason"] for why in whys))
    late, repeated = sum(row["late"] for row in own), sum(row["duplicates"] for row in own)
    most = len(model.good(fed)) - len(wanted.passed) - len(wanted.late)
    if (late, repeated) != (len(wanted.late), most):
        yield f"{shop.ONCE} accounts for {late} late and {repeated} repeated rows, not {len(wanted.late)} and {most}"


def windowed(client: Client, place: Place, accounts: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    orders = model.good(fed)
    for output in (shop.HALF_HOURS, shop.VISITS):
        late = [row for row in values(client, shop.LATE) if row["operator"] == output]
        yield from windows.lateness(accounts, late, orders, output)
        taken, reached = windows.timely(orders, late), windows.watermark_of(accounts, output)
        if output == shop.HALF_HOURS:
            with View.open(place.data, shop.APP, output) as view:
                yield from windows.half_hours(view.rows(), windows.half_hours_of(taken, reached))
        else:
            yield from windows.visits(records(client, output), windows.visits_of(taken, reached))


def followed(client: Client, place: Place, accounts: list[Any], fed: Sequence[Fed]) -> Iterator[str]:
    """What each of two joins tells is as far behind as two orders may be apart, and as one batch."""
    joins = (shop.PAIRS, shop.TRIPLES)
    late = [row for row in values(client, shop.LATE) if row["operator"] in (*joins, shop.FOLLOWED)]
    yield from (f"{shop.FOLLOWED} says that a pair is late: {row}" for row in late if row["operator"] == shop.FOLLOWED)
    if (counted := sum(row["late"] for row in accounts if row["output"] == shop.FOLLOWED)) != len(late):
        yield f"{shop.FOLLOWED} accounts for {counted} late rows, and {len(late)} are in the topic"
    orders, reached = model.good(fed), windows.watermark_of(accounts, shop.FOLLOWED, before=2)
    first, second = (windows.timely(orders, [row for row in late if row["operator"] == join]) for join in joins)
    with View.open(place.data, shop.APP, shop.FOLLOWED) as view:
        yield from windows.followed(view.rows(), windows.followed_of(first, second, reached))


def balanced(
    accounts: list[Any], fed: Sequence[Fed], topics: Sequence[str], outputs: Sequence[str], topic: str = shop.ACCOUNTS
) -> Iterator[str]:
    """Of outputs that are made from some topics; one that is read twice is there twice. `topic` has the accounts."""
    rows = [row for row in accounts if row["output"] in outputs]
    said = Counter((row["output"], row["batch"]) for row in rows)
    yield from (f"{count} accounts of {which}" for which, count in said.items() if count > 1)
    own = [one for name in topics for one in fed if one.topic == name]
    wanted = len(own), sum(one.broken for one in own)
    for output in outputs:
        batches = [_account(row) for row in rows if row["output"] == output]
        yield from (f"{topic}: {output} is not balanced: {one}" for one in batches if not one.balanced)
        total = sum(batches, Account())
        if (total.rows_in, total.poisoned) != wanted:
            yield f"{topic}: {output} accounts for {total}; {wanted[0]} were fed, {wanted[1]} of them broken"


def _account(row: dict[str, Any]) -> Account:
    return Account.from_json({name: row[name] for name in Account().to_json()})


def poisoned(client: Client, fed: Sequence[Fed], app: str, job: str) -> Iterator[str]:
    topic = poisoned_topic(app, job)
    rows = values(client, topic)
    found = Counter((row["partition"], row["offset"]) for row in rows)
    wanted = Counter((one.partition, one.offset) for one in fed if one.topic == job and one.broken)
    yield from same_rows(topic, found, wanted)
    yield from (f"{topic} does not say why: {row}" for row in rows if not row["reason"])


def same_rows(what: str, found: Counter[Any], wanted: Counter[Any]) -> Iterator[str]:
    for one in sorted(found.keys() | wanted.keys()):
        if found[one] != wanted[one]:
            yield f"{what} holds {one} {found[one]} times, not {wanted[one]} times"
