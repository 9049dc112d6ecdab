"""Keys and values of the offsets topic, in Kafka's own layout so that its tools can read them. Pure.

Big-endian; a string is int16 length and UTF-8 (-1: null), bytes are int32 length and content.

    key of an offset      int16 1,  string group,  string topic,  int32 partition       (0 means the same)
    its value             int16 3,  int64 offset,  int32 leader epoch,  string metadata,  int64 commit time
                          older:    0 and 2 without the leader epoch; 1 as 2, followed by int64 expiry

    key of a group        int16 2,  string group
    its value             int16 3,  string protocol type,  int32 generation,  string? protocol,  string? leader,
                          int64 time of the state,  int32 number of members, each:
                              string id,  string? instance id,  string client id,  string client host,
                              int32 rebalance timeout,  int32 session timeout,  bytes metadata,  bytes assignment

A null value deletes its key. Values are those of one record each, so compaction keeps the newest of every key.
"""

import struct
from typing import NamedTuple

from headwater.errors import CorruptBatch
from headwater.log.groups.member import SavedGroup, SavedMember

OFFSET_KEY, GROUP_KEY = 1, 2
OFFSET_VALUE, GROUP_VALUE = 3, 3
STRING_BYTES_MAX = 2**15 - 1


class CommittedOffset(NamedTuple):
    """How far a group has read a partition: the offset of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    """When it was committed, by the wall clock; filled in by the commit."""


class OffsetKey(NamedTuple):
    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group: str


def encode_offset_key(key: OffsetKey) -> bytes:
    return struct.pack(">h", OFFSET_KEY) + _string(key.group) + _string(key.topic) + struct.pack(">i", key.partition)


def encode_group_key(key: GroupKey) -> bytes:
    return struct.pack(">h", GROUP_KEY) + _string(key.group)


def encode_offset(committed: CommittedOffset) -> bytes:
    head = struct.pack(">hqi", OFFSET_VALUE, committed.offset, committed.leader_epoch)
    return head + _string(committed.metadata) + struct.pack(">q", committed.commit_ms)


def encode_group(group: SavedGroup, *, now_ms: int) -> bytes:
    value = bytearray(struct.pack(">h", GROUP_VALUE))
    value += _string(group.protocol_type) + struct.pack(">i", group.generation)
    value += _string(group.protocol_name) + _string(group.leader_id)
    value += struct.pack(">qi", now_ms, len(group.members))
    for member in group.members:
        value += _string(member.id) + _string(member.instance_id) + _string(member.client_id)
        value += _string(member.client_host)
        value += struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms)
        value += _bytes(member.metadata) + _bytes(member.assignment)
    return bytes(value)


def decode_key(key: bytes) -> OffsetKey | GroupKey | None:
    """Decodes a record; None for kinds of records that are not ours. CorruptBatch if it cannot be read."""
    reader = _Reader(key)
    version = reader.int16()
    if version in (0, OFFSET_KEY):
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    return GroupKey(reader.string()) if version == GROUP_KEY else None


def decode_offset(value: bytes) -> CommittedOffset:
    reader = _Reader(value)
    version = reader.int16()
    if not 0 <= version <= OFFSET_VALUE:
        raise CorruptBatch(f"an offset is written in the unknown version {version}")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    return CommittedOffset(offset, leader_epoch, reader.string(), reader.int64())


def decode_group(group_id: str, value: bytes) -> SavedGroup:
    reader = _Reader(value)
    version = reader.int16()
    if not 0 <= version <= GROUP_VALUE:
        raise CorruptBatch(f"a group is written in the unknown version {version}")
    protocol_type, generation = reader.string(), reader.int32()
    protocol_name, leader_id = reader.nullable_string(), reader.nullable_string()
    if version >= 2:
        reader.int64()
    members = tuple(_read_member(reader, version) for _ in range(reader.count(at_least_bytes=20)))
    return SavedGroup(group_id, protocol_type, generation, protocol_name, leader_id, members)


def _read_member(reader: "_Reader", version: int) -> SavedMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = session_timeout_ms
    return SavedMember(
        member_id, instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
        reader.content(), reader.content(),
    )  # fmt: skip


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _bytes(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class _Reader:
    """Reads field after field; every length is held against what remains."""

    def __init__(self, buffer: bytes) -> None:
        self._buffer = buffer
        self._position = 0

    def int16(self) -> int:
        return int.from_bytes(self._take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), signed=True)

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise CorruptBatch("a name is not written in UTF-8") from None

    def string(self) -> str:
        return self.nullable_string() or ""

    def content(self) -> bytes:
        return self._take(self.int32())

    def count(self, *, at_least_bytes: int) -> int:
        """A number of things that take at least so many bytes each; null counts as none."""
        count, remaining = self.int32(), len(self._buffer) - self._position
        if count * at_least_bytes > remaining:
            raise CorruptBatch(f"{count} things cannot be in the {remaining} bytes that remain")
        return max(count, 0)

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._buffer):
            raise CorruptBatch(f"a field claims {length} bytes where {len(self._buffer) - self._position} remain")
        taken = self._buffer[self._position : end]
        self._position = end
        return taken
