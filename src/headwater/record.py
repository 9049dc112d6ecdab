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


class Beginning(bytes):
    """The first bytes of a key or a value of which no more were wanted; `whole_length` says how long it is."""

    whole_length: int

    def __new__(cls, data: bytes | bytearray | memoryview, whole_length: int) -> "Beginning":
        beginning = super().__new__(cls, data)
        beginning.whole_length = whole_length
        return beginning


def whole_length(data: bytes | None) -> int:
    """
    >>> whole_length(b"abc"), whole_length(Beginning(b"abc", 900)), whole_length(None)
    (3, 900, 0)
    """
    return data.whole_length if isinstance(data, Beginning) else len(data or b"")


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
