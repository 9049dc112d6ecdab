"""The four codecs of record batches, with a bound on what unpacking may cost.

The number is the codec's value in the low three bits of a batch's attributes:

    0 none   1 gzip   2 snappy   3 lz4   4 zstd

Snappy comes in two shapes: the bare block format, and the "xerial" stream of the Java client:

    0   8 bytes  82 "SNAPPY" 00
    8   int32    version, 12  int32  lowest compatible version
    16  repeated: int32 length, that many bytes of one snappy block

LZ4 is a frame of blocks that do not refer to each other; the Java client cannot read any other:

    0   uint32   magic, 4  0x60 independent blocks, no checksums, 5  0x40 blocks of at most 64 KiB, 6  header checksum
    7   repeated: uint32 length (the highest bit: stored, not packed), that many bytes; a length of 0 ends it
"""

import mmap
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import cramjam

from headwater.errors import CorruptBatch, InvalidRecord, UnavailableError, UnsupportedFormat
from headwater.log.unpacked_size import XERIAL_HEADER_BYTES, XERIAL_MAGIC, size_bound, snappy_claim

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

XERIAL_BLOCK_BYTES = 32 * 1024
GZIP_PIECE_BYTES = 4 * 1024
GZIP_CHUNK_BYTES = 256 * 1024
MAPPED_BYTES = 256 * 1024
"""From this size on, memory to unpack into is mapped."""
LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_STORED = 0x8000_0000

LARGE_BYTES = 2 * 1024**2
LARGE_AT_ONCE = 2
"""How many batches that may unpack to more than LARGE_BYTES are unpacked at the same time, for all callers together."""

Buffer = bytes | bytearray | memoryview

_large = threading.BoundedSemaphore(LARGE_AT_ONCE)


def codec_number(name: str) -> int:
    try:
        return CODECS.index(name)
    except ValueError:
        raise UnsupportedFormat(f"{name!r} is not a compression; choose one of {', '.join(CODECS)}") from None


ZSTD_LEVEL = 3


def compress(codec: int, data: Buffer, *, level: int | None = None) -> bytes:
    """`level` is the codec's own; None is its usual one. Snappy has none, and lz4 has one."""
    match codec:
        case 0:
            return bytes(data)
        case 1:
            return bytes(cramjam.gzip.compress(data, level) if level is not None else cramjam.gzip.compress(data))
        case 2:
            return _xerial_compress(data)
        case 3:
            return _lz4_compress(data)
        case 4:
            return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL if level is None else level))
        case _:
            raise UnsupportedFormat(f"compression {codec} is unknown")


def decompress(codec: int, data: Buffer, *, bytes_max: int) -> Buffer:
    """Unpack, allocating at most about twice `bytes_max`; InvalidRecord if the result would be larger."""
    if codec == 0:
        return data
    try:
        match codec:
            case 1:
                return _gunzip(data, bytes_max)
            case 2:
                return _unsnap(data, bytes_max)
            case 3:
                return _into_growing(cramjam.lz4.decompress_into, data, bytes_max)
            case 4:
                return _into_growing(cramjam.zstd.decompress_into, data, bytes_max)
            case _:
                raise UnsupportedFormat(f"compression {codec} is unknown")
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise CorruptBatch(f"a batch compressed with {CODECS[codec]} cannot be unpacked: {error}") from None


def check_unpacked_size(codec: int, data: Buffer, *, bytes_max: int) -> None:
    """InvalidRecord if the content is larger than this, CorruptBatch if that cannot be found out.

    Nearly every batch is small enough by its structure, and is not unpacked.
    """
    bound = size_bound(codec, data)
    if bound is None or bound > bytes_max:
        with few_at_once(codec, data):
            decompress(codec, data, bytes_max=bytes_max)


@contextmanager
def few_at_once(codec: int, data: Buffer, *, wait_seconds: float | None = None) -> Iterator[None]:
    """Hold this while an unpacked batch is in memory: of those that may be large there are only a few at a time.

    UnavailableError if others hold them for longer than `wait_seconds`; None waits for as long as it takes.
    """
    bound = size_bound(codec, data) if codec else 0
    if bound is not None and bound <= LARGE_BYTES:
        yield
        return
    if not _large.acquire(timeout=wait_seconds):
        raise UnavailableError("large batches are being unpacked for others; try again")
    try:
        yield
    finally:
        _large.release()


def _too_large(bytes_max: int) -> InvalidRecord:
    return InvalidRecord(f"a compressed batch unpacks to more than {bytes_max} bytes")


def _gunzip(data: Buffer, bytes_max: int) -> Buffer:
    view, position = memoryview(data), 0
    target = bytearray()  # not a list of parts: joined, they would be there twice
    stream = None
    while position < len(view):
        stream = stream or zlib.decompressobj(wbits=31)
        # In small pieces: what follows a member is copied at its end, and there may be very many, very small ones.
        piece = view[position : position + GZIP_PIECE_BYTES]
        _inflate(stream, piece, target, bytes_max)
        position += len(piece) - len(stream.unused_data)
        stream = None if stream.eof else stream
    if stream is not None:
        raise CorruptBatch("a gzip batch ends in the middle")
    return target


def _inflate(stream: "zlib._Decompress", piece: Buffer, target: bytearray, bytes_max: int) -> None:
    """Unpack a piece in small chunks: while a chunk is added to the target, no other thread runs."""
    while True:
        room = min(GZIP_CHUNK_BYTES, bytes_max + 1 - len(target))
        chunk = stream.decompress(piece, room)
        target += chunk
        if len(target) > bytes_max:
            raise _too_large(bytes_max)
        piece = stream.unconsumed_tail
        if stream.eof or (not piece and len(chunk) < room):
            return


def _target(size: int) -> memoryview:
    """Memory to unpack into. Python writes zeros to all pages of a bytearray while no other thread runs; the pages
    of a mapping come when a codec writes to them, and codecs let others run."""
    return memoryview(mmap.mmap(-1, size) if size >= MAPPED_BYTES else bytearray(size))


def _into_growing(decompress_into: Callable[[Buffer, memoryview], int], data: Buffer, bytes_max: int) -> Buffer:
    """Frames need not say how much they hold, so the target grows until the content fits or the bound is met."""
    guess = min(bytes_max, max(64 * 1024, 6 * len(data)))
    while True:
        target = _target(guess)
        try:
            size = decompress_into(data, target)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if guess == bytes_max:
                raise _too_large(bytes_max) from None
            del target  # before the next one is there
            guess = min(bytes_max, 4 * guess)
            continue
        return target[:size]


def _lz4_compress(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [LZ4_HEADER]
    for start in range(0, len(view), LZ4_BLOCK_BYTES):
        plain = view[start : start + LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += [struct.pack("<I", len(block)), block]
        else:
            parts += [struct.pack("<I", len(plain) | LZ4_STORED), bytes(plain)]
    return b"".join([*parts, struct.pack("<I", 0)])


def _xerial_compress(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [XERIAL_MAGIC, struct.pack(">ii", 1, 1)]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _unsnap(data: Buffer, bytes_max: int) -> Buffer:
    view = memoryview(data)
    if bytes(view[:8]) != XERIAL_MAGIC:
        return _unsnap_block(view, bytes_max)
    if len(view) < XERIAL_HEADER_BYTES:
        raise CorruptBatch("a snappy batch ends in its header")
    blocks, room = [], bytes_max
    position = XERIAL_HEADER_BYTES
    while position < len(view):
        (length,) = struct.unpack_from(">i", view, position)
        position += 4
        if not 0 <= length <= len(view) - position:
            raise CorruptBatch(f"a snappy block claims {length} bytes where {len(view) - position} remain")
        blocks.append(view[position : position + length])
        room -= _claim(blocks[-1], room, bytes_max)
        position += length
    target, size = _target(bytes_max - room), 0
    for block in blocks:
        size += cramjam.snappy.decompress_raw_into(block, target[size:])
    return target[:size]


def _unsnap_block(block: memoryview, bytes_max: int) -> Buffer:
    target = _target(_claim(block, bytes_max, bytes_max))
    return target[: cramjam.snappy.decompress_raw_into(block, target)]


def _claim(block: memoryview, room: int, bytes_max: int) -> int:
    """How large a snappy block says it is, which decides what is allocated for it."""
    claim = snappy_claim(block)
    if claim is None:
        raise CorruptBatch(f"a snappy block of {len(block)} bytes claims a size that it cannot have")
    if claim > room:
        raise _too_large(bytes_max)
    return claim
