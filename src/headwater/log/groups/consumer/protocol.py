"""What consumers of the classic protocol say about themselves, to and from bytes. Pure.

Big-endian. A string is int16 length and UTF-8; a version beyond those known is read as the newest known.

    subscription    int16 version,  int32 topics: string,  int32 length of user data and its bytes (-1: null)
                    from 1: int32 owned topics: string, int32 partitions: int32
                    from 2: int32 generation    from 3: string? rack
    assignment      int16 version,  int32 topics: string, int32 partitions: int32,  int32 length of user data (-1: null)
"""

import struct
from collections.abc import Collection, Iterable
from typing import NamedTuple

PROTOCOL_TYPE = "consumer"

TopicPartitions = frozenset[tuple[str, int]]


class Subscription(NamedTuple):
    topics: frozenset[str]
    owned: TopicPartitions = frozenset()


class Unreadable(ValueError):
    """The bytes are no subscription and no assignment."""


def read_subscription(metadata: bytes) -> Subscription:
    reader = _Reader(metadata)
    version = reader.int16()
    topics = frozenset(reader.string() for _ in range(reader.count(2)))
    reader.skip(max(reader.int32(), 0))
    owned = _read_partitions(reader) if version >= 1 else frozenset()
    return Subscription(topics, owned)


def read_assignment(assignment: bytes) -> TopicPartitions:
    if not assignment:
        return frozenset()
    reader = _Reader(assignment)
    reader.int16()
    return _read_partitions(reader)


def write_assignment(partitions: Iterable[tuple[str, int]], *, version: int = 0) -> bytes:
    return struct.pack(">h", version) + _write_partitions(partitions) + struct.pack(">i", -1)


def write_subscription(topics: Collection[str], owned: Iterable[tuple[str, int]] = ()) -> bytes:
    named = b"".join(_string(topic) for topic in sorted(topics))
    return struct.pack(">hi", 1, len(topics)) + named + struct.pack(">i", -1) + _write_partitions(owned)


def version_of(metadata: bytes) -> int:
    return min(max(_Reader(metadata).int16(), 0), 3)


def _write_partitions(partitions: Iterable[tuple[str, int]]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    parts = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        parts.append(_string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)


def _read_partitions(reader: "_Reader") -> TopicPartitions:
    partitions: set[tuple[str, int]] = set()
    for _ in range(reader.count(6)):
        topic = reader.string()
        partitions |= {(topic, reader.int32()) for _ in range(reader.count(4))}
    return frozenset(partitions)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


class _Reader:
    """Every length is compared with what remains before it is believed."""

    def __init__(self, content: bytes) -> None:
        self._content, self._position = content, 0

    def int16(self) -> int:
        return int.from_bytes(self.skip(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.skip(4), signed=True)

    def count(self, at_least_bytes: int) -> int:
        count = self.int32()
        if count * at_least_bytes > len(self._content) - self._position:
            raise Unreadable("a count is larger than what remains")
        return max(count, 0)

    def string(self) -> str:
        try:
            return self.skip(self.int16()).decode()
        except UnicodeDecodeError:
            raise Unreadable("a name is not written in UTF-8") from None

    def skip(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._content):
            raise Unreadable("a field is longer than what remains")
        taken = self._content[self._position : end]
        self._position = end
        return taken
