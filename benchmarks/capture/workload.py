"""What is written to the database while captures are measured: the same for all of them."""

from typing import Any, LiteralString

import psycopg

Connection = psycopg.Connection[Any]

FIRST, TABLE = "a_first", "orders"
"""The one is copied before the other, and only the other is counted."""

BLOCK_CHANGES, BLOCK_EVENTS = 1000, 1100
"""Of one transaction: 600 rows are inserted, 300 updated, 100 deleted. A deletion is told by two records."""

INSERTED, UPDATED = 600, 300
COLUMNS: LiteralString = "id bigint PRIMARY KEY, customer text, amount numeric(12,2), note text, at timestamptz"
ROWS: LiteralString = (
    "SELECT i, 'customer-' || i %% 10000, i %% 100000 / 100.0, 'what there is to say about order ' || i, "
    "timestamptz '2026-01-01 00:00:00Z' + i * interval '1 second' FROM generate_series(%s::bigint, %s) i"
)
INSERT: LiteralString = "INSERT INTO orders " + ROWS
UPDATE: LiteralString = "UPDATE orders SET amount = amount + 1, note = note || '!' WHERE id BETWEEN %s AND %s"
DELETE: LiteralString = "DELETE FROM orders WHERE id BETWEEN %s AND %s"


def prepare(connection: Connection, *, rows: int, warm_up_rows: int) -> None:
    """Both tables as they are before anybody captures them; ids count from 1."""
    for table, count in ((FIRST, warm_up_rows), (TABLE, rows)):
        connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
        connection.execute(f"CREATE TABLE {table} ({COLUMNS})".encode())
        connection.execute(f"INSERT INTO {table} {ROWS}".encode(), (1, count))
    connection.execute("ANALYZE")


def write_block(connection: Connection, last: int) -> int:
    """One transaction behind the id that was inserted last; the id that is last now."""
    with connection.transaction():
        connection.execute(INSERT, (last + 1, last + INSERTED))
        connection.execute(UPDATE, (last + 1 - INSERTED, last - INSERTED + UPDATED))
        connection.execute(DELETE, (last - INSERTED + UPDATED + 1, last - INSERTED + UPDATED + 100))
    return last + INSERTED


def write_one(connection: Connection, id: int) -> None:
    connection.execute(INSERT, (id, id))
