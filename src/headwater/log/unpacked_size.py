"""How large can a packed batch be once it is unpacked? Read off the structure, without unpacking. Pure.

Every codec cuts its content into blocks, and a block can hold only so much:

    gzip    at most 1,032 bytes for each packed byte (258 bytes for two bits)
    snappy  each block begins with its size; the decoder refuses a block of another size
    lz4     at most 255 bytes for each packed byte of a block, and not more than the frame's block size
    zstd    at most 128 KiB a block; a stored or repeated block says its size; a frame may say that of its content,
            and the decoder refuses a frame of another size

So a few numbers of a batch say whether it could be too large. Only a batch that could is unpacked to see
(compression.py). Nothing is allocated here, whatever the numbers are.
"""

import struct

Buffer = bytes | bytearray | memoryview

GZIP_RATIO_MAX = 1032
SNAPPY_RATIO_MAX = 22
LZ4_RATIO_MAX = 255
ZSTD_BLOCK_BYTES_MAX = 128 * 1024

STEPS_MAX = 4096
"""Blocks that are looked at; a batch of more is as good as one that does not say."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = 16
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_BYTES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024**2, 7: 4 * 1024**2}
_LZ4_STORED = 0x8000_0000
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


def size_bound(codec: int, packed: Buffer) -> int | None:
    """What the content cannot be larger than; None if the structure does not say, or is none.

    >>> size_bound(1, bytes(10))
    10320
    """
    view = memoryview(packed)
    try:
        match codec:
            case 0:
                return len(view)
            case 1:
                return GZIP_RATIO_MAX * len(view)
            case 2:
                return _snappy_bound(view)
            case 3:
                return _lz4_bound(view)
            case 4:
                return _zstd_bound(view)
            case _:
                return None
    except (struct.error, IndexError):
        return None  # it ends in the middle of a number


def snappy_claim(block: memoryview) -> int | None:
    """The size that a snappy block says it has; None if no block of its length can have it."""
    claim, shift = 0, 0
    for byte in block[:5]:
        claim |= (byte & 0x7F) << shift
        if byte < 0x80:
            return claim if claim <= SNAPPY_RATIO_MAX * len(block) + 64 else None
        shift += 7
    return None


def _snappy_bound(view: memoryview) -> int | None:
    if bytes(view[:8]) != XERIAL_MAGIC:
        return snappy_claim(view)
    position, total = XERIAL_HEADER_BYTES, 0
    for _ in range(STEPS_MAX):
        if position >= len(view):
            return total
        (length,) = struct.unpack_from(">I", view, position)
        claim = snappy_claim(view[position + 4 : position + 4 + length])
        if claim is None:
            return None
        total += claim
        position += 4 + length
    return None


def _lz4_bound(view: memoryview) -> int | None:
    position, total, steps = 0, 0, 0
    while position < len(view):
        flags, largest = view[position + 4], _LZ4_BLOCK_BYTES.get(view[position + 5] >> 4 & 0x07)
        if bytes(view[position : position + 4]) != _LZ4_MAGIC or largest is None:
            return None
        position += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        while (length := struct.unpack_from("<I", view, position)[0]) != 0:
            size = length & ~_LZ4_STORED
            total += size if length & _LZ4_STORED else min(largest, LZ4_RATIO_MAX * size + 64)
            position += 4 + size + (4 if flags & 0x10 else 0)
            steps += 1
            if steps == STEPS_MAX:
                return None
        position += 4 + (4 if flags & 0x04 else 0)
        steps += 1
        if steps >= STEPS_MAX:
            return None
    return total


def _zstd_bound(view: memoryview) -> int | None:
    position, total = 0, 0
    for _ in range(STEPS_MAX):
        if position >= len(view):
            return total
        if bytes(view[position : position + 4]) != _ZSTD_MAGIC:
            return None
        found = _zstd_frame(view, position)
        if found is None:
            return None
        size, position = found
        total += size
    return None


def _zstd_frame(view: memoryview, position: int) -> tuple[int, int] | None:
    """What one frame holds at most, and where it ends."""
    descriptor = view[position + 4]
    single = bool(descriptor & 0x20)
    position += 5 + (not single) + _DICTIONARY_BYTES[descriptor & 0x03]
    width = _CONTENT_SIZE_BYTES[descriptor >> 6] or int(single)
    said = int.from_bytes(view[position : position + width], "little") + (256 if width == 2 else 0)
    position += width
    total = 0
    for _ in range(STEPS_MAX):
        word = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        kind, size = word >> 1 & 0x03, word >> 3
        if kind == 3:
            return None
        total += ZSTD_BLOCK_BYTES_MAX if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
        if word & 1:
            return min(total, said) if width else total, position + (4 if descriptor & 0x04 else 0)
    return None
