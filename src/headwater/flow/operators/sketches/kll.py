"""Percentiles by KLL (Karnin, Lang, Liberty), as the bytes of DataSketches' KllDoublesSketch, which Spark reads too.

    0   uint8    preamble ints: 5, or 2 if there are fewer than two values
    1   uint8    serial version: 1, or 2 for a single value
    2   uint8    family 15
    3   uint8    flags: 1 empty, 2 level zero is sorted, 4 a single value
    4   uint16   k
    6   uint8    m = 8, the least capacity of a level
    7   uint8    0
    8   uint64   n, how many values there were       (of a single value: the value, and nothing behind it)
    16  uint16   the least k that ever went in
    18  uint8    number of levels
    19  uint8    0
    20  uint32 × levels   where each begins, counted with the free places before the first
        double × 2        least and greatest value
        double            values, level after level; one of level h stands for 2^h

A full level is halved: of its values in order every second one goes up. Which, DataSketches leaves to chance; here it
is decided by what is halved, so that a batch that comes again makes the same bytes. The error is that of DataSketches:
at k = 200 a value of rank r is found within r ± 1.33 % in 99 of 100 cases.
"""

from dataclasses import dataclass
from struct import Struct
from zlib import crc32

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
HEAD, FULL = Struct("<BBBBHBB"), Struct("<QHBB")
M = 8
EMPTY_FLAG, SORTED_FLAG, SINGLE_FLAG = 1, 2, 4
NOTHING: Values = np.empty(0, np.float64)


def rank_error(k: int) -> float:
    """How far the rank of an answer may be off, in 99 of 100 cases; the constants are those of DataSketches.

    >>> round(rank_error(200), 4)
    0.0133
    """
    return float(2.296 / k**0.9723)


@dataclass(frozen=True)
class Kll:
    """Levels are sorted; values of level h weigh 2^h."""

    k: int
    n: int
    least: float
    greatest: float
    levels: tuple[Values, ...]


def of_values(values: Values, k: int) -> Kll | None:
    """None if there are none; NaN has no rank, and is passed over."""
    kept = np.sort(values[~np.isnan(values)])
    if not len(kept):
        return None
    return _compressed(Kll(k, len(kept), float(kept[0]), float(kept[-1]), (kept,)))


def merged(one: Kll, other: Kll) -> Kll:
    height = max(len(one.levels), len(other.levels))
    levels = tuple(np.sort(np.concatenate([_level(one, h), _level(other, h)])) for h in range(height))
    least, greatest = min(one.least, other.least), max(one.greatest, other.greatest)
    return _compressed(Kll(min(one.k, other.k), one.n + other.n, least, greatest, levels))


def _level(sketch: Kll, height: int) -> Values:
    return sketch.levels[height] if height < len(sketch.levels) else NOTHING


def capacity(k: int, levels: int, height: int) -> int:
    """
    >>> [capacity(200, 9, height) for height in range(9)]
    [8, 12, 18, 26, 40, 59, 89, 133, 200]
    """
    depth = levels - height - 1
    return max(M, int((k << 1 << depth) // 3**depth) + 1 >> 1)


def total_capacity(k: int, levels: int) -> int:
    return sum(capacity(k, levels, height) for height in range(levels))


def _compressed(sketch: Kll) -> Kll:
    """Halve levels from below until all fits."""
    levels, k = list(sketch.levels), sketch.k
    held = sum(map(len, levels))
    height = 0
    while held > total_capacity(k, len(levels)):
        if len(levels[height]) >= capacity(k, len(levels), height):
            odd = len(levels[height]) % 2
            rest, halved = levels[height][:odd], levels[height][odd:]
            up = halved[_coin(halved, sketch.n, height) :: 2]
            if height + 1 == len(levels):
                levels.append(NOTHING)
            levels[height], levels[height + 1] = rest, np.sort(np.concatenate([levels[height + 1], up]))
            held -= len(up)
            # Another level makes those below it smaller, so that it begins there again.
            height = -1
        height += 1
    return Kll(k, sketch.n, sketch.least, sketch.greatest, tuple(levels))


def _coin(values: Values, n: int, height: int) -> int:
    """0 or 1, as if by chance: from the values, and from how many there were, or the same values would always fall
    the same way."""
    return crc32(f"{n} {height}".encode(), crc32(values.tobytes())) >> 7 & 1


def quantiles(sketch: Kll, ranks: Values) -> Values:
    """For each rank the least value that at least this share of all values does not exceed."""
    values = np.concatenate(sketch.levels)
    weights = np.concatenate([np.full(len(level), 1 << h, np.int64) for h, level in enumerate(sketch.levels)])
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(weights[order])
    # 0.7 of 10 values are 7, though 0.7 * 10 may be a little more.
    wanted = np.ceil(np.round(ranks * sketch.n, 6))
    found = values[order][np.minimum(np.searchsorted(up_to, wanted), len(values) - 1)]
    return np.where(ranks <= 0, sketch.least, np.where(ranks >= 1, sketch.greatest, found))


def to_bytes(sketch: Kll) -> bytes:
    k, levels = sketch.k, sketch.levels
    if sketch.n == 1:
        return HEAD.pack(2, 2, 15, SINGLE_FLAG, k, M, 0) + levels[0].tobytes()
    sizes = np.array([len(level) for level in levels])
    free = total_capacity(k, len(levels)) - int(sizes.sum())
    begins = (free + np.concatenate([[0], np.cumsum(sizes)[:-1]])).astype("<u4")
    head = HEAD.pack(5, 1, 15, SORTED_FLAG, k, M, 0) + FULL.pack(sketch.n, k, len(levels), 0)
    ends = np.array([sketch.least, sketch.greatest], "<f8")
    return head + begins.tobytes() + ends.tobytes() + np.concatenate(levels).astype("<f8").tobytes()


def from_bytes(data: bytes) -> Kll:
    """Of a sketch that holds something; DataSketches leaves level zero unsorted."""
    *_, flags, k, _, _ = HEAD.unpack_from(data)
    if flags & SINGLE_FLAG:
        only = np.frombuffer(data, "<f8", offset=8, count=1)
        return Kll(k, 1, float(only[0]), float(only[0]), (only,))
    n, _, count, _ = FULL.unpack_from(data, 8)
    begins = np.frombuffer(data, "<u4", offset=20, count=count).astype(np.int64)
    least, greatest = np.frombuffer(data, "<f8", offset=20 + 4 * count, count=2)
    size = total_capacity(k, count) - int(begins[0])
    values = np.frombuffer(data, "<f8", offset=36 + 4 * count, count=size)
    levels = np.split(values, begins[1:] - begins[0])
    return Kll(k, n, float(least), float(greatest), (np.sort(levels[0]), *levels[1:]))
