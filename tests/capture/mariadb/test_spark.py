"""What is captured is read in Spark with the types that the table had."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import headwater as hw
from headwater.testing import running_app
from tests.capture.mariadb.kit import Captured, run
from tests.flow.spark_session import shared_session

COLUMNS = (
    "id decimal(20,0), name string, joined timestamp, born date, credit decimal(20,4), ratio double, part float, "
    "picture binary, at timestamp_ntz, active boolean, kind string, founded int"
)


@pytest.mark.slow
def test_a_view_over_a_captured_table_has_its_types(database: Any, capture: Callable[..., Captured]) -> None:
    run(
        database, "SET time_zone = '+02:00'",
        "CREATE TABLE users (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(50) CHARACTER SET latin1, "
        "joined TIMESTAMP(3) NULL, born DATE, credit DECIMAL(20, 4), ratio DOUBLE, part FLOAT, picture BLOB, "
        "at DATETIME(6), active BIT(1), kind ENUM('a', 'b'), founded YEAR)",
        "INSERT INTO users VALUES (18446744073709551615, 'zoë', '2026-01-31 12:00:00.5', '1815-12-10', "
        "12345678901234.5678, 0.1, 0.1, X'00FF', '2026-01-31 12:34:56.789', b'1', 'b', 1901), "
        "(2, 'bob', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, 'c', NULL, NULL, NULL, NULL, "
        "NULL, NULL, NULL, NULL, NULL, NULL)",
    )  # fmt: skip
    captured = capture("users").start().caught_up(database)
    run(database, "UPDATE users SET credit = 2 WHERE id = 2", "DELETE FROM users WHERE id = 3")
    captured.caught_up(database).stop()
    captured.log.close()
    app = hw.App("shop")
    users = app.table("users", COLUMNS, key="id", format="debezium")
    app.view(key="id", name="people")(lambda: users)
    shared_session()
    with running_app(app, captured.folder / "data", spark=True) as running:
        running.run()
        rows = {int(row["id"]): row for row in running.rows("people")}
    assert {id: (row["name"], row["credit"]) for id, row in rows.items()} == {
        2**64 - 1: ("zoë", Decimal("12345678901234.5678")), 2: ("bob", Decimal(2)),
    }  # fmt: skip
    zoe = rows[2**64 - 1]
    assert (zoe["born"], zoe["ratio"], zoe["picture"], zoe["active"], zoe["kind"], zoe["founded"]) == (
        date(1815, 12, 10), 0.1, b"\x00\xff", True, "b", 1901,
    )  # fmt: skip
    assert zoe["part"] == pytest.approx(0.1, abs=1e-8)
    assert zoe["joined"] == datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)
    assert zoe["at"] == datetime(2026, 1, 31, 12, 34, 56, 789_000)
