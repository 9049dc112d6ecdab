"""A node with topics and a view that were written by hand: no Spark is needed to read one."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pyarrow as pa

from headwater.node import Node
from headwater.record import Record
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from headwater.views.mark import Mark
from headwater.views.store import ViewStore, open_store
from tests.waiting import LONG

SCHEMA = pa.schema([("country", pa.string()), ("amount", pa.decimal128(12, 2)), ("orders", pa.int64())])


class Said(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Shop:
    """The node, and the one who writes its view `shop.revenue`."""

    def __init__(self, node: Node, store: ViewStore) -> None:
        self.node, self.store, self.batch = node, store, -1

    def write(self, rows: Sequence[Mapping[str, object]], position: Mapping[int, int] | None = None) -> None:
        """One batch; a row with the `_op` d goes."""
        self.batch += 1
        schema = pa.schema([*SCHEMA, ("_op", pa.string())])
        typed = [{"_op": "u", **row, "amount": Decimal(str(row.get("amount", 0)))} for row in rows]
        table = pa.Table.from_pylist(typed, schema=schema)
        offsets = {"orders": dict(position or {0: self.batch + 1})}
        self.store.write("revenue", Mark("shop.orders", self.batch, offsets), table)

    def get(self, path: str, query: Any = (), headers: Mapping[str, str] | None = None) -> Said:
        return self.ask("GET", f"{path}?{urlencode(query, doseq=True)}" if query else path, headers=headers)

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Said:
        address = urlsplit(self.node.http_url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=LONG)
        try:
            connection.request(method, target, body=body, headers=dict(headers or {}))
            answer = connection.getresponse()
            return Said(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@contextmanager
def open_shop(data: Path | None = None, http: HttpSettings | None = None) -> Iterator[Shop]:
    with running_node(data, NodeSettings(http=http or HttpSettings())) as node:
        store = open_store(node.data, "shop")
        store.prepare("revenue", SCHEMA, ["country"])
        try:
            yield Shop(node, store)
        finally:
            store.close()


def fill(shop: Shop) -> None:
    shop.node.log.create_topic("orders", partitions=2)
    for number in range(20):
        record = Record(
            f'{{"n":{number}}}'.encode(), key=b"k", headers=[("h", b"\xff\x00")], timestamp_ms=1000 * number
        )
        shop.node.log.append("orders", record, partition=0)
    shop.node.log.append("orders", Record(b"\xff\xfe\x00", timestamp_ms=5), partition=1)
    shop.write(
        [
            {"country": "DE", "amount": "12.50", "orders": 3},
            {"country": "FR", "amount": "7.00", "orders": 2},
            {"country": "IT", "amount": "100.10", "orders": 9},
            {"country": None, "amount": "1.00", "orders": 1},
        ]
    )
