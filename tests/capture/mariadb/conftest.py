"""One server for all tests of captures of MariaDB, and for each test a database of its own."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.capture.mariadb.kit import Captured, run
from tests.servers.mariadb import Mariadb, running_mariadb

_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[Mariadb]:
    with running_mariadb() as server:
        yield server


@pytest.fixture
def database(server: Mariadb) -> Iterator[Any]:
    """A connection that is in the new database."""
    name = f"test_{next(_numbers)}"
    connection = server.connect()
    run(connection, f"CREATE DATABASE {name} CHARACTER SET utf8mb4", f"USE {name}")
    connection.name = name
    yield connection
    run(connection, f"DROP DATABASE {name}")
    connection.close()


@pytest.fixture
def url(server: Mariadb, database: Any) -> str:
    return f"{server.url}{database.name}"


@pytest.fixture
def capture(url: str, tmp_path: Path) -> Iterator[Callable[..., Captured]]:
    """Makes a capture of tables; it is ended with the test."""
    made: list[Captured] = []

    def make(*tables: str, **settings: Any) -> Captured:
        made.append(Captured(url, tmp_path / str(len(made)), tables, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
