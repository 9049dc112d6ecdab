"""Cells with base64 to bytes. Compiled. The standard alphabet, with its padding and without line breaks."""

import numpy as np

from headwater.flow.formats.kernels.cells import (
    ABSENT,
    NULL,
    TEXT,
    VALID,
    WRONG,
    ByteArray,
    Cells,
    Texts,
    frozen,
)
from headwater.flow.formats.kernels.compiling import compiled, inner
from headwater.flow.formats.kernels.memory import address_of, byte_at, put_byte

ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
NO_LETTER = 255


def _values() -> ByteArray:
    table = np.full(256, NO_LETTER, dtype=np.uint8)
    table[list(ALPHABET)] = np.arange(64)
    return table


_VALUES = frozen(_values())


def binaries(cells: Cells) -> Texts:
    lengths = (cells.ends - cells.starts)[cells.kinds == TEXT]
    data = np.empty(int((lengths // 4 * 3).sum(dtype=np.int64)), dtype=np.uint8)
    offsets = np.zeros(len(cells.kinds) + 1, dtype=np.int32)
    states = np.empty(len(cells.kinds), dtype=np.uint8)
    used = _binaries(*cells, data, offsets, states)
    return Texts(data[:used], offsets, states)


@inner
def _decode(body, offset, end, data, position):  # type: ignore[no-untyped-def]
    """Write the bytes; the offset behind them, -1 if it is not base64."""
    if (end - offset) % 4:
        return -1
    while offset < end:
        padding = 0
        if offset + 4 == end:
            padding = byte_at(body, offset + 3) == 61
            padding += padding and byte_at(body, offset + 2) == 61
        word = np.int64(0)
        for letter in range(offset, offset + 4 - padding):
            value = _VALUES[byte_at(body, letter)]
            if value == NO_LETTER:
                return -1
            word = (word << 6) | np.int64(value)
        word <<= 6 * padding
        if word & ((1 << (8 * padding)) - 1):
            return -1
        for shift in range(16, 8 * padding - 8, -8):
            put_byte(data, position, (word >> shift) & 255)
            position += 1
        offset += 4
    return position


@compiled
def _binaries(body, starts, ends, kinds, data, offsets, states):  # type: ignore[no-untyped-def]
    text, target = address_of(body), address_of(data)
    position = 0
    for row in range(len(starts)):
        states[row] = ABSENT if kinds[row] <= NULL else WRONG
        if kinds[row] == TEXT:
            after = _decode(text, np.int64(starts[row]), np.int64(ends[row]), target, position)
            if after >= 0:
                position = after
                states[row] = VALID
        offsets[row + 1] = position
    return position
