"""The words every part speaks: records and where they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Header = tuple[str, bytes | None]


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Position(NamedTuple):
    """Where a record is. A read "at least at this position" includes that record."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Record:
    """One fact in the log. `offset` and a missing `timestamp_ms` are filled in by the append.

    A record whose value is None is a tombstone: on a compacted topic it deletes its key.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp_ms: int = -1
    offset: int = -1
