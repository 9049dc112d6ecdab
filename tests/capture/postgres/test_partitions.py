"""A partition that is attached brings rows without a change event; one that is detached or dropped takes some away."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.capture.kit import Captured, bag, run

Connection = psycopg.Connection[Any]
Make = Callable[..., Captured]

SALES = (
    "CREATE TABLE sales (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    "CREATE TABLE sales_2025 PARTITION OF sales FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
    "CREATE TABLE sales_2026 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
    "INSERT INTO sales VALUES (1, '2025-05-05'), (2, '2026-05-05')",
    "CREATE TABLE sales_2027 (id int, day date NOT NULL, PRIMARY KEY (id, day))",
    "INSERT INTO sales_2027 VALUES (3, '2027-01-01'), (4, '2027-02-02')",
)
ATTACH = "ALTER TABLE sales ATTACH PARTITION sales_2027 FOR VALUES FROM ('2027-01-01') TO ('2028-01-01')"


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.capture.postgresql.source.WATCH_INTERVAL_MS", 0)
    monkeypatch.setattr("headwater.capture.postgresql.snapshot.CHUNK_ROWS", 2)


def ids(captured: Captured) -> list[int]:
    return sorted(row["id"] for row in captured.rows("sales").values())


def reads(captured: Captured) -> list[int]:
    return [value["after"]["id"] for value in captured.values("sales") if value["op"] == "r"]


def test_rows_of_an_attached_partition_come_and_no_others_again(database: Connection, capture: Make) -> None:
    run(database, *SALES)
    captured = capture("sales").start().copied()
    run(database, ATTACH)
    captured.until(lambda: len(ids(captured)) == 4).copied()
    run(database, "INSERT INTO sales VALUES (5, '2027-03-03')", "DELETE FROM sales WHERE id = 3")
    captured.caught_up(database)
    assert ids(captured) == [1, 2, 4, 5]
    assert reads(captured) == [1, 2, 3, 4]


def test_a_partition_attached_while_no_capture_ran_is_found(database: Connection, capture: Make) -> None:
    run(database, *SALES)
    captured = capture("sales").start().copied()
    captured.crash()
    run(database, ATTACH)
    captured.start().until(lambda: len(ids(captured)) == 4)
    assert ids(captured) == [1, 2, 3, 4]


@pytest.mark.parametrize("how", ["ALTER TABLE sales DETACH PARTITION sales_2025", "DROP TABLE sales_2025"])
def test_rows_of_a_removed_partition_are_deleted(database: Connection, capture: Make, how: str) -> None:
    run(database, *SALES, ATTACH)
    captured = capture("sales").start().copied()
    run(database, how)
    captured.until(lambda: 1 not in ids(captured))
    captured.caught_up(database)
    assert ids(captured) == [2, 3, 4]
    deleted = [value["before"] for value in captured.values("sales") if value["op"] == "d"]
    assert deleted == [{"id": 1, "day": "2025-05-05"}]


def test_what_happens_to_a_detached_table_is_no_change_of_the_captured_one(database: Connection, capture: Make) -> None:
    run(database, *SALES)
    captured = capture("sales").start().copied()
    run(database, "ALTER TABLE sales DETACH PARTITION sales_2025", "INSERT INTO sales_2025 VALUES (9, '2025-09-09')")
    captured.until(lambda: 1 not in ids(captured))
    captured.caught_up(database)
    assert ids(captured) == [2]


def test_a_table_without_a_key_is_emitted_as_a_whole_when_it_is_attached_to(
    database: Connection, capture: Make
) -> None:
    run(
        database,
        "CREATE TABLE sales (id int, day date) PARTITION BY RANGE (day)",
        "ALTER TABLE sales REPLICA IDENTITY FULL",
        "CREATE TABLE sales_2025 PARTITION OF sales FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
        "ALTER TABLE sales_2025 REPLICA IDENTITY FULL",
        "INSERT INTO sales VALUES (1, '2025-05-05')",
        "CREATE TABLE sales_2027 (id int, day date)",
        "ALTER TABLE sales_2027 REPLICA IDENTITY FULL",
        "INSERT INTO sales_2027 VALUES (3, '2027-01-01')",
    )
    captured = capture("sales").start().copied()
    run(database, ATTACH)
    captured.until(lambda: len(bag(captured.records("sales"))) == 2)
    assert sorted(row["id"] for row in bag(captured.records("sales"))) == [1, 3]
