"""Spark's own hashes of rows, `xxhash64` and `hash` (compiled, pure): where a row lies that no Spark has seen yet.

Both go over the columns of a row one after the other; what comes of one is the seed for the next, and a null leaves it
as it is. A struct is hashed field by field, an array element by element, so that nulls within leave the seed as well. A
value is hashed by its bytes, little end first: four of what is no longer than an int, eight of a long, all of a text.
Decimals of more than 18 digits are hashed by the bytes of Java's BigInteger, big end first and no more than needed. The
second hash is Murmur3, but that what is left over of four bytes at the end of a text is hashed byte by byte.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from headwater.flow.state.runs.equality import Integers, Mask, valid

Bytes = npt.NDArray[np.uint8]

SEED = 42
LONG_DIGITS = 18
"""Decimals with so many digits are hashed as a long."""
P1, P2, P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
P4, P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
C1, C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def can_hash(kind: pa.DataType) -> bool:
    """Maps are left to Spark, which refuses to hash them."""
    if pa.types.is_struct(kind):
        return all(can_hash(field.type) for field in kind)
    if _is_list(kind) or pa.types.is_dictionary(kind):
        return can_hash(kind.value_type)
    plain = (
        pa.types.is_null, pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64,
        pa.types.is_decimal128, pa.types.is_date32, pa.types.is_timestamp, _is_text,
    )  # fmt: skip
    return any(is_one(kind) for is_one in plain)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return bool(large or pa.types.is_string(kind) or pa.types.is_binary(kind))


def xxhash64(columns: Sequence[pa.Array], rows: int) -> Integers:
    """
    >>> xxhash64([pa.array([1, None]), pa.array(["a", "a"])], 2).tolist()
    [-8527884376001292090, -8582455328737087284]
    """
    seeds = np.full(rows, SEED, np.uint64)
    for part in _parts(columns):
        if isinstance(part, _Part):
            _fold_xx(part.data, part.starts, part.ends, part.there, seeds)
        else:
            _fold_xx_many(part.data, part.starts, part.ends, part.rows, seeds)
    return seeds.view(np.int64)


def murmur3(columns: Sequence[pa.Array], rows: int) -> Integers:
    """Spark's `hash`, whose results are ints."""
    seeds = np.full(rows, SEED, np.uint32)
    for part in _parts(columns):
        if isinstance(part, _Part):
            _fold_murmur(part.data, part.starts, part.ends, part.there, seeds)
        else:
            _fold_murmur_many(part.data, part.starts, part.ends, part.rows, seeds)
    return seeds.view(np.int32).astype(np.int64)


def shard_hashes(key: Sequence[pa.Array], rows: int) -> Integers:
    """A hash of each key; its remainder by a number of shards that is a power of two is that of Spark's own hash."""
    return (xxhash64(key, rows) >> 32 << 32) | (murmur3(key, rows) & 0xFFFFFFFF)


class _Part(NamedTuple):
    """A column as bytes: where those of each row are, and whether there is a value."""

    data: Bytes
    starts: Integers
    ends: Integers
    there: Mask


class _Many(NamedTuple):
    """Any number of values per row, in the order in which they are hashed: the bytes and the row of each."""

    data: Bytes
    starts: Integers
    ends: Integers
    rows: Integers


def _parts(columns: Sequence[pa.Array]) -> list[_Part | _Many]:
    return [part for column in columns for part in _parts_of(column)]


def _parts_of(column: pa.Array) -> list[_Part | _Many]:
    kind = column.type
    if pa.types.is_null(kind):
        return []
    if pa.types.is_dictionary(kind):
        return _parts_of(column.dictionary_decode())
    if pa.types.is_struct(kind):
        return _parts(column.flatten())
    if _is_list(kind):
        return [_elements(column)]
    if _is_text(kind):
        return [text_bytes(column)]
    if pa.types.is_decimal128(kind):
        return [_fixed(_unscaled(column), column) if kind.precision <= LONG_DIGITS else _big_integers(column)]
    if pa.types.is_floating(kind):
        return [_fixed(_normal(column), column)]
    wide = pa.int64() if pa.types.is_int64(kind) or pa.types.is_timestamp(kind) else pa.int32()
    return [_fixed(_values(column.cast(wide)), column)]


def _elements(column: pa.Array) -> _Many:
    """The values in the elements of arrays, those of a null left out."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    lengths = np.where(valid(column), np.diff(offsets), 0)
    rows = np.repeat(np.arange(len(column), dtype=np.int64), lengths)
    if len(rows) < offsets[-1] - offsets[0]:  # a null has elements all the same
        elements = column.flatten()
    else:
        elements = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    several = [_many(part) for part in _parts_of(elements)]
    if not several:
        return _read_only(np.empty(0, np.uint8), *([np.empty(0, np.int64)] * 3))
    found = several[0] if len(several) == 1 else _interleaved(several)
    return _read_only(found.data, found.starts, found.ends, rows[found.rows])


def _many(part: _Part | _Many) -> _Many:
    if isinstance(part, _Many):
        return part
    there = np.flatnonzero(part.there)
    return _Many(part.data, part.starts[there], part.ends[there], there)


def _interleaved(several: Sequence[_Many]) -> _Many:
    """The values of several columns, row by row."""
    before = np.cumsum([0, *(len(one.data) for one in several[:-1])])
    rows = np.concatenate([one.rows for one in several])
    order = np.argsort(rows, kind="stable")
    starts, ends = (
        np.concatenate([places + begin for places, begin in zip(bounds, before, strict=True)])[order]
        for bounds in ([one.starts for one in several], [one.ends for one in several])
    )
    return _Many(np.concatenate([one.data for one in several]), starts, ends, rows[order])


def _read_only(data: Bytes, starts: Integers, ends: Integers, rows: Integers) -> _Many:
    """As `_part` has it: one form of array, and so one compilation."""
    data.setflags(write=False)
    return _Many(data, starts, ends, rows)


def text_bytes(column: pa.Array) -> _Part:
    _, offsets, data = column.buffers()
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    places = np.frombuffer(b"" if offsets is None else offsets, np.int64 if large else np.int32)
    ends = places[column.offset : column.offset + len(column) + 1].astype(np.int64)
    content = np.frombuffer(b"" if data is None else data, np.uint8)
    return _part(content, ends[:-1], ends[1:], column)


def _big_integers(column: pa.Array) -> _Part:
    """Decimals as Java's BigInteger.toByteArray has them: without leading bytes that repeat the sign."""
    width, count = 16, len(column)
    content = np.frombuffer(column.buffers()[1] if count else b"", np.uint8)
    content = content[width * column.offset : width * (column.offset + count)]
    data = np.ascontiguousarray(content.reshape(count, width)[:, ::-1])
    sign = data[:, :1] >> 7
    repeated = np.cumprod(data == sign * np.uint8(0xFF), axis=1).sum(axis=1)
    first = np.minimum(repeated, width - 1)
    first -= data[np.arange(count), first] >> 7 != sign[:, 0]
    begins = np.arange(count, dtype=np.int64) * width
    return _part(data.reshape(-1), begins + first, begins + width, column)


def _fixed(values: npt.NDArray[Any], column: pa.Array) -> _Part:
    starts = np.arange(len(values), dtype=np.int64) * values.itemsize
    return _part(np.ascontiguousarray(values).view(np.uint8), starts, starts + values.itemsize, column)


def _part(data: Bytes, starts: Integers, ends: Integers, column: pa.Array) -> _Part:
    """Compiled code is made again for arrays that can, or cannot, be written to."""
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


@_compiled
def _fold_xx_many(data, starts, ends, rows, seeds):  # type: ignore[no-untyped-def]
    for place in range(len(rows)):
        seeds[rows[place]] = _xx(data, starts[place], ends[place], seeds[rows[place]])


@_compiled
def _fold_murmur_many(data, starts, ends, rows, seeds):  # type: ignore[no-untyped-def]
    for place in range(len(rows)):
        seeds[rows[place]] = _murmur(data, starts[place], ends[place], seeds[rows[place]])
