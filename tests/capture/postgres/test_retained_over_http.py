"""What a database keeps of its write-ahead log for a capture, as a node says it over HTTP."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from headwater.capture.definition import Definition, Definitions
from headwater.settings import HttpSettings, NodeSettings
from headwater.testing import running_node
from tests.capture.kit import run
from tests.serve.shop import Shop

Connection = psycopg.Connection[Any]
WRITTEN = 3_000_000
"""Bytes of rows, all of which are in the log of the database too."""


def until(holds: Callable[[], bool]) -> None:
    """A hang is noticed by the watchdog of the tests."""
    while not holds():
        time.sleep(0.1)


def test_the_figure_is_the_databases_own_and_grows_with_what_it_has_to_keep(
    url: str, database: Connection, tmp_path: Path
) -> None:
    run(
        database, "CREATE TABLE users (id int PRIMARY KEY)", "CREATE TABLE busy (body text)",
        "INSERT INTO users VALUES (1)",
    )  # fmt: skip
    Definitions(tmp_path).add(Definition(name="users", url=url, tables=("public.users",)))
    with running_node(tmp_path, NodeSettings(http=HttpSettings(), captures=True)) as node:
        shop = Shop(node, None)  # type: ignore[arg-type]  # no view is written

        def shown() -> dict[str, Any]:
            (capture,) = shop.get("/captures").json
            assert shop.get("/captures/users").json["name"] == capture["name"] == "users"
            return dict(capture)

        until(lambda: shown()["state"] == "streaming" and isinstance(shown().get("retained_bytes"), int))
        before = shown()["retained_bytes"]
        with psycopg.connect(url) as other:
            # What a transaction that stays open has begun must be kept: it may still be committed.
            other.execute("INSERT INTO users VALUES (2)")
            run(
                database,
                f"INSERT INTO busy SELECT repeat(md5(i::text), 30) FROM generate_series(1, {WRITTEN // 960}) i",
                "INSERT INTO users VALUES (3)",
            )
            until(lambda: shown()["retained_bytes"] >= before + WRITTEN)
            assert len(list(node.log.read("users"))) == 2, "the capture continues, and the WAL is kept all the same"
            metric = re.search(rb'headwater_capture_retained_bytes{capture="users"} (\d+)', shop.get("/metrics").body)
            assert metric is not None
            assert int(metric[1]) >= before + WRITTEN
            kept = database.execute(
                "SELECT (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots "
                "WHERE database = current_database()"
            ).fetchone()
            assert kept is not None
            assert 0 <= kept[0] - int(metric[1]) < WRITTEN, "the figure is the database's"
            other.rollback()
