"""Spark's own hashes of rows, `xxhash64` and `hash` (compiled, pure): where a row lies that no Spark has seen yet.

Both go over the columns of a row one after the other; what comes of one is the seed for the next, and a null leaves it
as it is. A value is hashed by its bytes, little end first: four of what is no longer than an int, eight of a long, all
of a text. The second is Murmur3, but that what is left over of four bytes at the end of a text is hashed byte by byte.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from headwater.flow.state.equality import Integers, Mask, valid

Bytes = npt.NDArray[np.uint8]

SEED = 42
LONG_DIGITS = 18
"""Decimals with so many digits are hashed as a long."""
P1, P2, P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
P4, P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
C1, C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def can_hash(kind: pa.DataType) -> bool:
    """Lists, maps and long decimals are left to Spark."""
    if pa.types.is_struct(kind):
        return all(can_hash(field.type) for field in kind)
    if pa.types.is_decimal128(kind):
        return bool(kind.precision <= LONG_DIGITS)
    plain = (
        pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_date32,
        pa.types.is_timestamp, pa.types.is_string, pa.types.is_binary,
    )  # fmt: skip
    return any(is_one(kind) for is_one in plain)


def xxhash64(columns: Sequence[pa.Array], rows: int) -> Integers:
    """
    >>> xxhash64([pa.array([1, None]), pa.array(["a", "a"])], 2).tolist()
    [-8527884376001292090, -8582455328737087284]
    """
    seeds = np.full(rows, SEED, np.uint64)
    for part in _parts(columns):
        _fold_xx(part.data, part.starts, part.ends, part.there, seeds)
    return seeds.view(np.int64)


def murmur3(columns: Sequence[pa.Array], rows: int) -> Integers:
    """Spark's `hash`, whose results are ints."""
    seeds = np.full(rows, SEED, np.uint32)
    for part in _parts(columns):
        _fold_murmur(part.data, part.starts, part.ends, part.there, seeds)
    return seeds.view(np.int32).astype(np.int64)


def shard_hashes(key: Sequence[pa.Array], rows: int) -> Integers:
    """What `shard_hash` (job/hashing.py) gives for the same values."""
    return (xxhash64(key, rows) >> 32 << 32) | (murmur3(key, rows) & 0xFFFFFFFF)


class _Part(NamedTuple):
    """A column as bytes: where those of each row are, and whether there is a value."""

    data: Bytes
    starts: Integers
    ends: Integers
    there: Mask


def _parts(columns: Sequence[pa.Array]) -> list[_Part]:
    return [part for column in columns for part in _parts_of(column)]


def _parts_of(column: pa.Array) -> list[_Part]:
    kind = column.type
    if pa.types.is_struct(kind):
        return _parts(column.flatten())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return [text_bytes(column)]
    if pa.types.is_decimal128(kind):
        return [_fixed(_unscaled(column), column)]
    if pa.types.is_floating(kind):
        return [_fixed(_normal(column), column)]
    wide = pa.int64() if pa.types.is_int64(kind) or pa.types.is_timestamp(kind) else pa.int32()
    return [_fixed(_values(column.cast(wide)), column)]


def text_bytes(column: pa.Array) -> _Part:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    content = np.frombuffer(b"" if data is None else data, np.uint8)
    return _part(content, ends[:-1], ends[1:], column)


def _fixed(values: npt.NDArray[Any], column: pa.Array) -> _Part:
    starts = np.arange(len(values), dtype=np.int64) * values.itemsize
    return _part(np.ascontiguousarray(values).view(np.uint8), starts, starts + values.itemsize, column)


def _part(data: Bytes, starts: Integers, ends: Integers, column: pa.Array) -> _Part:
    """Compiled code is made anew for arrays that can, or cannot, be written to."""
    data.setflags(write=False)
    return _Part(data, starts, ends, valid(column).copy())


def _values(column: pa.Array) -> npt.NDArray[Any]:
    return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False))


def _unscaled(column: pa.Array) -> Integers:
    """The low half of a decimal's sixteen bytes."""
    if not len(column):
        return np.empty(0, np.int64)
    words = np.frombuffer(column.buffers()[1], np.int64)
    return words[2 * column.offset : 2 * (column.offset + len(column)) : 2].copy()


def _normal(column: pa.Array) -> npt.NDArray[Any]:
    """One zero, and one that is no number."""
    values = _values(column) + 0.0
    whole = np.int32 if values.itemsize == 4 else np.int64
    bits = values.view(whole).copy()
    bits[np.isnan(values)] = np.array(np.nan, values.dtype).view(whole)
    return bits


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _word(data, place, length):  # type: ignore[no-untyped-def]
    found = np.uint64(0)
    for byte in range(length):
        found |= np.uint64(data[place + byte]) << np.uint64(8 * byte)
    return found


@_compiled
def _turned(value, by):  # type: ignore[no-untyped-def]
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


@_compiled
def _round(state, word):  # type: ignore[no-untyped-def]
    return _turned(state + word * P2, 31) * P1


@_compiled
def _xx(data, start, end, seed):  # type: ignore[no-untyped-def]
    place, zero = start, np.uint64(0)
    if end - start >= 32:
        one, two, three, four = seed + P1 + P2, seed + P2, seed, seed - P1
        while place <= end - 32:
            one, two = _round(one, _word(data, place, 8)), _round(two, _word(data, place + 8, 8))
            three, four = _round(three, _word(data, place + 16, 8)), _round(four, _word(data, place + 24, 8))
            place += 32
        state = _turned(one, 1) + _turned(two, 7) + _turned(three, 12) + _turned(four, 18)
        for lane in (one, two, three, four):
            state = (state ^ _round(zero, lane)) * P1 + P4
    else:
        state = seed + P5
    state += np.uint64(end - start)
    while place + 8 <= end:
        state = _turned(state ^ _round(zero, _word(data, place, 8)), 27) * P1 + P4
        place += 8
    if place + 4 <= end:
        state = _turned(state ^ (_word(data, place, 4) * P1), 23) * P2 + P3
        place += 4
    while place < end:
        state = _turned(state ^ (np.uint64(data[place]) * P5), 11) * P1
        place += 1
    state = (state ^ (state >> np.uint64(33))) * P2
    state = (state ^ (state >> np.uint64(29))) * P3
    return state ^ (state >> np.uint64(32))


@_compiled
def _fold_xx(data, starts, ends, there, seeds):  # type: ignore[no-untyped-def]
    for row in range(len(seeds)):
        if there[row]:
            seeds[row] = _xx(data, starts[row], ends[row], seeds[row])


@_compiled
def _mixed(state, word):  # type: ignore[no-untyped-def]
    word = np.uint32(word * C1)
    word = np.uint32((word << np.uint32(15)) | (word >> np.uint32(17)))
    state = np.uint32(state ^ np.uint32(word * C2))
    state = np.uint32((state << np.uint32(13)) | (state >> np.uint32(19)))
    return np.uint32(state * np.uint32(5) + np.uint32(0xE6546B64))


@_compiled
def _murmur(data, start, end, seed):  # type: ignore[no-untyped-def]
    state, place = np.uint32(seed), start
    while place + 4 <= end:
        state = _mixed(state, np.uint32(_word(data, place, 4)))
        place += 4
    while place < end:
        state = _mixed(state, np.uint32(np.int8(data[place])))
        place += 1
    state = np.uint32(state ^ np.uint32(end - start))
    state = np.uint32((state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    state = np.uint32((state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(state ^ (state >> np.uint32(16)))


@_compiled
def _fold_murmur(data, starts, ends, there, seeds):  # type: ignore[no-untyped-def]
    for row in range(len(seeds)):
        if there[row]:
            seeds[row] = _murmur(data, starts[row], ends[row], seeds[row])
