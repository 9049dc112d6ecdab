"""Hashes of values as DataSketches' HLL keeps them (compiled, pure): a *coupon* of 32 bits per value.

A value is hashed by MurmurHash3 (x64, 128 bits, seed 9001): an integer by its eight bytes, little end first, a text by
its UTF-8. The lower 26 bits of the coupon are those of the first half of the hash; the upper six the number of leading
zeros of the second half, plus one, and at most 63.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from headwater.flow.operators.spark_hashes import text_bytes
from headwater.flow.state.runs.equality import Integers

SEED = 9001
SLOT_BITS = 26
C1, C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
M1, M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def coupons_of(values: pa.Array) -> npt.NDArray[np.uint32]:
    """The coupons of integers, texts or bytes without nulls; 0 for an empty one, which DataSketches does not count."""
    if not len(values):
        return np.empty(0, np.uint32)
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        texts = text_bytes(values)
        return np.asarray(_coupons(texts.data, texts.starts, texts.ends), np.uint32)
    data = np.ascontiguousarray(values.cast(pa.int64()).to_numpy()).view(np.uint8)
    data.setflags(write=False)
    starts: Integers = np.arange(0, len(data), 8)
    return np.asarray(_coupons(data, starts, starts + 8), np.uint32)


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _word(data, place, length):  # type: ignore[no-untyped-def]  # pragma: no cover  (compiled)
    found = np.uint64(0)
    for byte in range(length):
        found |= np.uint64(data[place + byte]) << np.uint64(8 * byte)
    return found


@_compiled
def _turned(value, by):  # type: ignore[no-untyped-def]  # pragma: no cover
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


@_compiled
def _mixed(value):  # type: ignore[no-untyped-def]  # pragma: no cover
    value = (value ^ (value >> np.uint64(33))) * M1
    value = (value ^ (value >> np.uint64(33))) * M2
    return value ^ (value >> np.uint64(33))


@_compiled
def _coupon(data, start, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    one, two, place = np.uint64(SEED), np.uint64(SEED), start
    while place + 16 <= end:
        one ^= _turned(_word(data, place, 8) * C1, 31) * C2
        one = (_turned(one, 27) + two) * np.uint64(5) + np.uint64(0x52DCE729)
        two ^= _turned(_word(data, place + 8, 8) * C2, 33) * C1
        two = (_turned(two, 31) + one) * np.uint64(5) + np.uint64(0x38495AB5)
        place += 16
    left = end - place
    if left > 8:
        two ^= _turned(_word(data, place + 8, left - 8) * C2, 33) * C1
    if left > 0:
        one ^= _turned(_word(data, place, min(left, 8)) * C1, 31) * C2
    length = np.uint64(end - start)
    one, two = one ^ length, two ^ length
    one += two
    two += one
    one, two = _mixed(one), _mixed(two)
    one += two
    two += one
    zeros = 0
    while zeros < 62 and (two >> np.uint64(63 - zeros)) == np.uint64(0):
        zeros += 1
    return np.uint32((one & np.uint64((1 << SLOT_BITS) - 1)) | (np.uint64(zeros + 1) << np.uint64(SLOT_BITS)))


@_compiled
def _coupons(data, starts, ends):  # type: ignore[no-untyped-def]  # pragma: no cover
    found = np.zeros(len(starts), np.uint32)
    for row in range(len(starts)):
        if ends[row] > starts[row]:
            found[row] = _coupon(data, starts[row], ends[row])
    return found
