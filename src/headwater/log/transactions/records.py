"""Keys and values of the transaction state topic, in Kafka's own layout so that its tools can read them. Pure.

Big-endian; varints are unsigned; a compact string is varint length + 1 and UTF-8, a compact array varint count + 1.

    key     int16 0,  string transactional id (int16 length)
    value   int16 1,  int64 producer id,  int16 epoch,  int32 timeout ms,  int8 state,
            compact array of partitions, each:
                compact string topic,  compact array of int32 partition,  varint 0
            int64 updated ms,  int64 started ms,
            varint number of tagged fields, each varint tag, varint size, content:
                0  int64 previous producer id
                1  int64 next producer id
                2  int16 version of the client
            older: int16 0, plain strings and arrays (int16 and int32 lengths; array -1: null), no tagged fields

A null value deletes its key. The epoch before the last (`last_epoch`) is not written: after a restart a producer that
missed the answer of its registration is fenced, as in Kafka.
"""

import struct
from itertools import groupby

from headwater.errors import CorruptBatch
from headwater.log.transactions.lifecycle import State
from headwater.log.transactions.transaction import NEWER_CLIENTS, Transaction
from headwater.record import TopicPartition

_HEAD = struct.Struct(">hqhib")
STATES = (
    State.EMPTY,
    State.ONGOING,
    State.PREPARE_COMMIT,
    State.PREPARE_ABORT,
    State.COMPLETE_COMMIT,
    State.COMPLETE_ABORT,
)
PREVIOUS, NEXT, VERSION = 0, 1, 2


def encode_key(transactional_id: str) -> bytes:
    encoded = transactional_id.encode()
    return struct.pack(">hh", 0, len(encoded)) + encoded


def decode_key(key: bytes) -> str | None:
    """None for a kind of record that is not ours."""
    if len(key) < 4 or key[:2] != b"\0\0" or int.from_bytes(key[2:4]) != len(key) - 4:
        return None
    return key[4:].decode(errors="replace")


def encode_value(transaction: Transaction) -> bytes:
    one = transaction
    value = bytearray(_HEAD.pack(1, one.producer_id, one.epoch, one.timeout_ms, STATES.index(one.state)))
    topics = [(topic, [place.partition for place in rows]) for topic, rows in groupby(
        sorted(one.partitions), lambda place: place.topic
    )]  # fmt: skip
    value += _varint(len(topics) + 1)
    for topic, partitions in topics:
        name = topic.encode()
        value += _varint(len(name) + 1) + name + _varint(len(partitions) + 1)
        value += struct.pack(f">{len(partitions)}i", *partitions) + b"\0"
    value += struct.pack(">qq", one.updated_ms, one.started_ms)
    tagged = []
    if one.previous_producer_id >= 0:
        tagged.append((PREVIOUS, struct.pack(">q", one.previous_producer_id)))
    if one.next_producer_id >= 0:
        tagged.append((NEXT, struct.pack(">q", one.next_producer_id)))
    if one.version:
        tagged.append((VERSION, struct.pack(">h", one.version)))
    value += _varint(len(tagged))
    for tag, content in tagged:
        value += _varint(tag) + _varint(len(content)) + content
    return bytes(value)


def decode_value(transactional_id: str, value: bytes) -> Transaction | None:
    """None for a state that says the id is no more. CorruptBatch if it cannot be read."""
    reader = _Reader(value)
    version, producer_id, epoch, timeout_ms, state = _HEAD.unpack(reader.take(_HEAD.size))
    if version not in (0, 1):
        raise CorruptBatch(f"a transaction is written in the unknown version {version}")
    if not 0 <= state < len(STATES):
        return None
    partitions = frozenset(reader.partitions(compact=version == 1))
    updated_ms, started_ms = struct.unpack(">qq", reader.take(16))
    tagged = reader.tagged_fields() if version == 1 else {}
    client = int.from_bytes(tagged.get(VERSION, b"\0\0"), signed=True)
    return Transaction(
        transactional_id=transactional_id, producer_id=producer_id, epoch=epoch, timeout_ms=timeout_ms,
        # A newer client's epoch before the last end is known all the same: it is the one before this.
        last_epoch=epoch - 1 if client >= NEWER_CLIENTS and STATES[state] is not State.EMPTY else -1,
        state=STATES[state], partitions=partitions, started_ms=started_ms, updated_ms=updated_ms, version=client,
        previous_producer_id=int.from_bytes(tagged.get(PREVIOUS, b"\xff" * 8), signed=True),
        next_producer_id=int.from_bytes(tagged.get(NEXT, b"\xff" * 8), signed=True),
    )  # fmt: skip


def _varint(number: int) -> bytes:
    row = bytearray()
    while number > 0x7F:
        row.append(number & 0x7F | 0x80)
        number >>= 7
    row.append(number)
    return bytes(row)


class _Reader:
    """Reads field after field; every length is held against what remains."""

    def __init__(self, buffer: bytes) -> None:
        self._buffer, self._position = buffer, 0

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._buffer):
            raise CorruptBatch(f"a field claims {length} bytes where {len(self._buffer) - self._position} remain")
        taken = self._buffer[self._position : end]
        self._position = end
        return taken

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 28:
                raise CorruptBatch("a number is longer than five bytes")

    def partitions(self, *, compact: bool) -> list[TopicPartition]:
        found = []
        for _ in range(self._count(compact)):
            topic = self._string(compact)
            numbers = self._count(compact)
            found += [TopicPartition(topic, one) for one in struct.unpack(f">{numbers}i", self.take(4 * numbers))]
            if compact:
                self.tagged_fields()
        return found

    def tagged_fields(self) -> dict[int, bytes]:
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}

    def _count(self, compact: bool) -> int:
        count = self.varint() - 1 if compact else int.from_bytes(self.take(4), signed=True)
        if count > len(self._buffer) - self._position:
            raise CorruptBatch(f"{count} things cannot be in the bytes that remain")
        return max(count, 0)

    def _string(self, compact: bool) -> str:
        length = self.varint() - 1 if compact else int.from_bytes(self.take(2), signed=True)
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise CorruptBatch("a name is not written in UTF-8") from None
