"""Global transaction ids of MariaDB, and positions made of them. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.errors import UndecodableChange


class Gtid(NamedTuple):
    """One transaction: the domain it belongs to, the server that wrote it first, its number in the domain."""

    domain: int
    server: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"


GtidPosition = Mapping[int, Gtid]
"""The last transaction of each domain: all up to them have passed."""


def parse_position(text: str) -> dict[int, Gtid]:
    """
    >>> position_text(parse_position("1-2-5,0-1-63"))
    '0-1-63,1-2-5'
    """
    found = {}
    for part in text.split(","):
        if not part.strip():
            continue
        try:
            domain, server, sequence = (int(number) for number in part.strip().split("-"))
        except ValueError:
            raise UndecodableChange(f"{part[:80]!r} is no GTID of MariaDB: it is written as 0-1-63") from None
        found[domain] = Gtid(domain, server, sequence)
    return found


def position_text(position: GtidPosition) -> str:
    return ",".join(str(position[domain]) for domain in sorted(position))
