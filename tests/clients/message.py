"""What is sent and what comes back, in one shape for every client."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

Header = tuple[str, bytes | None]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEBIBYTE = 1024**2


@dataclass(frozen=True)
class Message:
    """`timestamp_ms` None: the client's own clock. `offset` -1: not stored yet."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0
    offset: int = -1

    @property
    def content(self) -> "Message":
        """Without where and when it was stored: what a reader must find byte for byte."""
        return replace(self, offset=-1, timestamp_ms=None)


class Receipt(NamedTuple):
    """What the broker answered to a producer about one message."""

    partition: int
    offset: int


@dataclass(frozen=True)
class Producing:
    """How to send. `bytes_max` bounds the request, where a client has such a bound."""

    compression: str = "none"
    acks: int = -1
    idempotent: bool = False
    bytes_max: int = 4 * MEBIBYTE


PLAINLY = Producing()


def contents(messages: Iterable[Message]) -> list[Message]:
    return [message.content for message in messages]


def in_partition(messages: Iterable[Message], partition: int) -> list[Message]:
    return [replace(message, partition=partition) for message in messages]


def numbered(count: int, partition: int = 0) -> list[Message]:
    return [Message(b"value-%d" % number, key=b"key-%d" % number, partition=partition) for number in range(count)]


# One of everything that a record can be.
SAMPLES = (
    Message(b"plain"),
    Message(b"with a key", key=b"key"),
    Message(None, key=b"deleted"),
    Message(b"", key=b"empty value"),
    Message(b"empty key", key=b""),
    Message(None, key=None),
    Message(b"", key=b""),
    Message(bytes(range(256)), key=b"\x00\xff\n:,"),
    Message(b"two headers", key=b"h", headers=(("name", b"text"), ("other", b"more text"))),
    Message(b"repeated header", headers=(("name", b"first"), ("name", b"second"))),
    Message(b"odd headers", headers=(("none", None), ("empty", b""), ("bytes", b"\x00\x01\xfe\xff"))),
    Message("größer als ASCII ✓".encode(), key="schlüssel".encode(), headers=(("kopf-ü", "wert-ß".encode()),)),
    Message(b"an old day", timestamp_ms=1_500_000_000_123),
    Message(b"compressible " * 500, key=b"long"),
)
