"""Views that were written by hand: no Spark is needed to ask one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.query.query import Answer, Asked, Engine
from headwater.serve.stores import Stores
from headwater.views.mark import Mark
from headwater.views.store import ViewStore, open_store
from tests.waiting import LONG

WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
REVENUE = pa.schema(
    [
        ("country", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("orders", pa.int64()),
        ("userId", pa.int32()),
        ("window", WINDOW),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("share", pa.float64()),
        ("open", pa.bool_()),
        ("day", pa.date32()),
    ]
)
USERS = pa.schema([("id", pa.int64()), ("country", pa.string())])
START = datetime(2026, 1, 1, tzinfo=UTC)


def revenue(country: str | None, amount: str, orders: int) -> dict[str, Any]:
    return {
        "country": country, "amount": Decimal(amount), "orders": orders, "userId": orders * 10,
        "window": {"start": START, "end": START + timedelta(minutes=5)}, "tags": ["a", "b"][: orders % 3],
        "counts": [("k", orders)], "share": orders / 4, "open": orders > 2, "day": START.date(),
    }  # fmt: skip


ROWS = [revenue("DE", "12.50", 3), revenue("FR", "7.00", 2), revenue("IT", "100.10", 9), revenue(None, "1.00", 1)]


def write(
    store: ViewStore, view: str, job: str, batch: int, position: Mapping[str, Mapping[int, int]], rows: pa.Table
) -> None:
    store.write(view, Mark(job, batch, position), rows)


def shop(data: Path) -> ViewStore:
    store = open_store(data, "shop")
    store.prepare("revenue", REVENUE, ["country"])
    write(store, "revenue", "shop.orders", 0, {"orders": {0: 5}}, pa.Table.from_pylist(ROWS, schema=REVENUE))
    store.prepare("users", USERS, ["id"])
    write(store, "users", "shop.users", 0, {"users": {0: 2}}, pa.table({"id": [1, 2], "country": ["DE", "FR"]}))
    return store


@contextmanager
def engine_on(data: Path) -> Iterator[Engine]:
    stores = Stores(data)
    engine = Engine(stores)
    try:
        yield engine
    finally:
        engine.close()
        stores.close()


def answered(engine: Engine, sql: str, **more: Any) -> Answer:
    found = engine.ask(Asked(sql=sql, **{"seconds": LONG, **more}))
    assert found is not None
    return found


def values(engine: Engine, sql: str, **more: Any) -> Sequence[tuple[Any, ...]]:
    table = answered(engine, sql, **more).table
    return [tuple(row.values()) for row in table.to_pylist(maps_as_pydicts="strict")]
