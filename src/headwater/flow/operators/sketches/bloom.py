"""Was a value there? By a Bloom filter, as the bytes of DataSketches' BloomFilter.

    0   uint8    preamble longs: 4, or 3 if empty
    1   uint8    serial version 1        2  uint8  family 21        3  uint8  flags: 4 empty
    4   uint16   number of hashes        6         0
    8   uint64   seed of the hash
    16  int32    length in longs         20        0
    24  int64    number of bits that are set
    32  uint64 × length

A value has h₀ = XXH64(value, seed) and h₁ = XXH64(value, h₀); its bits are (h₀ + i h₁ mod 2⁶⁴) / 2 mod the number of
bits, for i from 1. Spark's `xxhash64(x)` is h₀ for the seed 42 and `xxhash64(x, x)` is h₁, so Spark hashes the values.
A string is hashed as its UTF-8, which in Java is BloomFilter's update of bytes.
"""

from dataclasses import dataclass
from struct import Struct

import numpy as np
import numpy.typing as npt

HEAD = Struct("<BBBBHHQiIq")
HEAD_BYTES = HEAD.size
SEED = 42
EMPTY_FLAG = 4
Bits = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    bits: int
    hashes: int

    @property
    def bytes(self) -> int:
        return HEAD_BYTES + self.bits // 8


def shape_for(expected: int, error: float) -> Shape:
    """What is needed for so many different values, of which others are taken for one at most so often.

    >>> shape_for(1_000_000, 0.01)
    Shape(bits=9585088, hashes=7)
    """
    bits = int(np.ceil(-expected * np.log(error) / np.log(2) ** 2))
    bits += -bits % 64
    return Shape(bits, max(1, round(bits / expected * float(np.log(2)))))


def places_of(first: Hashes, second: Hashes, shape: Shape) -> npt.NDArray[np.uint64]:
    """The bits of each value, a row for each."""
    with np.errstate(over="ignore"):
        steps = np.arange(1, shape.hashes + 1, dtype=np.uint64)
        mixed = first.view(np.uint64)[:, None] + second.view(np.uint64)[:, None] * steps
    places: npt.NDArray[np.uint64] = (mixed >> np.uint64(1)) % np.uint64(shape.bits)
    return places


def filled(first: Hashes, second: Hashes, shape: Shape) -> bytes:
    bits = np.zeros(shape.bits, np.uint8)
    bits[places_of(first, second, shape).ravel()] = 1
    return _to_bytes(np.packbits(bits, bitorder="little"), shape)


def united(one: bytes, other: bytes, shape: Shape) -> bytes:
    return _to_bytes(np.bitwise_or(_bits(one, shape), _bits(other, shape)), shape)


def contains(data: bytes, first: Hashes, second: Hashes) -> npt.NDArray[np.bool_]:
    """Of each value: may it be in there? A no is certain."""
    longs, _, _, _, hashes, _, _, length, _, _ = HEAD.unpack_from(data.ljust(HEAD_BYTES, b"\0"))
    if longs < 4:
        return np.zeros(len(first), np.bool_)
    shape = Shape(length * 64, hashes)
    places = places_of(first, second, shape)
    bits = _bits(data, shape)[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8) & 1
    return np.asarray(bits.all(axis=1), np.bool_)


def _bits(data: bytes, shape: Shape) -> Bits:
    return np.frombuffer(data, np.uint8, offset=HEAD_BYTES, count=shape.bits // 8)


def _to_bytes(bits: Bits, shape: Shape) -> bytes:
    count = int(np.bitwise_count(bits).sum())
    return HEAD.pack(4, 1, 21, 0, shape.hashes, 0, SEED, shape.bits // 64, 0, count) + bits.tobytes()
