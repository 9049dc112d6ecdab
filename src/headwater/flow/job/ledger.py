"""The accounts of an app added up: read from their topic once, then on from where reading ended."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import OffsetOutOfRange, UnknownTopic
from headwater.flow.declare.naming import accounts_topic
from headwater.flow.job.accounts import Account
from headwater.flow.kafka.client import EARLIEST, LATEST, Client
from headwater.flow.source.batches import find_batches
from headwater.flow.source.records import decode_batches
from headwater.record import TopicPartition

FETCH_BYTES = 1024**2


@dataclass(frozen=True)
class Entry:
    """What became of the rows of one output."""

    batch: int
    total: Account
    last: Account
    """Of that batch."""


class Ledger:
    def __init__(self, app: str) -> None:
        self._topic = accounts_topic(app)
        self._next: dict[TopicPartition, int] = {}
        self.entries: dict[tuple[str, str], Entry] = {}
        """By job and output."""

    def take(self, row: Mapping[str, Any]) -> None:
        """One account. Where batches begin again, a job has been made anew, and so is its total."""
        place = row["job"], row["output"]
        account = Account.from_json({name: row[name] for name in Account().to_json()})
        before = self.entries.get(place)
        total = before.total + account if before and before.batch < row["batch"] else account
        self.entries[place] = Entry(row["batch"], total, account)

    def read_on(self, client: Client) -> None:
        try:
            parts = client.partitions([self._topic])[self._topic]
        except UnknownTopic:
            return
        places = [TopicPartition(self._topic, number) for number in range(parts)]
        ends = client.offsets(dict.fromkeys(places, LATEST))
        for place in places:
            for value in self._values(client, place, ends[place]):
                self.take(json.loads(value))

    def _values(self, client: Client, place: TopicPartition, end: int) -> Iterator[bytes]:
        at = self._next.get(place)
        if at is None:
            at = client.offsets({place: EARLIEST})[place]
        while at < end:
            try:
                fetched = client.fetch(place, at, bytes_max=FETCH_BYTES)
            except OffsetOutOfRange as gone:
                # Retention was quicker, or the topic is another one now: on from what there is.
                at, end = gone.first, gone.end
                continue
            table = find_batches(fetched.records)
            if not len(table.rows):
                break
            records = decode_batches(fetched.records[: table.length], at, end, headers=False)
            yield from (value for value in records.values.to_pylist() if value is not None)
            at = table.next_offset
        self._next[place] = at
