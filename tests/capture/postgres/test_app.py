"""An app that says where its table is captured from: run as a user would, with Spark."""

import subprocess
import sys
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater as hw
from headwater.capture.definition import Definitions
from tests.capture.kit import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
Connection = psycopg.Connection[Any]

APP = """
import headwater as hw

app = hw.App("shop")
users = app.table("users", key="id", capture=hw.capture.postgres({url!r}, table="public.users"))


@app.view(key="id")
def people():
    return users.select("id", "name", "credit", "joined", "born", "ratio", "tags", "picture", "at", "active")
"""


def test_a_view_over_a_captured_table_follows_it(url: str, database: Connection, tmp_path: Path) -> None:
    run(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text, country text, joined timestamptz, born date, "
        "credit numeric(20,4), ratio float8, tags text[], picture bytea, at timestamp, active bool)",
        "INSERT INTO users VALUES (1, 'ada', 'uk', '2026-01-31 12:00:00+02', '1815-12-10', 12345678901234.5678, 0.1, "
        "'{a,NULL,\"b, c\"}', '\\x00ff', '2026-01-31 12:34:56.789', true)",
        "INSERT INTO users (id, name, country, credit) VALUES (2, 'bob', 'de', 1.5), (3, 'cyd', 'fr', 3)",
    )
    data, declared = tmp_path / "data", hw.capture.postgres(url, table="public.users")
    Definitions(data).add(declared.definition("users"))
    with hw.Node(data, hw.NodeSettings(wire=hw.WireSettings(port=0), captures=True)) as node:
        while (Definitions(data).status("users") or {}).get("state") != "streaming":
            time.sleep(0.05)
        assert node.log.topic("users").settings.cleanup_policy == {"compact"}
    # The node is down meanwhile: it has to catch up before `--once` has read all there is.
    run(database, "UPDATE users SET credit = 2 WHERE id = 2", "DELETE FROM users WHERE id = 3")
    run(database, "INSERT INTO users (id, name) VALUES (4, 'dan')")
    (tmp_path / "shop.py").write_text(APP.replace("{url!r}", repr(url)))
    command = [sys.executable, "-m", "headwater", "run", "shop.py", "--once", "--data", str(data)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with hw.View.open(data, "shop", "people") as people:
        rows = {row["id"]: row for row in people.rows()}
    assert {id: (row["name"], row["credit"]) for id, row in rows.items()} == {
        1: ("ada", Decimal("12345678901234.5678")), 2: ("bob", Decimal(2)), 4: ("dan", None),
    }  # fmt: skip
    ada = rows[1]
    assert (ada["born"], ada["tags"], ada["picture"], ada["ratio"], ada["active"]) == (
        date(1815, 12, 10), ["a", None, "b, c"], b"\x00\xff", 0.1, True,
    )  # fmt: skip
    assert ada["joined"] == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert ada["at"] == datetime(2026, 1, 31, 12, 34, 56, 789000)
