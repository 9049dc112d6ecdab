"""Where outputs go beside views and topics, as plain data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parquet:
    """Files in a folder (any fsspec URL), one or more for each batch."""

    path: str


@dataclass(frozen=True)
class Database:
    """A table in a database: `sqlite:///path` or `postgresql://...`."""

    url: str
    table: str


@dataclass(frozen=True)
class Console:
    """Rows on standard output, at least once."""

    rows_max: int = 20


@dataclass(frozen=True)
class Foreach:
    """A function (rows: pyarrow.Table, batch: int) -> None of the user's own, at least once per batch."""

    function: Callable[[Any, int], None]


SinkDeclaration = Parquet | Database | Console | Foreach
