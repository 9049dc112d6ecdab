"""The most frequent values by Misra and Gries, as the bytes of DataSketches' frequent items sketch.

    0   uint8    preamble longs: 4, or 1 if empty
    1   uint8    serial version 1
    2   uint8    family 10
    3   uint8    lg of the size of the largest table, 4      uint8    lg of the present one
    5   uint8    flags: 4 empty                              6, 7     0
    8   uint32   how many values are kept                    12       0
    16  int64    n, how many values there were
    24  int64    the error: no count is further from the truth
    32  int64 × kept    counts above the error
        values, in the same order: int64, double, or a string as uint32 length and UTF-8

A table of 2^lg entries holds three quarters of them. When more values come than fit, the median of all counts is taken
from each, and those that are then nothing are let go. At least half of them are, and what is taken away in all is no
more than n, so that the error is less than 2.7 n / 2^lg; up to as many values as fit it is nothing.
"""

from dataclasses import dataclass
from struct import Struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.state.runs.equality import Integers

HEAD, FULL = Struct("<BBBBBBH"), Struct("<IIqq")
EMPTY_FLAG = 4
FIXED = {pa.int64(): "<i8", pa.float64(): "<f8"}


def lg_size(tracked: int) -> int:
    """The table that Spark takes for so many items to be tracked.

    >>> lg_size(100), lg_size(10_000)
    (8, 14)
    """
    return max(3, int(np.ceil(np.log2(tracked / 0.75))))


def held_max(lg: int) -> int:
    return 3 * (1 << lg) // 4


@dataclass(frozen=True)
class Frequent:
    """Counts are above the error; ordered by count and then by value, so that the same has one form."""

    lg: int
    n: int
    error: int
    values: pa.Array
    counts: Integers


def of_counts(values: pa.Array, counts: Integers, lg: int) -> Frequent:
    """Of values that are all different."""
    return _fitted(values, counts, lg, int(counts.sum()), 0)


def merged(one: Frequent, other: Frequent) -> Frequent:
    values = pa.concat_arrays([one.values, other.values])
    codes = values.dictionary_encode()
    places = codes.indices.to_numpy(zero_copy_only=False)
    counts = np.bincount(places, np.concatenate([one.counts, other.counts]), len(codes.dictionary)).astype(np.int64)
    return _fitted(codes.dictionary, counts, one.lg, one.n + other.n, one.error + other.error)


def _fitted(values: pa.Array, counts: Integers, lg: int, n: int, error: int) -> Frequent:
    while len(counts) > held_max(lg):
        taken = int(np.sort(counts)[len(counts) // 2])
        error += taken
        keep = counts > taken
        values, counts = values.filter(pa.array(keep)), counts[keep] - taken
    order = _order(values, counts)
    return Frequent(lg, n, error, values.take(order), counts[order])


def _order(values: pa.Array, counts: Integers) -> npt.NDArray[np.int64]:
    table = pa.table({"count": pa.array(counts), "value": values})
    return np.asarray(pc.sort_indices(table, [("count", "descending"), ("value", "ascending")]), np.int64)


def top(sketch: Frequent, most: int) -> tuple[pa.Array, Integers]:
    """The most frequent, with the most that each may have come: no count is too low."""
    return sketch.values[:most], sketch.counts[:most] + sketch.error


def to_bytes(sketch: Frequent) -> bytes:
    kept = len(sketch.counts)
    if not sketch.n:
        return HEAD.pack(1, 1, 10, sketch.lg, 3, EMPTY_FLAG, 0)
    lg_now = min(sketch.lg, max(3, int(np.ceil(np.log2(max(kept, 1) / 0.75)))))
    head = HEAD.pack(4, 1, 10, sketch.lg, lg_now, 0, 0) + FULL.pack(kept, 0, sketch.n, sketch.error)
    return head + sketch.counts.astype("<i8").tobytes() + _packed(sketch.values)


def from_bytes(data: bytes, kind: pa.DataType) -> Frequent:
    longs, _, _, lg, *_ = HEAD.unpack_from(data)
    if longs == 1:
        return Frequent(lg, 0, 0, pa.array([], kind), np.empty(0, np.int64))
    kept, _, n, error = FULL.unpack_from(data, 8)
    counts = np.frombuffer(data, "<i8", offset=32, count=kept)
    return Frequent(lg, n, error, _unpacked(data, 32 + 8 * kept, kept, kind), counts)


def _packed(values: pa.Array) -> bytes:
    if values.type in FIXED:
        return bytes(values.to_numpy(zero_copy_only=False).astype(FIXED[values.type]).tobytes())
    texts = [text.encode() for text in values.to_pylist()]
    return b"".join(part for text in texts for part in (len(text).to_bytes(4, "little"), text))


def _unpacked(data: bytes, begin: int, count: int, kind: pa.DataType) -> pa.Array:
    if kind in FIXED:
        return pa.array(np.frombuffer(data, FIXED[kind], offset=begin, count=count), kind)
    texts = []
    for _ in range(count):
        end = begin + 4 + int.from_bytes(data[begin : begin + 4], "little")
        texts.append(data[begin + 4 : end].decode())
        begin = end
    return pa.array(texts, pa.string())
