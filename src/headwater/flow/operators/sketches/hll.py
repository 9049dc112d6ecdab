"""Distinct counts by HyperLogLog (DataSketches' HLL_8), as bytes that Spark's `hll_sketch_estimate` reads too.

Bytes here are in one form for one set of values, in whatever order they came. DataSketches estimates by the order of
arrival while it knows it, which is a little closer, and would make the result depend on how a stream was cut; it gives
that up for what was united. Here it is always given up, and few values are in ascending order.

    lg_k 12   standard error 1.04 / √4096 = 1.6 %, 4 KB; up to some 500 values they are kept apart, nearly exactly
"""

from collections.abc import Sequence
from struct import Struct

import numpy as np
import pyarrow as pa
from datasketches import hll_sketch, hll_union, tgt_hll_type

from headwater.flow.state.runs.equality import Integers

LIST_INTS, SET_INTS = 2, 3
"""First byte: the length of the preamble, which differs by the form in which few values are kept."""
EMPTY, COMPACT, OUT_OF_ORDER = 0x04, 0x08, 0x10
"""Flags, which are the sixth byte."""
REGISTERS = Struct("<8B8xddii")
"""The head in front of all registers: no order of arrival, both sums of 2^−register, how many are 0, no exceptions."""
LIST_MODE, SET_MODE, HLL_MODE = 8, 9, 10
LIST_LG, SET_LG, LIST_MOST = 3, 5, 7
"""Few coupons are kept in a list of eight, then in a set, of 32 and more places, three quarters of which may be taken;
a set that would have more than k / 8 places becomes registers, as does the list where k has less than 2^8."""
SLOT_BITS = 26


def relative_error(lg_k: int) -> float:
    """The standard error of the estimate.

    >>> round(relative_error(12), 4)
    0.0163
    """
    return float(1.04 / np.sqrt(1 << lg_k))


def united(one: bytes, other: bytes, lg_k: int) -> bytes:
    """The sketch of the values of both."""
    return united_all([one, other], lg_k)


def united_all(sketches: Sequence[bytes], lg_k: int) -> bytes:
    """The sketch of the values of all of these; one alone is that one."""
    if len(sketches) == 1:
        return sketches[0]
    union = hll_union(lg_k)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    return settled(union.get_result(tgt_hll_type.HLL_8).serialize_compact())


def settled(sketch: bytes) -> bytes:
    """A compact sketch in its one form."""
    if sketch[0] in (LIST_INTS, SET_INTS):
        begin = 4 * sketch[0]
        coupons = np.sort(np.frombuffer(sketch, "<u4", offset=begin))
        return sketch[:begin] + coupons.tobytes()
    # What is known by the order of arrival are the eight bytes behind the first eight. Java may say what the lowest
    # register is and how many are as low, which is of use for other types of sketches; here it is how many are 0.
    zeros = bytes(4) if sketch[6] else sketch[32:36]
    flags = bytes([sketch[5] | OUT_OF_ORDER])
    return sketch[:5] + flags + bytes(1) + sketch[7:8] + bytes(8) + sketch[16:32] + zeros + sketch[36:]


def of_coupons(lists: pa.Array, lg_k: int) -> pa.Array:
    """Sketches, in their one form, of values with these coupons (coupons.py), in each list different and ascending.

    Null where there are none. Coupon 0 is that of an empty text, which is a value, but none that is counted.
    """
    begins, every = lists.offsets.to_numpy()[:-1], lists.values.to_numpy()
    zeros = np.zeros(len(begins), np.int64)
    lengths = np.diff(lists.offsets.to_numpy()).astype(np.int64)
    zeros[lengths > 0] = every[begins[lengths > 0]] == 0
    begins, counts = begins + zeros, lengths - zeros
    lg_places = np.maximum(SET_LG, np.ceil(np.log2(np.maximum(counts * 4 / 3, 1))).astype(np.int64))
    listed = counts <= LIST_MOST
    few = listed | ((lg_places <= lg_k - 3) & (lg_k >= SET_LG + 3))
    heads = np.where(listed, LIST_INTS, SET_INTS)
    words = np.where(lengths == 0, 0, np.where(few, heads + counts, (REGISTERS.size + (1 << lg_k)) // 4))
    offsets = np.append(0, np.cumsum(words))
    content = np.zeros(int(offsets[-1]), "<u4")
    for group in np.flatnonzero(~few).tolist():
        own = every[begins[group] : begins[group] + counts[group]]
        content[offsets[group] : offsets[group + 1]] = np.frombuffer(_registers(own, lg_k), "<u4")
    some = np.flatnonzero(few & (lengths > 0))
    at, count, is_list = offsets[some], counts[some], listed[some]
    content[at] = heads[some] | 1 << 8 | 7 << 16 | lg_k << 24
    flags = np.where(count > 0, COMPACT, COMPACT | EMPTY) << 8
    second = np.where(is_list, LIST_LG | count << 16 | LIST_MODE << 24, lg_places[some] | SET_MODE << 24)
    content[at + 1] = second | flags
    content[(at + 2)[~is_list]] = count[~is_list]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    content[np.repeat(at + heads[some], count) + within] = every[np.repeat(begins[some], count) + within]
    bounds = pa.py_buffer((offsets * 4).astype(np.int32))
    there = pa.py_buffer(np.packbits(lengths > 0, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(lists), [there, bounds, pa.py_buffer(content)])


def _registers(coupons: Integers, lg_k: int) -> bytes:
    """The sketch of more coupons than are kept apart."""
    registers = np.zeros(1 << lg_k, np.uint8)
    np.maximum.at(registers, coupons & ((1 << lg_k) - 1), (coupons >> SLOT_BITS).astype(np.uint8))
    powers = np.exp2(-registers.astype(np.float64))
    sums = float(powers[registers < 32].sum()), float(powers[registers >= 32].sum())
    empty = int(np.count_nonzero(registers == 0))
    return REGISTERS.pack(10, 1, 7, lg_k, 0, COMPACT | OUT_OF_ORDER, 0, HLL_MODE, *sums, empty, 0) + registers.tobytes()


def of_spark(sketch: bytes) -> bytes:
    """A sketch as Spark makes it, in its one form."""
    if sketch[5] & COMPACT:  # Spark's have places for more
        return sketch
    return settled(hll_sketch.deserialize(sketch).serialize_compact())


def estimate(sketch: bytes) -> int:
    """Rounded as Spark does."""
    return int(np.floor(hll_sketch.deserialize(sketch).get_estimate() + 0.5))
