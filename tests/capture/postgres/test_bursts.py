"""A capture that is behind tells the same as one that takes every change by itself."""

import re
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headwater.capture.envelope import SNAPSHOT_HEADER
from headwater.capture.landing import header_of
from headwater.capture.postgresql import source
from headwater.capture.postgresql.rows import loading
from tests.capture.kit import Captured, run

PASSED = re.compile(rb'"ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+}$')

WORK = (
    "INSERT INTO orders SELECT i, 'customer ' || i, i / 3.0, repeat(E'\\\\\"é\n', i % 7), now() "
    "FROM generate_series(1, 900) i",
    "UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0",
    "UPDATE orders SET id = id + 10000 WHERE id % 100 = 0",
    "DELETE FROM orders WHERE id % 5 = 1",
    "INSERT INTO bag SELECT i, NULL FROM generate_series(1, 300) i",
    "UPDATE bag SET label = 'seen' WHERE id < 100",
    "DELETE FROM bag WHERE id > 250",
    "INSERT INTO pictures SELECT i, decode('00ff', 'hex') FROM generate_series(1, 50) i",
    "UPDATE wide SET tag = 'x' WHERE id % 2 = 0",
    "ALTER TABLE orders ADD COLUMN late date DEFAULT '0044-03-15 BC'",
    "INSERT INTO orders SELECT i, NULL, 'NaN', '', 'infinity', '2026-01-31' FROM generate_series(20001, 20400) i",
    "UPDATE orders SET late = '2026-02-01' WHERE id % 2 = 0",
    "UPDATE wide SET body = left(body, 10) WHERE id = 4",
)


def changes_of(captured: Captured, table: str) -> list[tuple[object, ...]]:
    """All that is told but the copy, and the moment at which a capture saw it."""
    return [
        (record.key, record.value and PASSED.sub(b"", record.value), record.headers, record.timestamp_ms)
        for record in captured.records(table)
        if header_of(record, SNAPSHOT_HEADER) is None
    ]


def test_a_burst_is_emitted_as_single_changes_are(
    database: psycopg.Connection[Any], capture: Callable[..., Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    loading.load()
    tables = ("orders", "bag", "pictures", "wide")
    run(
        database,
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount numeric, note text, at timestamptz)",
        "CREATE TABLE bag (id int, label text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "CREATE TABLE pictures (id int PRIMARY KEY, body bytea)",
        "CREATE TABLE wide (id int PRIMARY KEY, tag text, body text)",
        "INSERT INTO wide SELECT i, 'a', (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 100)) "
        "FROM generate_series(1, 40) i",
    )
    behind = capture(*tables, partitions=3).start().caught_up(database)
    single = capture(*tables, partitions=3)
    single.change(name="headwater_shop_2")
    single.start().caught_up(database)

    run(database, *WORK)
    behind.caught_up(database)
    assert behind.source._runs is not None
    monkeypatch.setattr(source, "RUNS_FROM_MESSAGES", 10**9)
    single.caught_up(database)
    assert single.source._runs is None

    emitted = {table: changes_of(behind, table) for table in tables}
    assert emitted == {table: changes_of(single, table) for table in tables}
    assert [len(emitted[table]) for table in tables] == [2547, 449, 50, 21]


def test_changes_do_not_wait_for_the_loops_to_be_compiled(
    database: psycopg.Connection[Any], capture: Callable[..., Captured], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling = threading.Event()
    monkeypatch.setattr(loading, "_loaded", threading.Event())
    monkeypatch.setattr(loading, "load", compiling.wait)
    loading._begin.cache_clear()
    run(database, "CREATE TABLE orders (id bigint PRIMARY KEY)")
    behind = capture("orders").start().caught_up(database)
    run(database, "INSERT INTO orders SELECT generate_series(1, 900)")
    try:
        behind.caught_up(database)
        assert (behind.source._runs, loading._begin().is_alive()) == (None, True)
        assert len(changes_of(behind, "orders")) == 900
    finally:
        compiling.set()
        loading._begin().join()
        loading._begin.cache_clear()
