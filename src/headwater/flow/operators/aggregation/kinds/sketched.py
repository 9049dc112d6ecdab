"""What sketches have in common as kinds of aggregates: each is kept as its bytes, and null where nothing has come
yet."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.kinds.kind import Columns, Kind, Partial, input_of
from headwater.flow.operators.aggregation.lists import (
    Elements,
    closed_lists,
    lists_of_groups,
    opened_lists,
    values_of_groups,
)
from headwater.flow.operators.aggregation.segments import Segments

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

BYTES = pa.binary()


def each(column: pa.Array, make: Callable[[bytes], Any], kind: pa.DataType, nothing: Any = None) -> pa.Array:
    """Of every sketch that is there something."""
    return pa.array([nothing if one is None else make(one) for one in column.to_pylist()], kind)


def both(new: pa.Array, old: pa.Array, unite: Callable[[bytes, bytes], bytes]) -> pa.Array:
    """What is there on one side only stays as it is."""
    pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
    return pa.array([unite(one, other) if one and other else one or other for one, other in pairs], BYTES)


class Sketched(Kind):
    """One column is kept."""

    def partials(self, spec: "Aggregate") -> tuple[Partial, ...]:
        return (Partial(f"{spec.name}__{spec.kind}", BYTES, self.given(spec)),)

    def given(self, spec: "Aggregate") -> pa.DataType:
        """The type of what a batch is reduced to."""
        return pa.list_(spec.input_type)

    def settled(self, elements: Elements) -> Elements:
        """The values of groups in the form of a list that the sketch is made of: as they came, if nothing is said."""
        return elements

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        elements = self.settled(values_of_groups(input_of(spec, rows), segments))
        return [closed_lists(elements, len(segments), pa.list_(spec.input_type))]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        elements = self.settled(lists_of_groups(given[0], segments))
        return [closed_lists(elements, len(segments), given[0].type)]

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return BYTES


def counted(lists: pa.Array, make: Callable[[pa.Array, Any], bytes]) -> pa.Array:
    """Of each list what is made of its different values and how often each is in it."""
    rows, values = opened_lists(lists)
    encoded = values.dictionary_encode()
    codes, size = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), max(len(encoded.dictionary), 1)
    pairs, counts = np.unique(rows * size + codes, return_counts=True)
    begins = np.searchsorted(pairs, np.arange(len(lists) + 1) * size)
    made = [
        make(encoded.dictionary.take(pa.array(pairs[begin:end] % size)), counts[begin:end]) if end > begin else None
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True)
    ]
    return pa.array(made, BYTES)
