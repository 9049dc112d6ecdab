"""Structs, arrays and maps: what is in them, and how they are made (pure)."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.flow.expressions.evaluated import Evaluated, Values, as_array, failing_values, of_type
from headwater.flow.expressions.functions.comparisons import compared_values as compared
from headwater.flow.expressions.tree import Expression
from headwater.flow.state.runs.equality import Integers, Mask, as_mask, elements_of, list_lengths


def struct_field(node: Expression, rows: int, value: Values) -> Evaluated:
    return Evaluated(pc.struct_field(as_array(value, rows), [node.option("ordinal")]))


def element(node: Expression, rows: int, value: Values) -> Evaluated:
    """An element by a literal index, from 0, or from the end (`from_end`). One that is not there is an error of its
    row, or null (`lenient`)."""
    values, index = as_array(value, rows), node.option("index")
    sizes = list_lengths(values)
    there = pc.is_valid(values).to_numpy(zero_copy_only=False)
    places = sizes + index if index < 0 and node.option("from_end") else np.full(rows, index)
    inside = there & (places >= 0) & (places < sizes)
    offsets = np.asarray(values.offsets)[:-1]
    found = values.values.take(pa.array(np.where(inside, offsets + places, 0), mask=~inside))
    if node.option("lenient"):
        return Evaluated(found)
    missing = pa.array(there & ~inside)
    errors = failing_values(missing, pa.array(sizes), f"there is no element {index} in an array of {{}}")
    return Evaluated(found, errors)


def size(node: Expression, rows: int, value: Values) -> Evaluated:
    """Of an array or a map."""
    values = as_array(value, rows)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    return Evaluated(pa.array(list_lengths(values).astype(np.int32), pa.int32(), mask=missing))


def value_at(node: Expression, rows: int, value: Values) -> Evaluated:
    """The value of a map at a key that is a literal; null if there is none."""
    return Evaluated(pc.map_lookup(as_array(value, rows), node.option("key"), "first"))


def array(node: Expression, rows: int, *elements: Values) -> Evaluated:
    count, kind = len(elements), node.type.value_type
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * count)
    if not count:
        return Evaluated(pa.ListArray.from_arrays(offsets, pa.array([], kind), type=node.type))
    columns = [as_array(one, rows) for one in elements]
    several = pa.concat_arrays([one if one.type.equals(kind) else one.cast(kind) for one in columns])
    order = np.arange(rows * count).reshape(count, rows).T.ravel()
    return Evaluated(pa.ListArray.from_arrays(offsets, several.take(pa.array(order)), type=node.type))


def contains(node: Expression, rows: int, value: Values, wanted: Values) -> Evaluated:
    """array_contains: null if it is not found and the array has a null."""
    values, sought = as_array(value, rows), as_array(wanted, rows)
    there = pc.and_(pc.is_valid(values), pc.is_valid(sought)).to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(rows), np.where(as_mask(pc.is_valid(values)), list_lengths(values), 0))
    elements = elements_of(values)
    same = pc.fill_null(compared("equal", elements, sought.take(pa.array(owners))), False)
    found = _any(owners, same, rows)
    unknown = _any(owners, pc.is_null(elements), rows)
    return Evaluated(pa.array(found, pa.bool_(), mask=~there | (~found & unknown)))


def _any(owners: Integers, marked: pa.Array, rows: int) -> Mask:
    """Is an element of the row marked?"""
    result = np.zeros(rows, np.bool_)
    result[owners[as_mask(marked)]] = True
    return result


def texts_joined(node: Expression, rows: int, value: Values) -> Evaluated:
    """array_join with literals: nulls are left out, or written as `null` says."""
    values, separator, null = as_array(value, rows), node.option("separator"), node.option("null")
    if not values.values.null_count:
        return Evaluated(pc.binary_join(values.cast(pa.list_(pa.string())), separator))
    written = []
    for texts in values.to_pylist():
        known = None if texts is None else [null if one is None else one for one in texts]
        written.append(None if known is None else separator.join(one for one in known if one is not None))
    return Evaluated(pa.array(written, pa.string()))


def numbers(node: Expression, rows: int, start: Values, stop: Values) -> Evaluated:
    """sequence of two whole numbers: all from the one to the other, downwards where the second is the smaller one."""
    first, last = (as_array(one, rows).cast(pa.int64()) for one in (start, stop))
    there = as_mask(pc.and_(pc.is_valid(first), pc.is_valid(last)))
    begins, ends = (np.where(there, one.fill_null(0).to_numpy(zero_copy_only=False), 0) for one in (first, last))
    lengths = np.where(there, np.abs(ends - begins) + 1, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    values = np.repeat(begins, lengths) + within * np.repeat(np.where(ends < begins, -1, 1), lengths)
    kind = node.type.value_type
    return Evaluated(
        pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(values, pa.int64()).cast(kind), type=node.type,
            mask=pa.array(~there),
        )
    )  # fmt: skip


def struct(node: Expression, rows: int, *fields: Values) -> Evaluated:
    columns = [of_type(as_array(one, rows), field.type) for one, field in zip(fields, node.type, strict=True)]
    return Evaluated(pa.StructArray.from_arrays(columns, fields=list(node.type)))
