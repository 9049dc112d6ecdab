import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater import Node, NodeSettings, Record, WireSettings
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.ledger import Ledger
from headwater.flow.kafka.client import Client


def row(batch: int, rows_in: int, *, job: str = "orders", output: str = "revenue") -> dict[str, object]:
    account = Account(rows_in=rows_in, rows_out=rows_in - 1, poisoned=1)
    return {"job": job, "output": output, "batch": batch, "end": {}, **account.to_json()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "data", NodeSettings(wire=WireSettings(port=0))) as node:
        yield node


def test_accounts_of_all_batches_are_added_up() -> None:
    ledger = Ledger("shop")
    for batch, rows_in in enumerate((10, 20, 5)):
        ledger.take(row(batch, rows_in))
    entry = ledger.entries["orders", "revenue"]
    assert (entry.batch, entry.total, entry.last) == (
        2,
        Account(rows_in=35, rows_out=32, poisoned=3),
        Account(rows_in=5, rows_out=4, poisoned=1),
    )


def test_accounts_of_an_earlier_version_that_counted_less_are_read() -> None:
    ledger = Ledger("shop")
    ledger.take({name: value for name, value in row(0, 10).items() if name != "expired"})
    ledger.take(row(1, 10))
    assert ledger.entries["orders", "revenue"].total == Account(rows_in=20, rows_out=18, poisoned=2)


def test_outputs_and_jobs_have_accounts_of_their_own() -> None:
    ledger = Ledger("shop")
    ledger.take(row(0, 10))
    ledger.take(row(0, 3, output="big"))
    ledger.take(row(0, 7, job="clicks"))
    assert {place: entry.total.rows_in for place, entry in ledger.entries.items()} == {
        ("orders", "revenue"): 10,
        ("orders", "big"): 3,
        ("clicks", "revenue"): 7,
    }


def test_a_job_that_was_made_anew_begins_anew() -> None:
    ledger = Ledger("shop")
    for batch in (0, 1, 2, 0):
        ledger.take(row(batch, 10))
    assert ledger.entries["orders", "revenue"].total.rows_in == 10


def test_reading_goes_on_where_it_ended(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.log.create_topic("shop.accounts")
    ledger = Ledger("shop")
    taken: list[int] = []
    take = ledger.take

    def noting(row: dict[str, Any]) -> None:
        taken.append(row["batch"])
        take(row)

    monkeypatch.setattr(ledger, "take", noting)
    with Client(node.kafka_address) as client:
        for batch in range(3):
            node.log.append("shop.accounts", [Record(json.dumps(row(batch, 10)).encode())])
            ledger.read_on(client)
            ledger.read_on(client)
            assert ledger.entries["orders", "revenue"].total.rows_in == 10 * (batch + 1)
    assert taken == [0, 1, 2]


def test_an_app_without_accounts_has_none(node: Node) -> None:
    ledger = Ledger("shop")
    with Client(node.kafka_address) as client:
        ledger.read_on(client)
    assert ledger.entries == {}
