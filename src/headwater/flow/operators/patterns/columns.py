"""Columns as the machine has them: whole numbers or doubles, and which are there (pure)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import FlowError
from headwater.flow.operators.patterns.conditions import can_be_kept, is_real
from headwater.flow.operators.patterns.machine import Flags, Real, Whole


class Numbers(NamedTuple):
    """For each column a row; and the numbers that texts of the code have among those of the columns."""

    whole: Whole
    real: Real
    there: Flags
    texts: list[int]


def numbers_of(columns: Sequence[pa.Array], texts: Sequence[str], rows: int) -> Numbers:
    whole, real = np.zeros((len(columns), rows), np.int64), np.zeros((len(columns), rows), np.float64)
    there = np.zeros((len(columns), rows), np.bool_)
    places = [place for place, column in enumerate(columns) if pa.types.is_string(column.type)]
    codes, known = _text_numbers([columns[place] for place in places], texts)
    for place, column in enumerate(columns):
        there[place] = np.asarray(pc.is_valid(column))
        if place in places:
            whole[place] = codes[places.index(place)]
        elif is_real(column.type):
            real[place] = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        elif can_be_kept(column.type):  # of others it is counted which are there
            whole[place] = whole_numbers(column)
            real[place] = whole[place]
    return Numbers(whole, real, there, known)


def whole_numbers(column: pa.Array) -> Whole:
    """FlowError for a decimal of more than 18 digits."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return np.asarray(column.fill_null(False), np.int64)
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    if pa.types.is_decimal(kind):
        return _last_digits(column)
    found: Whole = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _last_digits(column: pa.Array) -> Whole:
    """A decimal of 128 bits is its last digits as a whole number; those of 64 bits are what fits."""
    if not isinstance(column, pa.Decimal128Array):
        column = column.cast(pa.decimal128(38, column.type.scale))
    low_high = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = low_high.reshape(-1, 2).T
    there = np.asarray(pc.is_valid(column))
    if (there & (high != low >> 63)).any():
        raise FlowError(
            f"a condition of a pattern looks back at a {column.type} with more than 18 digits",
            "Cast it to double, or to a decimal that is smaller.",
        )
    return np.where(there, low, 0)


def decimals(numbers: Whole, kind: pa.DataType, there: Flags) -> pa.Array:
    """The other way round."""
    both = np.empty((len(numbers), 2), np.int64)
    both[:, 0], both[:, 1] = numbers, numbers >> 63
    found = pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(numbers), [None, pa.py_buffer(both.tobytes())])
    return pc.if_else(pa.array(there), found, pa.scalar(None, found.type)).cast(kind)


def _text_numbers(columns: Sequence[pa.Array], texts: Sequence[str]) -> tuple[list[Whole], list[int]]:
    """Numbers that order texts as they are ordered."""
    if not columns and not texts:
        return [], []
    whole = pa.chunked_array([*columns, pa.array(texts, pa.string())], pa.string()).combine_chunks()
    encoded = (whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole).dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    numbers = ranks[indices] if len(ranks) else np.zeros(len(indices), np.int64)
    cuts = np.cumsum([len(column) for column in columns])
    parts = np.split(numbers, cuts)
    return parts[:-1], [int(one) for one in parts[-1]]
