"""Values of any type as 64-bit numbers, in the order in which rows are read (pure).

Rows that are kept by such a number are read from the lowest number on. Numbers never contradict the order of values as
Spark SQL has it; different values may share one (long texts, nulls with the lowest number, types without an order of
their own), so that rows of one number still have to be compared.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.operators.aggregation.segments import decimal_words
from headwater.flow.operators.spark_hashes import LONG_DIGITS
from headwater.flow.state.runs.equality import Integers, valid

Bits = npt.NDArray[np.uint64]

LOWEST, HIGHEST = -(2**63), 2**63 - 1
SIGN, WIDTH = np.uint64(1 << 63), 64
BYTES = 8


class Order(NamedTuple):
    """A column that rows are ordered by."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        nulls = "" if self.nulls_first != self.descending else f" nulls {'first' if self.nulls_first else 'last'}"
        return f"{self.column}{' desc' if self.descending else ''}{nulls}"


def order_codes(columns: Sequence[pa.Array], order: Sequence[Order]) -> Integers:
    """Of narrow columns the first have some of the bits each; of a wide one the rest of them is all there is.

    >>> one, other = pa.array([2, 1, None, 1], pa.int8()), pa.array([0.5, 3.0, 0.0, -1.0])
    >>> codes = order_codes([one, other], [Order("one", nulls_first=False), Order("other", descending=True)])
    >>> np.argsort(codes).tolist()
    [1, 3, 0, 2]
    >>> np.argsort(order_codes([other], [Order("other", descending=True, nulls_first=False)])).tolist()
    [1, 0, 2, 3]
    """
    codes, bits = _wide(columns[0], order[0]), WIDTH
    if len(columns) > 1 and _bits(columns[0].type) < WIDTH:
        codes, bits = np.zeros(len(columns[0]), np.uint64), WIDTH
        for column, one in zip(columns, order, strict=True):
            own = _bits(column.type)
            values = _wide(column, one) if own == WIDTH else _narrow(column, one)
            if own >= bits:
                codes |= values >> np.uint64(own - bits)
                break
            bits -= own
            codes |= values << np.uint64(bits)
    # The highest number is left to callers for: after all others.
    return np.minimum((codes ^ SIGN).view(np.int64), HIGHEST - 1)


def falling_codes(column: pa.Array) -> Integers:
    """The highest value first, and nulls last."""
    return order_codes([column], [Order("", descending=True, nulls_first=False)])


def _bits(kind: pa.DataType) -> int:
    """As many as the values of a narrow type need, with a place for nulls before and behind them."""
    if pa.types.is_boolean(kind):
        return 2
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return int(min(kind.bit_width + 1, WIDTH))
    return WIDTH


def _narrow(column: pa.Array, one: Order) -> Bits:
    """Numbers from 1 on; 0 and the one behind the last are those of nulls."""
    kind = column.type
    width = 1 if pa.types.is_boolean(kind) else kind.bit_width
    lowest = 0 if pa.types.is_boolean(kind) else -(1 << (width - 1))
    values = _rising(column) - lowest + 1
    if one.descending:
        values = (1 << width) + 1 - values
    nothing = 0 if one.nulls_first else (1 << width) + 1
    return np.where(valid(column), values, nothing).astype(np.uint64)


def _wide(column: pa.Array, one: Order) -> Bits:
    rising = _rising(column)
    codes = np.invert(rising) if one.descending else rising
    return np.where(valid(column), codes, LOWEST if one.nulls_first else HIGHEST).view(np.uint64) ^ SIGN


def flat_columns(column: pa.Array) -> Iterator[pa.Array]:
    """Columns of 64-bit integers and of texts without nulls that together order rows exactly as this one does.

    The first is the most important. Null is below all values, NaN above all numbers, −0.0 the same as 0.0; structs are
    ordered field by field.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return
    if column.null_count:
        yield column.is_valid().cast(pa.int64())
    if pa.types.is_struct(kind):
        for child in column.flatten():
            yield from flat_columns(child)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield column.fill_null("" if pa.types.is_string(kind) else b"") if column.null_count else column
    elif pa.types.is_decimal128(kind):
        low, high = decimal_words(column)
        if kind.precision > LONG_DIGITS:
            yield pa.array(high)
            low = low ^ LOWEST
        yield pa.array(low)
    else:
        yield pa.array(np.where(valid(column), _rising(column), 0) if column.null_count else _rising(column))


def rank_columns(column: pa.Array) -> list[Integers]:
    """Columns of integers that order rows exactly as this one does: texts are numbered in their order."""
    return [
        flat.to_numpy() if pa.types.is_int64(flat.type) else _ranks(flat.dictionary_encode())
        for flat in flat_columns(column)
    ]


def _ranks(texts: pa.DictionaryArray) -> Integers:
    ranks = np.empty(len(texts.dictionary), np.int64)
    ranks[pc.sort_indices(texts.dictionary).to_numpy()] = np.arange(len(ranks))
    return np.asarray(ranks[texts.indices.to_numpy()], np.int64)


def _rising(column: pa.Array) -> Integers:
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return _integers(column.cast(pa.int64()))
    if pa.types.is_date32(kind):
        return _integers(column.cast(pa.int32()).cast(pa.int64()))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _integers(column.cast(pa.int64()))
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_decimal128(kind):
        return _decimals(column)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _texts(column)
    return np.zeros(len(column), np.int64)


def _integers(column: pa.Array) -> Integers:
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _floats(column: pa.Array) -> Integers:
    """Bits of a float rise with it; those of negative ones fall. NaN is above all, and -0.0 the same as 0.0."""
    values = np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.float64) + 0.0
    bits = values.view(np.int64)
    return np.where(np.isnan(values), HIGHEST, np.where(bits < 0, bits ^ HIGHEST, bits))


def _decimals(column: pa.Array) -> Integers:
    """The number without its point; those that do not fit are the lowest or the highest."""
    low, high = decimal_words(column)
    return np.where(high == low >> 63, low, np.where(high < 0, LOWEST, HIGHEST))


def _texts(column: pa.Array) -> Integers:
    """The first bytes of each."""
    plain = pa.concat_arrays([column]).cast(pa.large_binary())
    offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset : plain.offset + len(plain) + 1]
    content = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    result = np.zeros(len(plain), np.uint64)
    for place in range(BYTES):
        at = offsets[:-1] + place
        inside = at < offsets[1:]
        result[inside] |= content[at[inside]].astype(np.uint64) << np.uint64(8 * (BYTES - 1 - place))
    return (result ^ np.uint64(1 << 63)).view(np.int64)
