"""The least or greatest row of each group (compiled, pure), in the order of values that Spark SQL has (ordering.py)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from headwater.flow.operators.aggregation.segments import Segments, filled, where_any
from headwater.flow.operators.order_codes import flat_columns
from headwater.flow.operators.spark_hashes import text_bytes
from headwater.flow.state.runs.equality import Integers, Mask, valid

NONE = -1


def extreme_places(
    keys: Sequence[pa.Array], segments: Segments, *, smallest: bool, among: Mask | None = None
) -> Integers:
    """The place of the least (or greatest) row of each group by these columns, the first being the most important.

    Of rows that are equal it is the first. Only rows `among` are looked at; NONE for a group that has none of them.
    """
    found = np.full(len(segments), NONE, np.int64)
    left = _Left.of(segments, among).settled(found)
    for column in (flat for key in keys for flat in flat_columns(key)):
        if not len(left.places):
            return found
        left = left.narrowed(column, smallest=smallest).settled(found)
    found[left.groups] = left.places[np.cumsum(left.lengths) - left.lengths]
    return found


def extreme(column: pa.Array, segments: Segments, *, smallest: bool) -> pa.Array:
    """The least (or greatest) value of each group that is not null."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        whole = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
        return extreme(whole, segments, smallest=smallest).view(kind)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        # NaN is above all numbers: `fmin` passes it over, `maximum` does not.
        values = filled(column, np.nan if smallest else -np.inf)
        found = (np.fmin if smallest else np.maximum).reduceat(values, segments.begins)
        return where_any(found, column, segments)
    if pa.types.is_signed_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        values = filled(column, bounds.max if smallest else bounds.min)
        return where_any((np.minimum if smallest else np.maximum).reduceat(values, segments.begins), column, segments)
    among = valid(column) if column.null_count else None
    return taken_or_null(column, extreme_places([column], segments, smallest=smallest, among=among))


def taken_or_null(column: pa.Array, places: Integers) -> pa.Array:
    """The values at some places, null for NONE."""
    missing = places == NONE
    return column.take(pa.array(places, mask=missing if missing.any() else None))


def chosen(take_new: Mask, new: pa.Array, old: pa.Array) -> pa.Array:
    """New values where the mask is set, old ones elsewhere; of any type, nested ones too."""
    indexes = np.arange(len(new)) + np.where(take_new, 0, len(new))
    return pa.concat_arrays([new, old]).take(pa.array(indexes))


class _Left(NamedTuple):
    """Rows that may still be the extreme one of their group; groups of which one is known are not among them."""

    places: Integers
    lengths: Integers
    groups: Integers

    @classmethod
    def of(cls, segments: Segments, among: Mask | None) -> "_Left":
        groups = np.arange(len(segments))
        if among is None or among.all():
            return cls(np.arange(segments.rows), segments.lengths, groups)
        lengths = np.add.reduceat(among.astype(np.int64), segments.begins)
        return cls(np.flatnonzero(among), lengths, groups)

    def settled(self, found: Integers) -> "_Left":
        """Without groups of one row, which is put down as the one found, and without those that have none."""
        many = self.lengths > 1
        if many.all():
            return self
        single = self.lengths == 1
        begins = np.cumsum(self.lengths) - self.lengths
        found[self.groups[single]] = self.places[begins[single]]
        kept = np.repeat(many, self.lengths)
        return _Left(self.places[kept], self.lengths[many], self.groups[many])

    def narrowed(self, column: pa.Array, *, smallest: bool) -> "_Left":
        """The rows of each group that are the least (or greatest) by one more column, of integers or of texts."""
        bounds = np.append(0, np.cumsum(self.lengths))
        own = column if len(self.places) == len(column) else column.take(pa.array(self.places))
        if pa.types.is_int64(own.type):
            kept = _extreme_codes(read_only(own.to_numpy()), bounds, smallest)
        else:
            texts = text_bytes(own)
            kept = _extreme_texts(texts.data, texts.starts, texts.ends, bounds, smallest)
        return _Left(self.places[kept], np.add.reduceat(kept.astype(np.int64), bounds[:-1]), self.groups)


def read_only(values: Integers) -> Integers:
    """Not to be written to: numba compiles a function once more for arrays that can be."""
    own = np.ascontiguousarray(values).view()
    own.setflags(write=False)
    return own


def _compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True)(function)


@_compiled
def _extreme_codes(codes, bounds, smallest):  # type: ignore[no-untyped-def]  # pragma: no cover  (compiled)
    kept = np.empty(len(codes), np.bool_)
    for group in range(len(bounds) - 1):
        begin, end = bounds[group], bounds[group + 1]
        best = codes[begin]
        for row in range(begin + 1, end):
            best = min(best, codes[row]) if smallest else max(best, codes[row])
        for row in range(begin, end):
            kept[row] = codes[row] == best
    return kept


@_compiled
def _compared(data, start, end, other_start, other_end):  # type: ignore[no-untyped-def]  # pragma: no cover
    length, other_length = end - start, other_end - other_start
    for place in range(min(length, other_length)):
        difference = np.int64(data[start + place]) - np.int64(data[other_start + place])
        if difference != 0:
            return difference
    return length - other_length


@_compiled
def _extreme_texts(data, starts, ends, bounds, smallest):  # type: ignore[no-untyped-def]  # pragma: no cover
    kept = np.empty(len(starts), np.bool_)
    for group in range(len(bounds) - 1):
        begin, end = bounds[group], bounds[group + 1]
        best = begin
        for row in range(begin + 1, end):
            order = _compared(data, starts[row], ends[row], starts[best], ends[best])
            if (order < 0) if smallest else (order > 0):
                best = row
        for row in range(begin, end):
            kept[row] = row == best or _compared(data, starts[row], ends[row], starts[best], ends[best]) == 0
    return kept


def warm_up() -> None:
    """Compiles what is not compiled yet."""
    one, bounds = read_only(np.zeros(1, np.int64)), np.array([0, 1])
    _extreme_codes(one, bounds, True)
    texts = text_bytes(pa.array(["a"]))
    _extreme_texts(texts.data, texts.starts, texts.ends, bounds, True)
