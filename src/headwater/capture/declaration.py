"""The declaration of a capture in an app: `hw.capture.postgres(...)`.

Plain data; `headwater run` sees that it exists.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwater.capture.definition import Definition
from headwater.capture.topic_names import listed
from headwater.errors import InvalidCapture
from headwater.secret_urls import without_secrets

UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}


@dataclass(frozen=True)
class CaptureDeclaration:
    """A capture of one table of an app. It takes the name of the table's topic, unless it has one; those that have the
    same name are one capture."""

    url: str = field(repr=False)
    tables: tuple[str, ...]
    partitions: int = 1
    snapshot: bool = True
    transactions: bool = False
    max_retained: str = ""
    at_limit: str = "drop-slot"
    name: str = ""

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
    name: str = "",
) -> CaptureDeclaration:
    """A table of a PostgreSQL database, its rows and then every change of them.

    Tables that are declared with the same `name` are one capture, with one replication slot: a transaction that writes
    to several of them is seen as a whole, or not at all.

    `max_retained` is how much WAL the database may keep for it ("2GiB"); what happens then is `at_limit`: drop-slot
    gives the capture up and says so, pause-others lets the node's other captures wait for it, warn only says so.

    >>> postgres("postgresql://db/shop", table="public.users").definition("users").topic
    'users'
    """
    declared = CaptureDeclaration(url, (table,), partitions, snapshot, transactions, max_retained, at_limit, name)
    declared.definition("checked")
    return declared


def mariadb(
    url: str, *, table: str, partitions: int = 1, snapshot: bool = True, name: str = ""
) -> CaptureDeclaration:  # fmt: skip
    """A table of a MariaDB database, its rows and then every change of them. `name` as for `postgres`.

    >>> mariadb("mysql://db/shop", table="users").definition("users").topic
    'users'
    """
    declared = CaptureDeclaration(url, (table,), partitions, snapshot, name=name)
    declared.definition("checked")
    return declared


def sqlite(
    path: str, *, table: str, partitions: int = 1, snapshot: bool = True, name: str = ""
) -> CaptureDeclaration:  # fmt: skip
    """A table of a SQLite database, its rows and then every change of them, whichever process makes it. `name` as for
    `postgres`.

    >>> sqlite("/var/lib/shop.db", table="users").definition("users").url
    'sqlite:////var/lib/shop.db'
    """
    declared = CaptureDeclaration(f"sqlite:///{Path(path).absolute()}", (table,), partitions, snapshot, name=name)
    declared.definition("checked")
    return declared


def definitions_of(declared: Mapping[str, CaptureDeclaration]) -> dict[str, Definition]:
    """The captures that the declarations of an app make, by name; `declared` is by topic.

    >>> users, orders = (postgres("postgresql://db/shop", table=f"public.{name}", name="shop") for name in ("u", "o"))
    >>> made = definitions_of({"users": users, "orders": orders})["shop"]
    >>> made.tables, made.topic
    (('public.o', 'public.u'), 'public.o=orders,public.u=users')
    """
    named: dict[str, dict[str, CaptureDeclaration]] = {}
    for topic, one in declared.items():
        named.setdefault(one.name or topic, {})[topic] = one
    return {name: _together(name, several) for name, several in named.items()}


def _together(name: str, several: Mapping[str, CaptureDeclaration]) -> Definition:
    first = next(iter(several.values()))
    if len(several) == 1 and not first.name:
        return first.definition(name)
    for topic, one in several.items():
        if replace(one, tables=()) != replace(first, tables=()):
            raise InvalidCapture(
                f"topic {topic} declares capture {name} otherwise than topic {next(iter(several))} does",
                "Tables that share a capture have the same database and settings: give one of them another name.",
            )
    topics = {one.tables[0]: topic for topic, one in several.items()}
    if len(topics) < len(several):
        raise InvalidCapture(f"capture {name} has a table that is declared for two topics", "Declare it once.")
    return replace(first.definition(name), tables=tuple(sorted(topics)), topic=listed(topics))


def apart(declared: Mapping[str, CaptureDeclaration]) -> list[tuple[str, ...]]:
    """Topics whose tables are in one database and have captures of their own: a transaction may be seen in parts."""
    databases: dict[str, dict[str, str]] = {}
    for topic, one in declared.items():
        databases.setdefault(without_secrets(one.url), {}).setdefault(one.name or topic, topic)
    return [tuple(topics.values()) for topics in databases.values() if len(topics) > 1]


def size_bytes(text: str) -> int:
    """
    >>> size_bytes("2GiB"), size_bytes("500 MB")
    (2147483648, 500000000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if not found or found[2].lower() not in UNITS:
        raise InvalidCapture(f"{text!r} is no size", "Write a number and a unit, such as 2GiB or 500MB.")
    return int(float(found[1]) * UNITS[found[2].lower()])
