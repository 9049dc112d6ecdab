"""hw.bloom and hw.count_min: sketches that later answer questions about single values.

Neither depends on the order of rows: the reference result has the very same bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.kinds.kind import Columns, Kind, Options, column_sql
from headwater.flow.operators.aggregation.kinds.sketched import BYTES, Sketched, both, counted
from headwater.flow.operators.aggregation.lists import Elements, distinct, in_order, opened_lists
from headwater.flow.operators.sketches import bloom, count_min
from headwater.flow.state.runs.equality import list_lengths, valid

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headwater.flow.operators.aggregation.aggregates import Aggregate

HASHES = pa.struct({"first": pa.int64(), "second": pa.int64()})


@dataclass(frozen=True)
class Bloom(Options):
    bits: int
    hashes: int


@dataclass(frozen=True)
class CountMin(Options):
    buckets: int
    hashes: int


class Members(Sketched):
    """A Bloom filter; its input are the two hashes of each value."""

    form = "hashes"

    def given(self, spec: "Aggregate") -> pa.DataType:
        return pa.list_(HASHES)

    def settled(self, elements: Elements) -> Elements:
        return distinct(in_order(elements))

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        shape = _shape(spec)
        lists = given[0].cast(pa.list_(HASHES))
        hashes = opened_lists(lists).values
        sides = [hashes.field(name).to_numpy(zero_copy_only=False) for name in ("first", "second")]
        lengths = np.where(valid(lists), list_lengths(lists), 0)
        ends = np.cumsum(lengths)
        made = [
            bloom.filled(sides[0][begin:end], sides[1][begin:end], shape) if end > begin else None
            for begin, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        ]
        return [pa.array(made, BYTES)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        shape = _shape(spec)
        return [both(new[0], old[0], lambda one, other: bloom.united(one, other, shape))]

    def reference(self, spec: "Aggregate") -> "Column":
        from pyspark.sql import functions as f

        shape = _shape(spec)
        made = f.udf(_filter(shape.bits, shape.hashes), "binary", useArrow=False)
        return made(f.expr(f"collect_set({column_sql(spec)})"))


class CountMins(Sketched):
    form = "comparable"

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        assert isinstance(spec.options, CountMin)
        buckets, hashes = spec.options.buckets, spec.options.hashes
        return [
            counted(
                given[0],
                lambda values, counts: count_min.counted(values.to_pylist(), counts.tolist(), buckets, hashes),
            )
        ]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        return [both(new[0], old[0], count_min.united)]

    def reference(self, spec: "Aggregate") -> "Column":
        from pyspark.sql import functions as f

        assert isinstance(spec.options, CountMin)
        made = f.udf(_counter(spec.options.buckets, spec.options.hashes), "binary", useArrow=False)
        return made(f.expr(f"collect_list({column_sql(spec)})"))


def _shape(spec: "Aggregate") -> bloom.Shape:
    assert isinstance(spec.options, Bloom)
    return bloom.Shape(spec.options.bits, spec.options.hashes)


def _filter(bits: int, hashes: int) -> Callable[[Any], bytes | None]:
    def make(pairs: Any) -> bytes | None:
        from headwater.flow.operators.sketches.bloom import HEAD, SEED  # a Struct cannot be sent to workers

        whole = 0
        for first, second in pairs:
            for step in range(1, hashes + 1):
                whole |= 1 << ((first + step * second) % 2**64 // 2 % bits)
        head = HEAD.pack(4, 1, 21, 0, hashes, 0, SEED, bits // 64, 0, whole.bit_count())
        return head + whole.to_bytes(bits // 8, "little") if pairs else None

    return make


def _counter(buckets: int, hashes: int) -> Callable[[Any], bytes | None]:
    def make(values: Any) -> bytes | None:
        from datasketches import count_min_sketch

        sketch = count_min_sketch(hashes, buckets)
        for value in values:
            sketch.update(value)
        return bytes(sketch.serialize()) if values else None

    return make


HASHED: dict[str, Kind] = {"bloom": Members(), "count_min": CountMins()}
REPLACED = {"count_min_sketch": "hw.count_min(...)"}
