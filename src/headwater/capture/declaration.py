"""What an app says of a capture: `hw.capture.postgres(...)`. Plain data; `headwater run` sees that it exists."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from headwater.capture.definition import Definition
from headwater.errors import InvalidCapture

UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}


@dataclass(frozen=True)
class CaptureDeclaration:
    """A capture without a name: it takes that of the table it is declared for."""

    url: str = field(repr=False)
    tables: tuple[str, ...]
    partitions: int = 1
    snapshot: bool = True
    transactions: bool = False
    max_retained: str = ""
    at_limit: str = "drop-slot"

    def definition(self, name: str) -> Definition:
        return Definition(
            name=name,
            url=self.url,
            tables=self.tables,
            topic=name,
            partitions=self.partitions,
            snapshot=self.snapshot,
            transactions=self.transactions,
            retained_bytes_max=size_bytes(self.max_retained) if self.max_retained else None,
            at_limit=self.at_limit,
        )


def postgres(
    url: str,
    *,
    table: str,
    partitions: int = 1,
    snapshot: bool = True,
    transactions: bool = False,
    max_retained: str = "",
    at_limit: str = "drop-slot",
) -> CaptureDeclaration:
    """A table of a PostgreSQL database, its rows and then every change of them.

    `max_retained` is how much WAL the database may keep for it ("2GiB"); what happens then is `at_limit`: drop-slot
    gives the capture up and says so, pause-others lets the node's other captures wait for it, warn only says so.

    >>> postgres("postgresql://db/shop", table="public.users").definition("users").topic
    'users'
    """
    declared = CaptureDeclaration(url, (table,), partitions, snapshot, transactions, max_retained, at_limit)
    declared.definition("checked")
    return declared


def mariadb(url: str, *, table: str, partitions: int = 1, snapshot: bool = True) -> CaptureDeclaration:
    """A table of a MariaDB database, its rows and then every change of them.

    >>> mariadb("mysql://db/shop", table="users").definition("users").topic
    'users'
    """
    declared = CaptureDeclaration(url, (table,), partitions, snapshot)
    declared.definition("checked")
    return declared


def sqlite(path: str, *, table: str, partitions: int = 1, snapshot: bool = True) -> CaptureDeclaration:
    """A table of a SQLite database, its rows and then every change of them, whichever process makes it.

    >>> sqlite("/var/lib/shop.db", table="users").definition("users").url
    'sqlite:////var/lib/shop.db'
    """
    declared = CaptureDeclaration(f"sqlite:///{Path(path).absolute()}", (table,), partitions, snapshot)
    declared.definition("checked")
    return declared


def size_bytes(text: str) -> int:
    """
    >>> size_bytes("2GiB"), size_bytes("500 MB")
    (2147483648, 500000000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if not found or found[2].lower() not in UNITS:
        raise InvalidCapture(f"{text!r} is no size", "Write a number and a unit, such as 2GiB or 500MB.")
    return int(float(found[1]) * UNITS[found[2].lower()])
