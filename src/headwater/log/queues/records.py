"""Keys and values of the topic that keeps the states of queues. Pure.

Big-endian; a text is uint16 length and UTF-8.

    key        int8 kind, text queue;                                                 kind 1: the queue itself
               for kinds 2 and 3 also uuid topic, int32 partition; for kind 3 also uint16 slot

    queue      int8 0, uint16 count, each: text setting, text value
    snapshot   int8 0, int64 life, int64 number, int64 start, 5 × int64 totals, rows            kind 2
    change     int8 0, int64 life, int64 number, rows                                           kind 3
    row        int64 first, int64 last, int8 state, int32 deliveries, int64 mark, text first failure, text last one

A null value deletes its key. A change overwrites rows of the snapshot before it: state is the newest snapshot with all
changes of the same life and a larger number, in their order. Changes go round a ring of SLOTS keys and a snapshot is
written before the ring is full, so that compaction only removes what a snapshot has overtaken.

Who holds a message and until when is not written: consumers do not outlive the process. The mark of a message that
waits for its time is one of the wall clock here, since the time that a process ran means nothing to the next.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from headwater.errors import CorruptBatch
from headwater.log.queues.delivery import Totals
from headwater.log.queues.ranges import Failure, Range
from headwater.log.queues.states import State

QUEUE, SNAPSHOT, CHANGE = 1, 2, 3
SLOTS = 256
FAILURE_CHARACTERS_MAX = 500

_ROW = struct.Struct(">qqbiq")
_HEAD = struct.Struct(">bqq")
_SNAPSHOT = struct.Struct(">6q")
_STATES = (State.AVAILABLE, State.ACQUIRED, State.FAILED, State.ACKNOWLEDGED, State.ARCHIVED)


class QueuePartitionId(NamedTuple):
    queue: str
    topic: UUID
    partition: int


class QueueKey(NamedTuple):
    queue: str


class SnapshotKey(NamedTuple):
    of: QueuePartitionId


class ChangeKey(NamedTuple):
    of: QueuePartitionId
    slot: int


class Snapshot(NamedTuple):
    life: int
    """A random number: changes of an earlier queue of the same name are not this one's."""
    number: int
    start: int
    totals: Totals
    rows: list[Range]


class Change(NamedTuple):
    life: int
    number: int
    rows: list[Range]


def encode_key(key: QueueKey | SnapshotKey | ChangeKey) -> bytes:
    if isinstance(key, QueueKey):
        return bytes((QUEUE,)) + _text(key.queue)
    queue, topic, partition = key.of
    kind = SNAPSHOT if isinstance(key, SnapshotKey) else CHANGE
    head = bytes((kind,)) + _text(queue) + topic.bytes + struct.pack(">i", partition)
    return head if isinstance(key, SnapshotKey) else head + struct.pack(">H", key.slot)


def decode_key(encoded: bytes) -> QueueKey | SnapshotKey | ChangeKey | None:
    """None for a kind that is not known."""
    reader = _Reader(encoded)
    kind, queue = reader.take(1)[0], reader.text()
    if kind == QUEUE:
        return QueueKey(queue)
    if kind not in (SNAPSHOT, CHANGE):
        return None
    of = QueuePartitionId(queue, UUID(bytes=bytes(reader.take(16))), reader.unpack(">i")[0])
    return SnapshotKey(of) if kind == SNAPSHOT else ChangeKey(of, reader.unpack(">H")[0])


def encode_configs(configs: Mapping[str, str]) -> bytes:
    pairs = b"".join(_text(name) + _text(value) for name, value in configs.items())
    return struct.pack(">bH", 0, len(configs)) + pairs


def decode_configs(value: bytes) -> dict[str, str]:
    reader = _Reader(value)
    _, count = reader.unpack(">bH")
    return {reader.text(): reader.text() for _ in range(count)}


def encode_snapshot(snapshot: Snapshot, *, wall_ahead_ms: int) -> bytes:
    totals = snapshot.totals
    head = _HEAD.pack(0, snapshot.life, snapshot.number)
    books = (totals.delivered, totals.redelivered, totals.acknowledged, totals.dead, totals.dropped)
    return head + _SNAPSHOT.pack(snapshot.start, *books) + _rows(snapshot.rows, wall_ahead_ms)


def decode_snapshot(value: bytes, *, wall_ahead_ms: int) -> Snapshot:
    reader = _Reader(value)
    _, life, number = reader.unpack(_HEAD.format)
    start, *totals = reader.unpack(_SNAPSHOT.format)
    return Snapshot(life, number, start, Totals(*totals), reader.rows(wall_ahead_ms))


def encode_change(change: Change, *, wall_ahead_ms: int) -> bytes:
    return _HEAD.pack(0, change.life, change.number) + _rows(change.rows, wall_ahead_ms)


def decode_change(value: bytes, *, wall_ahead_ms: int) -> Change:
    reader = _Reader(value)
    _, life, number = reader.unpack(_HEAD.format)
    return Change(life, number, reader.rows(wall_ahead_ms))


def as_kept(row: Range) -> Range:
    """The row as a restart finds it: nobody holds anything."""
    return row._replace(mark=0, holder="") if row.state is State.ACQUIRED else row._replace(holder="")


def _rows(rows: Iterable[Range], wall_ahead_ms: int) -> bytes:
    parts = []
    for row in map(as_kept, rows):
        mark = row.mark + wall_ahead_ms if row.mark and row.state is State.AVAILABLE else row.mark
        parts.append(_ROW.pack(row.first, row.last, _STATES.index(row.state), row.deliveries, mark))
        parts.append(_text(row.failure.first) + _text(row.failure.last))
    return b"".join(parts)


def _text(text: str) -> bytes:
    encoded = text.encode(errors="replace")
    return struct.pack(">H", len(encoded)) + encoded


class _Reader:
    def __init__(self, buffer: bytes) -> None:
        self._buffer, self._position = memoryview(buffer), 0

    def take(self, length: int) -> memoryview:
        end = self._position + length
        if end > len(self._buffer):
            raise CorruptBatch(f"a field claims {length} bytes where {len(self._buffer) - self._position} remain")
        taken = self._buffer[self._position : end]
        self._position = end
        return taken

    def unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def text(self) -> str:
        try:
            return bytes(self.take(self.unpack(">H")[0])).decode()
        except UnicodeDecodeError:
            raise CorruptBatch("a name is not written in UTF-8") from None

    def rows(self, wall_ahead_ms: int) -> list[Range]:
        rows: list[Range] = []
        while self._position < len(self._buffer):
            first, last, state, deliveries, mark = self.unpack(_ROW.format)
            if not 0 <= state < len(_STATES) or last < first:
                raise CorruptBatch(f"messages {first} to {last} are in the unknown state {state}")
            failure = Failure(self.text(), self.text())
            if mark and _STATES[state] is State.AVAILABLE:
                mark -= wall_ahead_ms
            rows.append(Range(first, last, _STATES[state], deliveries, mark, "", failure))
        return rows
