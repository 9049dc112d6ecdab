"""Lists kept for each key, merged for all keys at once (pure): no list is ever looked at by itself."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.operators.order_codes import rank_columns
from headwater.flow.state.runs.equality import Integers, elements_of, equal, list_lengths, valid
from headwater.flow.state.runs.sorting import rises, sorted_order


class Elements(NamedTuple):
    """Elements of the lists of a column, with the row each belongs to."""

    rows: Integers
    values: pa.Array


def opened_lists(column: pa.Array) -> Elements:
    lengths = np.where(valid(column), list_lengths(column), 0)
    return Elements(np.repeat(np.arange(len(column)), lengths), elements_of(column))


def values_of_groups(column: pa.Array, segments: Segments) -> Elements:
    """The values of each group that are not null, the row of each being the number of its group."""
    if not column.null_count:
        return Elements(segments.numbers, column)
    return Elements(segments.numbers[valid(column)], column.drop_null())


def lists_of_groups(column: pa.Array, segments: Segments) -> Elements:
    """The elements of all lists of each group."""
    rows, values = opened_lists(column)
    return Elements(segments.numbers[rows], values)


def in_order(elements: Elements, by: Sequence[str] = ()) -> Elements:
    """Elements of each row in ascending order, or in that of these fields of them; equal ones stay as they are."""
    if not len(elements.rows):
        return elements
    keys = [elements.values.field(name) for name in by] or [elements.values]
    columns = [elements.rows, *(column for key in keys for column in rank_columns(key))]
    if rises(columns):
        return elements
    order = sorted_order(columns)
    return Elements(elements.rows[order], elements.values.take(pa.array(order)))


def together(old: pa.Array, new: pa.Array, by: Sequence[str] = ()) -> Elements:
    """Elements of both lists of each row, in the order of the rows and of the elements, or of these fields of them."""
    before, behind = opened_lists(old), opened_lists(new)
    rows = np.concatenate([before.rows, behind.rows])
    return in_order(Elements(rows, pa.concat_arrays([before.values, behind.values])), by)


def distinct(elements: Elements) -> Elements:
    """Each element of a row once; equal ones lie side by side."""
    if not len(elements.rows):
        return elements
    keep = np.ones(len(elements.rows), np.bool_)
    same_row = elements.rows[1:] == elements.rows[:-1]
    keep[1:] = ~(same_row & equal(elements.values.slice(1), elements.values.slice(0, len(keep) - 1)))
    return Elements(elements.rows[keep], elements.values.filter(pa.array(keep)))


def shortened(elements: Elements, limit: int) -> Elements:
    """Of each row the first so many."""
    begins = np.searchsorted(elements.rows, elements.rows, side="left")
    keep = np.arange(len(elements.rows)) - begins < limit
    return Elements(elements.rows[keep], elements.values.filter(pa.array(keep)))


def closed_lists(elements: Elements, length: int, kind: pa.DataType) -> pa.Array:
    """One list for each of `length` rows, empty where there are no elements."""
    ends = np.cumsum(np.bincount(elements.rows, minlength=length))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements.values, type=kind)
