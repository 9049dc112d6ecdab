"""Equality of Arrow columns of any type (pure): null equals null and NaN equals NaN, as in Spark's groups."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


def valid(column: pa.Array) -> Mask:
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    return as_mask(column.is_valid())


def as_mask(column: pa.Array) -> Mask:
    """A boolean column without nulls as numpy has it."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def rows_equal(one: Sequence[pa.Array], other: Sequence[pa.Array], length: int) -> Mask:
    """Where all columns agree; no columns at all agree everywhere."""
    result = np.ones(length, np.bool_)
    for left, right in zip(one, other, strict=True):
        result &= equal(left, right)
    return result


def equal(one: pa.Array, other: pa.Array) -> Mask:
    """Both columns are of the same type and length."""
    here, there = valid(one), valid(other)
    both = here & there
    return (both & _values_equal(one, other, both)) | ~(here | there)


def _values_equal(one: pa.Array, other: pa.Array, both: Mask) -> Mask:
    kind = one.type
    if pa.types.is_struct(kind):
        fields = range(kind.num_fields)
        return rows_equal([one.field(i) for i in fields], [other.field(i) for i in fields], len(one))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return _lists_equal(one, other, both)
    if pa.types.is_null(kind):
        return np.ones(len(one), np.bool_)
    same = as_mask(pc.equal(one, other).fill_null(False))
    if pa.types.is_floating(kind):
        return same | as_mask(pc.and_(pc.is_nan(one), pc.is_nan(other)).fill_null(False))
    return same


def _lists_equal(one: pa.Array, other: pa.Array, both: Mask) -> Mask:
    lengths = list_lengths(one)
    rows = np.flatnonzero(both & (lengths == list_lengths(other)))
    differing = ~equal(elements_of(one.take(rows)), elements_of(other.take(rows)))
    before = np.concatenate([[0], np.cumsum(differing)])
    ends = np.cumsum(lengths[rows])
    result = np.zeros(len(one), np.bool_)
    result[rows] = before[ends] == before[ends - lengths[rows]]
    return result


def list_lengths(column: pa.Array) -> Integers:
    """Lengths as the offsets have them; what a null has there means nothing."""
    lengths: Integers = np.diff(column.offsets.to_numpy()).astype(np.int64)
    return lengths


def elements_of(column: pa.Array) -> pa.Array:
    """All elements of all lists in a row, without those of nulls."""
    if not pa.types.is_map(column.type):
        return column.flatten()
    rows = column.drop_null()
    begin, end = (rows.offsets[0].as_py(), rows.offsets[-1].as_py()) if len(rows) else (0, 0)
    return pa.StructArray.from_arrays([rows.keys, rows.items], ["key", "value"]).slice(begin, end - begin)
