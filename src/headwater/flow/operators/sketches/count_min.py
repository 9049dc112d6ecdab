"""How often did a value come? By a count-min sketch, as the bytes of DataSketches' count_min_sketch.

    0   uint8    preamble longs 2        1  uint8  serial version 1     2  uint8  family 18     3  uint8  flags: 1 empty
    8   uint32   buckets                 12 uint8  hashes               13 uint16 hash of the seed
    16  double   n, how many values there were
    24  double × hashes × buckets

Each value is counted once in each of several rows; the least of its counts is at most e / buckets · n too large, with
probability 1 − e^(−hashes), and never too small. DataSketches makes the seeds of its rows by C++'s own random numbers,
so that values are hashed there; what was counted already is added here.
"""

from collections.abc import Sequence
from struct import Struct

import numpy as np
import numpy.typing as npt
from datasketches import count_min_sketch

HEAD_BYTES = 16
EMPTY_FLAG = 1
WEIGHT = Struct("<d")
Value = int | str


def shape_for(error: float, confidence: float) -> tuple[int, int]:
    """Buckets and hashes.

    >>> shape_for(0.001, 0.99)
    (2719, 5)
    """
    return count_min_sketch.suggest_num_buckets(error), count_min_sketch.suggest_num_hashes(confidence)


def counted(values: Sequence[Value], counts: Sequence[int], buckets: int, hashes: int) -> bytes:
    """Of values that are all different."""
    sketch = count_min_sketch(hashes, buckets)
    for value, count in zip(values, counts, strict=True):
        sketch.update(value, count)
    return bytes(sketch.serialize())


def united(one: bytes, other: bytes) -> bytes:
    if len(one) == HEAD_BYTES or len(other) == HEAD_BYTES:
        return max(one, other, key=len)
    return one[:HEAD_BYTES] + (_numbers(one) + _numbers(other)).tobytes()


def _numbers(data: bytes) -> npt.NDArray[np.float64]:
    return np.frombuffer(data, "<f8", offset=HEAD_BYTES)


def frequencies(data: bytes, values: Sequence[Value]) -> list[int]:
    """How often each has come, at most."""
    sketch = count_min_sketch.deserialize(data)
    return [int(sketch.get_estimate(value)) for value in values]
