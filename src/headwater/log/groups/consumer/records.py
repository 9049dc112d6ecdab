"""Keys and values of the offsets topic for groups of the consumer protocol, in Kafka's own layout. Pure.

Keys are big-endian; a string in a key is int16 length and UTF-8:

    int16 kind,  string group,  and for kinds with a member or a pattern: string

    kind 3   the group's epoch                  value  int32 epoch
    kind 5   what a member subscribes to        value  string? instance id,  string? rack,  string client id,
                                                       string client host,  array of string: topics,
                                                       string? pattern,  int32 rebalance timeout,  string? assignor
                                                       tag 0: int8 1,  int32 session timeout,
                                                              array of protocols: string name,  bytes metadata
    kind 6   the epoch of the target            value  int32 epoch
    kind 7   a member's share of the target     value  partitions
    kind 8   what a member has                  value  int32 epoch,  int32 previous epoch,  int8 state,
                                                       partitions assigned,  partitions to revoke
    kind 16  topics that match a pattern        value  array of string,  int64 0,  int64 0

Values begin with int16 0, are in the flexible form (lengths are varints, one larger than they say; 0 is null) and end,
as each array's elements do, with tagged fields. Partitions are an array of: 16 bytes topic id, array of int32. A null
value deletes its key.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, TypeVar
from uuid import UUID

from headwater.errors import CorruptBatch
from headwater.log.groups.consumer.assignors import PartitionId, Partitions
from headwater.log.groups.consumer.reconciliation import Share
from headwater.log.groups.consumer.states import MemberState
from headwater.log.groups.member import Protocol

Element = TypeVar("Element")


class Kind(IntEnum):
    GROUP = 3
    MEMBER = 5
    TARGET = 6
    TARGET_MEMBER = 7
    SHARE = 8
    PATTERN = 16


WITH_NAME = frozenset({Kind.MEMBER, Kind.TARGET_MEMBER, Kind.SHARE, Kind.PATTERN})


class StateKey(NamedTuple):
    group: str
    kind: Kind
    name: str = ""
    """The member's id, or the pattern."""


class Epoch(NamedTuple):
    """Of a group, or of a target assignment."""

    epoch: int


class ClassicMember(NamedTuple):
    """What is known of a member only because it speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class MemberData(NamedTuple):
    """What a member said about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None


class Target(NamedTuple):
    partitions: Partitions


class Matched(NamedTuple):
    """The topics that a pattern matched when it was last compared with all of them."""

    topics: frozenset[str]


StateValue = Epoch | MemberData | Target | Share | Matched


def encode_key(key: StateKey) -> bytes:
    encoded = struct.pack(">h", key.kind) + _key_string(key.group)
    return encoded + _key_string(key.name) if key.kind in WITH_NAME else encoded


def decode_key(key: bytes) -> StateKey | None:
    """None for kinds of records that are not of a consumer group; CorruptBatch if it cannot be read."""
    reader = _Reader(key)
    kind = reader.int16()
    if kind not in Kind.__members__.values():
        return None
    group = reader.key_string()
    return StateKey(group, Kind(kind), reader.key_string() if kind in WITH_NAME else "")


def encode_value(value: StateValue) -> bytes:
    body = bytearray(struct.pack(">h", 0))
    match value:
        case Epoch(epoch):
            body += struct.pack(">i", epoch)
        case MemberData():
            return bytes(body + _encode_member(value))
        case Target(partitions):
            body += _partitions(partitions)
        case Share():
            body += struct.pack(">iib", value.epoch, value.previous_epoch, value.state)
            body += _partitions(value.assigned) + _partitions(value.revoking)
        case Matched(topics):
            body += _array([_string(topic) for topic in sorted(topics)]) + struct.pack(">qq", 0, 0)
    return bytes(body + b"\0")


def _encode_member(member: MemberData) -> bytes:
    body = _string(member.instance_id) + _string(member.rack_id)
    body += _string(member.client_id) + _string(member.client_host)
    body += _array([_string(topic) for topic in sorted(member.topics)]) + _string(member.pattern)
    body += struct.pack(">i", member.rebalance_timeout_ms) + _string(member.assignor)
    if member.classic is None:
        return body + b"\0"
    protocols = [_string(one.name) + _bytes(one.metadata) + b"\0" for one in member.classic.protocols]
    classic = struct.pack(">bi", 1, member.classic.session_timeout_ms) + _array(protocols) + b"\0"
    return body + b"\1\0" + _varint(len(classic)) + classic


def decode_value(key: StateKey, value: bytes) -> StateValue:
    reader = _Reader(value)
    version = reader.int16()
    if version not in (0, 1):
        raise CorruptBatch(f"the state of a group is written in the unknown version {version}")
    match key.kind:
        case Kind.GROUP | Kind.TARGET:
            return Epoch(reader.int32())
        case Kind.MEMBER:
            return _read_member(reader)
        case Kind.TARGET_MEMBER:
            return Target(reader.partitions())
        case Kind.SHARE:
            head = reader.int32(), reader.int32()
            state = reader.int8()
            if state not in MemberState.__members__.values():
                raise CorruptBatch(f"a member is in the unknown state {state}")
            return Share(*head, MemberState(state), reader.partitions(), reader.partitions())
        case Kind.PATTERN:
            return Matched(frozenset(reader.array(reader.string)))


def _read_member(reader: "_Reader") -> MemberData:
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    topics, pattern = frozenset(reader.array(reader.string)), reader.nullable_string()
    rebalance_timeout_ms, assignor = reader.int32(), reader.nullable_string()
    classic = None
    for _ in range(reader.varint()):
        tag, size = reader.varint(), reader.varint()
        if tag == 0:
            classic = _read_classic(_Reader(reader.take(size)))
        else:
            reader.take(size)
    return MemberData(
        instance_id, rack_id, client_id, client_host, topics, pattern, rebalance_timeout_ms, assignor, classic
    )


def _read_classic(reader: "_Reader") -> ClassicMember | None:
    if reader.int8() < 0:
        return None

    def protocol() -> Protocol:
        read = Protocol(reader.string(), reader.content())
        reader.skip_tagged()
        return read

    return ClassicMember(reader.int32(), tuple(reader.array(protocol)))


# -- the flexible form -----------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _bytes(content: bytes) -> bytes:
    return _varint(len(content) + 1) + content


def _string(text: str | None) -> bytes:
    return b"\0" if text is None else _bytes(text.encode())


def _array(elements: list[bytes]) -> bytes:
    return _varint(len(elements) + 1) + b"".join(elements)


def _partitions(partitions: Partitions) -> bytes:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return _array(
        [id.bytes + _array([struct.pack(">i", number) for number in numbers]) + b"\0" for id, numbers in topics.items()]
    )


def _key_string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


class _Reader:
    """Reads field after field; every length is compared with what remains."""

    def __init__(self, buffer: bytes) -> None:
        self._buffer, self._position = buffer, 0

    def int8(self) -> int:
        return int.from_bytes(self.take(1), signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def varint(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise CorruptBatch("a length is longer than five bytes")

    def key_string(self) -> str:
        return _text(self.take(self.int16()))

    def nullable_string(self) -> str | None:
        length = self.varint()
        return None if length == 0 else _text(self.take(length - 1))

    def string(self) -> str:
        return self.nullable_string() or ""

    def content(self) -> bytes:
        return self.take(max(self.varint() - 1, 0))

    def array(self, read: Callable[[], Element]) -> list[Element]:
        count = self.varint() - 1
        if count > len(self._buffer) - self._position:  # each takes a byte at least
            raise CorruptBatch(f"{count} elements cannot be in the bytes that remain")
        return [read() for _ in range(count)]

    def partitions(self) -> Partitions:
        def topic() -> list[PartitionId]:
            id = UUID(bytes=self.take(16))
            numbers = self.array(self.int32)
            self.skip_tagged()
            return [PartitionId(id, number) for number in numbers]

        return frozenset(one for part in self.array(topic) for one in part)

    def skip_tagged(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._buffer):
            raise CorruptBatch(f"a field claims {length} bytes where {len(self._buffer) - self._position} remain")
        taken = self._buffer[self._position : end]
        self._position = end
        return taken


def _text(encoded: bytes) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        raise CorruptBatch("a name is not written in UTF-8") from None
