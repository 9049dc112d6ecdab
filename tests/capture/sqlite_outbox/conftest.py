import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.capture.sqlite_outbox.kit import Captured


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection, as far as the capture is concerned."""
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    yield connection
    connection.close()


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[Callable[..., Captured]]:
    made: list[Captured] = []

    def make(*tables: str, **settings: Any) -> Captured:
        made.append(Captured(tmp_path, *tables, **settings))
        return made[-1]

    yield make
    for one in made:
        one.source.close()
        one.log.close()
