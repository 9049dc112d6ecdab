"""One server for all tests of captures, and for each test a database of its own and a capture that is ended."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.capture.kit import Captured
from tests.servers.postgres_cluster import Cluster, empty_database, running_cluster

_numbers = count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    yield empty_database(cluster, name)
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = %s", (name,)
        )
        while connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s AND NOT active "
            "UNION ALL SELECT NULL FROM pg_replication_slots WHERE database = %s AND active",
            (name, name),
        ).fetchall():
            pass
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def database(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def capture(url: str, tmp_path: Path) -> Iterator[Callable[..., Captured]]:
    """Makes a capture of tables; it is ended with the test."""
    made: list[Captured] = []

    def make(*tables: str, **settings: Any) -> Captured:
        made.append(Captured(url, tmp_path / str(len(made)), tables, **settings))
        return made[-1]

    yield make
    for one in made:
        if hasattr(one, "source"):
            one.source.close()
        one.close()
