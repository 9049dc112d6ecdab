"""The accounts of an app added up: read from their topic once, then on from where reading ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.flow.commit.accounts import Account
from headwater.flow.commit.topic_values import TopicValues
from headwater.flow.declare.topology.naming import accounts_topic
from headwater.flow.kafka.client import Client


@dataclass(frozen=True)
class Entry:
    """What became of the rows of one output."""

    batch: int
    total: Account
    last: Account
    """Of that batch."""


class Ledger:
    def __init__(self, app: str) -> None:
        self._values = TopicValues(accounts_topic(app))
        self.entries: dict[tuple[str, str], Entry] = {}
        """By job and output."""

    def take(self, row: Mapping[str, Any]) -> None:
        """One account. Where batches begin again, a job has been made again, and so is its total."""
        place = row["job"], row["output"]
        # Accounts of earlier versions lack what was not counted then.
        account = Account.from_json({name: row[name] for name in Account().to_json() if name in row})
        before = self.entries.get(place)
        total = before.total + account if before and before.batch < row["batch"] else account
        self.entries[place] = Entry(row["batch"], total, account)

    def read_on(self, client: Client) -> None:
        for value in self._values.read_on(client):
            self.take(json.loads(value))
