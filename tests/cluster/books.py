"""The books of a run of the shop: what its topics say about each batch and each order."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headwater.cli.client import Client as Commands
from headwater.demo.customers import TOPICS
from headwater.flow.commit.accounts import Account
from tests.waiting import LONG

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ACCOUNTS, PRICED, ORDERS = "shop.accounts", "orders-priced", "orders"


def read_all(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of every committed record of a topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "books", "isolation.level": "read_committed",
                "enable.partition.eof": True, "enable.auto.commit": False}  # fmt: skip
    partitions = Commands(bootstrap).partitions(topic)
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = list[tuple[bytes | None, bytes | None]](), set[int]()
        while len(ended) < len(partitions):
            message = consumer.poll(LONG)
            assert message is not None, "the brokers are silent"
            if message.error():
                ended.add(message.partition() or 0)
            else:
                found.append((_bytes(message.key()), _bytes(message.value())))
        return found
    finally:
        consumer.close()


def _bytes(content: Any) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


@dataclass
class Books:
    """What is wrong, in sentences; and what the accounts add up to."""

    wrong: list[str] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    watermarks: dict[str, datetime] = field(default_factory=dict)
    """Of the last batch of each output."""

    def enter(self, values: Iterable[bytes]) -> None:
        """Accounts of batches: each once, in balance, and none left out."""
        batches: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for value in values:
            said = json.loads(value)
            account, output = account_of(said), str(said["output"])
            batches[str(said["job"]), output].append(int(said["batch"]))
            self.accounts[output] = self.accounts.get(output, Account()) + account
            if said.get("watermark"):
                own = datetime.fromisoformat(said["watermark"])
                self.watermarks[output] = max(own, self.watermarks.get(output, EPOCH))  # it never goes back
            if not account.balanced:
                self.wrong.append(f"batch {said['batch']} of {output} does not add up: {account}")
        for (job, output), numbers in sorted(batches.items()):
            if sorted(numbers) != list(range(min(numbers), min(numbers) + len(numbers))):
                twice = sorted(number for number, count in Counter(numbers).items() if count > 1)
                self.wrong.append(f"{output} of job {job} has batches twice or not at all: twice {twice[:5]}")
        if not batches:
            self.wrong.append("there are no accounts")

    def compare_orders(self, orders: Iterable[bytes | None], priced: Iterable[bytes | None]) -> None:
        """Each order that can be read is priced once, but for those that came too late, and the last: after the last
        watermark, they wait until events say that none before them is under way."""
        wanted, found = Counter(dict.fromkeys(known := times_of(orders), 1)), Counter(ids_of(priced))
        waiting = {one for one, at in known.items() if at > self.watermarks.get(PRICED, EPOCH)}
        missing, twice = sorted((wanted - found).keys() - waiting), sorted((found - wanted).elements())
        late = self.accounts.get(PRICED, Account()).late
        if len(missing) != late:
            some = f", such as {missing[0]}" if missing else ""
            self.wrong.append(f"{len(missing)} orders are not priced{some}, and {late} were late")
        if twice:
            self.wrong.append(f"{len(twice)} orders are priced more than once, such as {twice[0]}")


def rows_of(values: Iterable[bytes | None]) -> Iterator[dict[str, Any]]:
    """Those that can be read."""
    for value in values:
        with suppress(ValueError):
            yield json.loads(value or b"")


def ids_of(values: Iterable[bytes | None]) -> Iterator[str]:
    return (str(row["id"]) for row in rows_of(values))


def times_of(values: Iterable[bytes | None]) -> dict[str, datetime]:
    """By the id of each order, when it was made."""
    return {str(row["id"]): datetime.fromisoformat(row["at"]) for row in rows_of(values)}


def account_of(said: dict[str, Any]) -> Account:
    """
    >>> account_of({"job": "j", "batch": 1, "in": 3, "out": 2, "filtered": 1}).balanced
    True
    """
    known = {one.name for one in fields(Account)} | {"in", "out"}
    return Account.from_json({name: value for name, value in said.items() if name in known})


def books_of(bootstrap: str) -> Books:
    books = Books()
    books.enter(value for _, value in read_all(bootstrap, ACCOUNTS) if value is not None)
    books.compare_orders(*([value for _, value in read_all(bootstrap, topic)] for topic in (ORDERS, PRICED)))
    return books


Ends = dict[tuple[str, int], int]


@dataclass
class GroupOffsets:
    """Where the topics of the shop's customers end, and what each job has committed: as tools of Kafka see it."""

    ends: Ends
    committed: dict[str, Ends]

    @property
    def lag(self) -> int:
        """Of all jobs together. A topic that no job has read yet lags as a whole."""
        lag = sum(max(0, self.ends[one] - offset) for job in self.committed.values() for one, offset in job.items())
        read = {topic for job in self.committed.values() for topic, _ in job}
        return lag + sum(end for (topic, _), end in self.ends.items() if topic not in read)

    def behind(self, wanted: Ends) -> list[str]:
        """Jobs that have not read up to these offsets yet, and topics that none has read."""
        jobs = [
            name
            for name, job in self.committed.items()
            if any(offset < wanted.get(one, 0) for one, offset in job.items())
        ]
        read = {topic for job in self.committed.values() for topic, _ in job}
        return sorted(jobs) + sorted({topic for topic, _ in wanted} - read)


def group_offsets(bootstrap: str) -> GroupOffsets:
    commands = Commands(bootstrap)
    ends = {
        (topic, partition): end
        for topic, count in TOPICS.items()
        for partition, end in commands.ends(topic, range(count)).items()
    }
    groups = [name for name in commands.group_names() if name.startswith("shop.")]
    committed = {
        group: {one: offset for one, offset in commands.committed(group).items() if one in ends} for group in groups
    }
    return GroupOffsets(ends, committed)
