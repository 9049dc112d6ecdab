"""A view over captured tables never shows half of a transaction: every version that a batch commits is looked at."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headwater as hw
from headwater.capture.declaration import definitions_of
from headwater.capture.definition import Definitions
from headwater.flow.run.running_app import RunningApp, RunSettings
from headwater.node import Node
from headwater.views.view import View
from tests.capture.postgres.test_commit_points import TABLES, bank, between_rows, between_tables
from tests.flow.spark_session import shared_session
from tests.waiting import Deadline, wait_until

__all__ = ["bank"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Connection = psycopg.Connection[Any]
COLUMNS = "id long, balance long"

BALANCES = "SELECT id, balance FROM accounts"
VERSIONS = 5
"""So many are looked at, at least."""


def app_of_both(url: str) -> hw.App:
    app = hw.App("bank", shards=2)
    both = [hw.capture.postgres(url, table=table, partitions=4, name="both") for table in TABLES]
    accounts = app.table("current", COLUMNS, key="id", capture=both[0])
    savings = app.table("saved", COLUMNS, key="id", capture=both[1])

    @app.view(key="id")
    def people() -> Any:
        return accounts.join(savings, on=accounts.id == savings.id, prefix="saved_")

    return app


def balances(data: Path) -> dict[Any, Any]:
    with View.open(data, "bank", "people") as people:
        return {row["id"]: row["balance"] for row in people.rows()}


def run_once(app: hw.App, node: Node, look: Callable[[], None], rows_per_batch: int) -> None:
    settings = RunSettings(node.data, node.kafka_address, once=True, rows_per_batch=rows_per_batch)
    running = RunningApp(app, shared_session(), settings, watch=lambda job, progress: look())
    try:
        running.start()
        running.wait()
    finally:
        running.stop()


def test_every_version_of_a_view_over_two_tables_has_all_the_money(bank: Connection, url: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    Definitions(data).add(definitions_of(app_of_both(url).captures)["both"])  # type: ignore[arg-type]
    versions: list[tuple[int, int]] = []

    def look() -> None:
        with View.open(data, "bank", "people") as people:
            rows: list[Any] = people.rows()
        versions.append((len(rows), sum(row["balance"] + row["saved_balance"] for row in rows)))

    def load() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for seed in range(5):
                between_tables(connection, 5, seed)
                between_rows(connection, 1, seed)

    settings = hw.NodeSettings(wire=hw.WireSettings(port=0), captures=True)
    with Node(data, settings) as node:
        wait_until(
            lambda: (Definitions(data).status("both") or {}).get("state") == "streaming", "it streams", seconds=60
        )
        run_once(app_of_both(url), node, look, 1000)
        writer = threading.Thread(target=load)
        writer.start()
        run_once(app_of_both(url), node, look, 20)
        writer.join()
        run_once(app_of_both(url), node, look, 20)
        deadline = Deadline(120)
        while len(versions) < VERSIONS or balances(data) != dict(bank.execute(BALANCES).fetchall()):
            assert not deadline.passed, "the view does not come to what the table has"
            if len(versions) < VERSIONS:  # a slow machine takes many transactions at once
                between_tables(bank, 5, 5 + len(versions))
            run_once(app_of_both(url), node, look, 20)
    assert {total for _, total in versions} == {0}
    assert versions[-1] == (100, 0)
