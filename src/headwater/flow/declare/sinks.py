"""Where outputs go beside views and topics, as plain data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Parquet:
    """Files in a folder (any fsspec URL), one or more for each batch."""

    path: str = field(repr=False)


@dataclass(frozen=True)
class Database:
    """A table in a database: `sqlite:///path` or `postgresql://...`."""

    url: str = field(repr=False)
    table: str


@dataclass(frozen=True)
class Console:
    """Rows on standard output, at least once."""

    rows_max: int = 20


@dataclass(frozen=True)
class Foreach:
    """A function (rows: pyarrow.Table, batch: int) -> None of the user's own, at least once per batch."""

    function: Callable[[Any, int], None]


@dataclass(frozen=True)
class Redis:
    """Entries of a cache: `PREFIX KEY` has the row as JSON, and goes with it. `url`: redis://..., rediss://... or
    unix://...; `expire`: entries that no row renews go after a time, such as "1 hour"."""

    url: str = field(repr=False)
    prefix: str
    expire: str | None = None


@dataclass(frozen=True)
class Webhook:
    """Requests with rows in JSON to an address, at least once; their id is the same whenever a batch comes.

    Signed with `secret` as Standard Webhooks says. Addresses inside a network are refused, unless `allow_private`."""

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
    allow_private: bool = False
    rows_max: int = 500
    timeout_seconds: float = 10.0


@dataclass(frozen=True)
class Search:
    """An index of the words in some columns of a view: what `app.view(search=[...])` declares."""

    view: str
    columns: tuple[str, ...]
    store: str = field(default="", repr=False)


SinkDeclaration = Parquet | Database | Console | Foreach | Redis | Webhook | Search
