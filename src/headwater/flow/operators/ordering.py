"""Order of Arrow values as Spark SQL has it (pure): null first, NaN last, structs field by field."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.state.runs.equality import Integers, Mask, as_mask, equal, valid


def less(one: pa.Array, other: pa.Array) -> Mask:
    """Where the one is before the other; both are of the same type and length."""
    here, there = valid(one), valid(other)
    return (~here & there) | (here & there & _values_less(one, other))


def rows_less(one: Sequence[pa.Array], other: Sequence[pa.Array], length: int) -> Mask:
    """The same for rows: the first column that differs decides."""
    result, undecided = np.zeros(length, np.bool_), np.ones(length, np.bool_)
    for left, right in zip(one, other, strict=True):
        result |= undecided & less(left, right)
        undecided &= equal(left, right)
    return result


def has_order(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared here: not lists and maps, also not within structs.

    >>> has_order(pa.struct({"a": pa.string()})), has_order(pa.struct({"a": pa.list_(pa.string())}))
    (True, False)
    """
    if pa.types.is_struct(kind):
        return all(has_order(field.type) for field in kind)
    return not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind))


def _values_less(one: pa.Array, other: pa.Array) -> Mask:
    kind = one.type
    if pa.types.is_struct(kind):
        fields = range(kind.num_fields)
        return rows_less([one.field(i) for i in fields], [other.field(i) for i in fields], len(one))
    if pa.types.is_null(kind):
        return np.zeros(len(one), np.bool_)
    if pa.types.is_boolean(kind):
        one, other = one.cast(pa.uint8()), other.cast(pa.uint8())
    result = as_mask(pc.less(one, other).fill_null(False))
    if pa.types.is_floating(kind):
        return result | (~_nan(one) & _nan(other))
    return result


def _nan(column: pa.Array) -> Mask:
    return as_mask(pc.is_nan(column).fill_null(False))


def sorted_places(columns: Sequence[pa.Array]) -> Integers:
    """Places of rows in ascending order, the first column being the most important; equal rows keep their order."""
    keys = [key for column in columns for key in _sort_keys(column)]
    names = [f"k{number}" for number in range(len(keys))]
    table = pa.Table.from_arrays(keys, names=names)
    places = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return np.asarray(places.to_numpy(), np.int64)


def _sort_keys(column: pa.Array) -> list[pa.Array]:
    """Plain columns that sort as this one does: Arrow sorts no structs, and has null and NaN elsewhere than Spark."""
    present = [] if column.null_count == 0 else [column.is_valid()]
    if pa.types.is_struct(column.type):
        return [*present, *(key for child in column.flatten() for key in _sort_keys(child))]
    if pa.types.is_floating(column.type):
        return [*present, pc.is_nan(column), column]
    if pa.types.is_null(column.type):
        return []
    return [*present, column]
