"""Record batches, version 2, to bytes and back. Pure.

A batch, big-endian; all that follows the checksum is covered by it:

     0  int64   base offset          filled in by the log
     8  int32   length of all that follows this field
    12  int32   leader epoch         filled in by the log
    16  int8    magic = 2
    17  uint32  CRC-32C of all that follows this field
    21  int16   attributes           bits 0-2 codec, 3 log-append time, 4 transactional, 5 control
    23  int32   last offset delta
    27  int64   base timestamp
    35  int64   largest timestamp
    43  int64   producer id          -1 without idempotence
    51  int16   producer epoch
    53  int32   base sequence
    57  int32   number of records
    61  records, compressed as a whole

A record; varints are zigzag:

    varint length, int8 attributes, varlong timestamp delta, varint offset delta,
    varint key length (-1 null), key, varint value length (-1 null), value,
    varint headers, each: varint name length, name, varint value length (-1 null), value
"""

import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from crc32c import crc32c

from headwater.errors import CorruptBatch, InvalidRecord, UnsupportedFormat
from headwater.log.compression import CODECS, codec_number, compress, decompress, few_at_once
from headwater.record import Beginning, Header, Record

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 61
LENGTH_END = 12  # `length` counts what follows here
CHECKSUMMED_FROM = 21
MAGIC = 2
TIMESTAMP_MIN, TIMESTAMP_MAX = -(2**62), 2**62 - 1  # the difference of any two fits into 64 bits

COPIED_BYTES_MAX = 1024**2

CODEC_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return LENGTH_END + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME_FLAG)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def last_sequence(self) -> int:
        """Sequences count from 0 to 2**31 - 1 and start again."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, as it stands there; nothing about it is checked but that it is whole."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too few for a batch header of {HEADER_BYTES}")
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def first_batch_bytes(buffer: Buffer) -> int:
    """Bytes of the batch that a buffer begins with, whole or not; 0 if the buffer is too short to tell."""
    return LENGTH_END + int.from_bytes(buffer[8:LENGTH_END], "big", signed=True) if len(buffer) >= LENGTH_END else 0


def plausible(header: BatchHeader, *, bytes_left: int) -> bool:
    """Could this be a batch at all? Cheap: says nothing about the checksum."""
    return (
        header.magic == MAGIC
        and HEADER_BYTES <= header.size <= bytes_left
        and header.base_offset >= 0
        and header.last_offset_delta >= 0
    )


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    body = memoryview(buffer)[position + CHECKSUMMED_FROM : position + header.size]
    return crc32c(body) == header.crc


def checked_header(batch: Buffer) -> BatchHeader:
    """The header of exactly one whole batch that a producer sent; raises what is wrong with it."""
    header = read_header(batch)
    if header.magic != MAGIC:
        raise UnsupportedFormat(f"a batch has format {header.magic}; only format 2 is stored")
    if header.size != len(batch):
        raise CorruptBatch(f"a batch says it has {header.size} bytes where {len(batch)} were sent")
    if not check_crc(batch, header):
        raise CorruptBatch("the checksum of a batch does not fit its bytes")
    if header.codec >= len(CODECS):
        raise UnsupportedFormat(f"compression {header.codec} is unknown")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(
            f"a batch of {header.record_count} records cannot end at offset delta {header.last_offset_delta}"
        )
    return header


def assign_offsets(batch: bytearray | memoryview, *, base_offset: int, leader_epoch: int) -> None:
    """Write the batch's base offset and leader epoch into its header.

    These fields lie before the checksum, so it stays valid.
    """
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, 12, leader_epoch)


def pack_header(header: BatchHeader) -> bytearray:
    """The 61 bytes of a header; the checksum is for `seal` to fill in once the records follow."""
    return bytearray(_HEADER.pack(*header))


def stamp_append_time(batch: bytearray | memoryview, header: BatchHeader, *, now_ms: int) -> BatchHeader:
    """Make `now_ms` the time of every record in the batch, and the checksum fit again."""
    header = header._replace(attributes=header.attributes | APPEND_TIME_FLAG, max_timestamp=now_ms)
    _ATTRIBUTES.pack_into(batch, 21, header.attributes)
    _MAX_TIMESTAMP.pack_into(batch, 35, now_ms)
    return header._replace(crc=seal(batch))


def finish(
    batch: bytearray | memoryview, codec: int, count: int, base_time: int, newest: int, producer: tuple[int, int, int]
) -> None:
    """Write the header of a new batch, base offset 0, before its records; `producer`: its id, epoch and sequence."""
    _HEADER.pack_into(
        batch, 0, 0, len(batch) - LENGTH_END, 0, MAGIC, 0, codec, count - 1, base_time, newest, *producer, count
    )
    seal(batch)


def flagged(batch: bytearray, flags: int) -> bytearray:
    """Add to the attributes of a finished batch."""
    _ATTRIBUTES.pack_into(batch, 21, _ATTRIBUTES.unpack_from(batch, 21)[0] | flags)
    seal(batch)
    return batch


def seal(batch: bytearray | memoryview) -> int:
    """Write the checksum of a finished batch into its header."""
    crc = crc32c(memoryview(batch)[CHECKSUMMED_FROM:])
    _CRC.pack_into(batch, 17, crc)
    return crc


def encode_batch(
    records: Iterable[Record],
    *,
    compression: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """One batch with base offset 0. Every record must have a timestamp; there must be at least one record."""
    rows = list(records)
    if not rows:
        raise InvalidRecord("a batch needs at least one record")
    times = [row.timestamp_ms for row in rows]
    base_timestamp, newest = times[0], max(times)
    if min(times) < TIMESTAMP_MIN or newest > TIMESTAMP_MAX:
        raise InvalidRecord(f"timestamps lie between {TIMESTAMP_MIN} and {TIMESTAMP_MAX}")
    parts: list[bytes] = []
    for delta, row in enumerate(rows):
        _write_record(parts, row, row.timestamp_ms - base_timestamp, delta)
    codec = codec_number(compression)
    batch = bytearray(HEADER_BYTES) + compress(codec, b"".join(parts))
    finish(batch, codec, len(rows), base_timestamp, newest, (producer_id, producer_epoch, base_sequence))
    return batch


def batch_times(batch: Buffer, *, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Timestamp and offset of each record of one whole batch; keys, values and headers are passed over unread."""
    with unpacked(batch, bytes_max=bytes_max) as (header, body):
        for timestamp, offset, _, _ in _frames(header, body):
            yield timestamp, offset


def without_key(batch: Buffer, *, bytes_max: int) -> int:
    """How many records of one whole batch have no key; values and headers are passed over unread."""
    with unpacked(batch, bytes_max=bytes_max) as (header, body):
        return _count_keyless(header, body)


def _count_keyless(header: BatchHeader, body: Buffer) -> int:
    """Not by `_frames`: every batch for a compacted topic passes here, and this is twice as quick."""
    position, found = 0, 0
    try:
        for _ in range(header.record_count):
            length, start = _read_varint(body, position)
            position = start + length
            if length < 1 or position > len(body):
                raise CorruptBatch(f"a record claims {length} bytes where {len(body) - start} remain")
            cursor = start + 1  # of the timestamp; then the offset, both passed over
            while body[cursor] > 0x7F:
                cursor += 1
            cursor += 1
            while body[cursor] > 0x7F:
                cursor += 1
            key_length, cursor = _read_varint(body, cursor + 1)
            if cursor + key_length > position:
                raise CorruptBatch(f"a key claims {key_length} bytes where {position - cursor} remain")
            found += key_length < 0
    except IndexError:
        raise CorruptBatch(f"the batch at offset {header.base_offset} ends inside a record") from None
    if position != len(body):
        raise CorruptBatch(f"the batch at offset {header.base_offset} has bytes after its last record")
    return found


@contextmanager
def unpacked(
    batch: Buffer, *, bytes_max: int, wait_seconds: float | None = None
) -> Iterator[tuple[BatchHeader, Buffer]]:
    """The header and the records of one whole batch. Leave it soon: only a few large ones may be held at a time.

    CorruptBatch if the checksum is wrong, InvalidRecord if the records are more than `bytes_max`, UnavailableError if
    others hold large ones for longer than `wait_seconds`.
    """
    header = read_header(batch)
    if not plausible(header, bytes_left=len(batch)) or not check_crc(batch, header):
        raise CorruptBatch(f"the batch at offset {header.base_offset} is damaged")
    packed = memoryview(batch)[HEADER_BYTES : header.size]
    with few_at_once(header.codec, packed, wait_seconds=wait_seconds):
        body = decompress(header.codec, packed, bytes_max=bytes_max)
        # Bytes are quicker to read than a view of them, but a copy of much is more memory than was agreed on.
        yield header, bytes(body) if len(body) <= COPIED_BYTES_MAX else memoryview(body)


def recompressed(batch: Buffer, codec: int, *, level: int | None, bytes_max: int) -> bytearray:
    """The same records under the same header, in another compression."""
    with unpacked(batch, bytes_max=bytes_max) as (header, body):
        packed = compress(codec, body, level=level)
    attributes = header.attributes & ~CODEC_MASK | codec
    length = HEADER_BYTES - LENGTH_END + len(packed)
    again = pack_header(header._replace(attributes=attributes, length=length)) + packed
    seal(again)
    return again


def decode_batch(batch: Buffer, *, bytes_max: int) -> list[Record]:
    """The records of one whole batch. CorruptBatch if the checksum or any length is wrong."""
    with unpacked(batch, bytes_max=bytes_max) as (header, body):
        return list(records_of(header, body))


def records_of(header: BatchHeader, body: Buffer, *, field_bytes_max: int = sys.maxsize) -> Iterator[Record]:
    """The records of an unpacked batch one by one. CorruptBatch where one does not fit, and if bytes remain.

    Of longer keys and values only a Beginning is copied: while a large one is, no other thread runs.
    """
    for timestamp, offset, position, end in _frames(header, body):
        key, position = _read_bytes(body, position, end, field_bytes_max)
        value, position = _read_bytes(body, position, end, field_bytes_max)
        headers, position = _read_headers(body, position, end, field_bytes_max)
        if position != end:
            raise CorruptBatch(f"a record has {end - position} bytes more than its fields")
        yield Record(value, key, headers, timestamp, offset)


def _frames(header: BatchHeader, body: Buffer) -> Iterator[tuple[int, int, int, int]]:
    """Timestamp and offset of each record, where its key begins, and where it ends: the one loop over records."""
    position, size, last_delta, append_time = 0, len(body), header.last_offset_delta, header.append_time
    base_offset, base_time = header.base_offset, header.max_timestamp if append_time else header.base_timestamp
    for _ in range(header.record_count):
        length, start = _read_varint(body, position)
        position = start + length
        if length < 1 or position > size:
            raise CorruptBatch(f"a record claims {length} bytes where {size - start} remain")
        timestamp_delta, cursor = _read_varint(body, start + 1)
        offset_delta, cursor = _read_varint(body, cursor)
        if not 0 <= offset_delta <= last_delta:
            raise CorruptBatch(f"a record claims offset {offset_delta} of a batch that ends at {last_delta}")
        yield base_time if append_time else base_time + timestamp_delta, base_offset + offset_delta, cursor, position
    if position != size:
        raise CorruptBatch(f"the batch at offset {base_offset} has bytes after its last record")


def _write_record(parts: list[bytes], record: Record, timestamp_delta: int, offset_delta: int) -> None:
    row = b"".join((b"\0", _VARINTS[timestamp_delta], _VARINTS[offset_delta], *_content(record)))  # attributes first
    parts.append(_VARINTS[len(row)])
    parts.append(row)


def content_of(record: Record) -> bytes:
    """Encodes the part of a record that does not depend on its batch: key, value and headers.

    >>> content_of(Record(b"yes", b"k"))
    b'\\x02k\\x06yes\\x00'
    """
    return b"".join(_content(record))


def _content(record: Record) -> list[bytes]:
    key, value = record.key, record.value
    varint = _VARINTS
    fields = [
        _NULL if key is None else varint[len(key)],
        key or b"",
        _NULL if value is None else varint[len(value)],
        value or b"",
        varint[len(record.headers)],
    ]
    for name, content in record.headers:
        encoded = name.encode()
        fields += (varint[len(encoded)], encoded, _NULL if content is None else varint[len(content)], content or b"")
    return fields


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    row = bytearray()
    while zigzag > 0x7F:
        row.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    row.append(zigzag)
    return bytes(row)


class _Varints(dict[int, bytes]):
    """Most lengths and deltas are small: those are looked up."""

    def __missing__(self, number: int) -> bytes:
        return _varint(number)


_VARINTS = _Varints({number: _varint(number) for number in range(2048)})
_NULL = _varint(-1)


def _read_headers(body: Buffer, position: int, end: int, longest: int) -> tuple[tuple[Header, ...], int]:
    count, position = _read_varint(body, position)
    if not 0 <= count <= end - position:
        raise CorruptBatch(f"a record claims {count} headers where {end - position} bytes remain")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end, sys.maxsize)
        value, position = _read_bytes(body, position, end, longest)
        if name is None:
            raise CorruptBatch("a header has no name")
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position


def _read_bytes(body: Buffer, position: int, end: int, longest: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(body, position)
    if length < 0:
        return None, position
    if length > end - position:
        raise CorruptBatch(f"a field claims {length} bytes where {end - position} remain")
    if length > longest:
        return Beginning(body[position : position + longest], length), position + length
    return bytes(body[position : position + length]), position + length


def _read_varint(body: Buffer, position: int) -> tuple[int, int]:
    try:
        byte = body[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        zigzag, shift = byte & 0x7F, 7
        while True:
            position += 1
            byte = body[position]
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (zigzag >> 1) ^ -(zigzag & 1), position + 1
            shift += 7
            if shift > 63:
                raise CorruptBatch("a number is longer than ten bytes")
    except IndexError:
        raise CorruptBatch("a batch ends inside a record") from None
