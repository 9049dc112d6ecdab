"""Each release of PostgreSQL that is here: the way to make slots and to flush marks differs between them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.capture.kit import Captured, bag, run
from tests.clients.brokers.process import NotAvailable
from tests.servers.postgres_cluster import Cluster, running_cluster


def failover(database: psycopg.Connection[Any], release: str) -> bool:
    """Whether a standby may take the slot over; servers before 17 know nothing of it."""
    if int(release) < 17:
        return False
    row = database.execute("SELECT failover FROM pg_replication_slots WHERE slot_name = 'headwater_shop_1'").fetchone()
    return bool(row and row[0])


@pytest.fixture
def cluster(release: str) -> Iterator[Cluster]:
    try:
        with running_cluster(release) as cluster:
            yield cluster
    except NotAvailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("release", ["14", "15", "16", "17", "18"])
def test_a_release_is_captured(release: str, cluster: Cluster, tmp_path: Path) -> None:
    with psycopg.connect(cluster.url, autocommit=True) as database:
        run(
            database,
            "CREATE TABLE users (id int PRIMARY KEY, name text)",
            "CREATE TABLE bag (a int)",
            "ALTER TABLE bag REPLICA IDENTITY FULL",
            "INSERT INTO users VALUES (1, 'ada'), (2, 'bob')",
            "INSERT INTO bag VALUES (1), (1)",
        )
        captured = Captured(cluster.url, tmp_path, ["users", "bag"])
        try:
            captured.start().copied()
            assert failover(database, release) == (int(release) >= 17)
            run(database, "UPDATE users SET name = 'ben' WHERE id = 2", "INSERT INTO bag VALUES (2)")
            captured.caught_up(database).crash()
            run(database, "DELETE FROM users WHERE id = 1", "DELETE FROM bag WHERE a = 2")
            captured.start().caught_up(database)
            assert captured.rows("users") == {'{"id":2}': {"id": 2, "name": "ben"}}
            assert [row["a"] for row in bag(captured.records("bag"))] == [1, 1]
        finally:
            captured.source.close()
            captured.close()
