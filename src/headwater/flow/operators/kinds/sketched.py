"""Sketches as kinds of aggregates: each is kept as its bytes, and null where nothing has come yet."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headwater.flow.operators.aggregation.lists import (
    Elements,
    closed_lists,
    distinct,
    in_order,
    lists_of_groups,
    opened_lists,
    values_of_groups,
)
from headwater.flow.operators.aggregation.segments import Segments
from headwater.flow.operators.kinds.kind import Columns, Kind, Partial, input_of, quoted
from headwater.flow.operators.kinds.options import Bloom, CountMin, Frequent, Hll, Kll
from headwater.flow.operators.sketches import bloom, count_min, frequent, hll, kll
from headwater.flow.operators.sketches.coupons import coupons_of
from headwater.flow.state.runs.equality import list_lengths, valid

if TYPE_CHECKING:
    from headwater.flow.operators.aggregation.aggregates import Aggregate

BYTES = pa.binary()
NO_NULLS = bytes(8)
"""Spark counts nulls too, in eight bytes behind its sketch of frequent values."""
HASHES = pa.struct({"first": pa.int64(), "second": pa.int64()})


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
        made, given = self.made(spec, quoted(spec.column or ""))
        return (Partial(f"{spec.name}__{spec.kind}", BYTES, made, given),)

    @abstractmethod
    def made(self, spec: "Aggregate", column: str) -> tuple[str, pa.DataType]:
        """SQL for what is made of a batch, and its type."""

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

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        return kept[0]


class Distinct(Sketched):
    def made(self, spec: "Aggregate", column: str) -> tuple[str, pa.DataType]:
        assert isinstance(spec.options, Hll)
        return f"if(count({column}) > 0, hll_sketch_agg({column}, {spec.options.lg_k}), null)", BYTES

    def reduce(self, spec: "Aggregate", rows: pa.RecordBatch, segments: Segments) -> Columns:
        """Sketches already: how many values are different does not bound what is kept of them."""
        assert isinstance(spec.options, Hll)
        groups, values = values_of_groups(input_of(spec, rows), segments)
        coupons = pa.array(coupons_of(values).astype(np.int64))
        found = closed_lists(distinct(in_order(Elements(groups, coupons))), len(segments), pa.list_(pa.int64()))
        return [hll.of_coupons(found, spec.options.lg_k)]

    def combine(self, spec: "Aggregate", given: Columns, segments: Segments) -> Columns:
        assert isinstance(spec.options, Hll)
        found: list[bytes | None] = []
        for begin, end in zip(segments.bounds[:-1].tolist(), segments.bounds[1:].tolist(), strict=True):
            there = [one for one in given[0].slice(begin, end - begin).to_pylist() if one is not None]
            found.append(hll.united_all(there, spec.options.lg_k) if there else None)
        return [pa.array(found, BYTES)]

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        return [each(given[0], hll.of_spark, BYTES)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        assert isinstance(spec.options, Hll)
        lg_k = spec.options.lg_k
        return [both(new[0], old[0], lambda one, other: hll.united(one, other, lg_k))]

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        return BYTES if isinstance(spec.options, Hll) and spec.options.sketch else pa.int64()

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        if isinstance(spec.options, Hll) and spec.options.sketch:
            return kept[0]
        return each(kept[0], hll.estimate, pa.int64(), nothing=0)


class Percentiles(Sketched):
    """Spark would make sketches, too, but others when a batch comes again; so it hands over the values, in order."""

    def made(self, spec: "Aggregate", column: str) -> tuple[str, pa.DataType]:
        return f"array_sort(collect_list({column}))", pa.list_(pa.float64())

    def settled(self, elements: Elements) -> Elements:
        return in_order(elements)

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        assert isinstance(spec.options, Kll)
        k, values = spec.options.k, opened_lists(given[0]).values.to_numpy(zero_copy_only=False)
        lengths = np.where(valid(given[0]), list_lengths(given[0]), 0)
        parts = np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []
        made = [kll.of_values(part, k) if len(part) else None for part in parts]
        return [pa.array([None if one is None else kll.to_bytes(one) for one in made], BYTES)]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        def unite(one: bytes, other: bytes) -> bytes:
            return kll.to_bytes(kll.merged(kll.from_bytes(one), kll.from_bytes(other)))

        return [both(new[0], old[0], unite)]

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        assert isinstance(spec.options, Kll)
        if spec.options.sketch:
            return BYTES
        return pa.list_(pa.float64()) if spec.options.several else pa.float64()

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        assert isinstance(spec.options, Kll)
        if spec.options.sketch:
            return kept[0]
        ranks, several = np.array(spec.options.ranks), spec.options.several

        def found(data: bytes) -> Any:
            values = kll.quantiles(kll.from_bytes(data), ranks).tolist()
            return values if several else values[0]

        return each(kept[0], found, self.result_type(spec))


class TopK(Sketched):
    """Spark's own sketch depends on the order in which rows reach it, which is another when a batch comes again."""

    def made(self, spec: "Aggregate", column: str) -> tuple[str, pa.DataType]:
        return f"collect_list({column})", pa.list_(spec.input_type)

    def absorb(self, spec: "Aggregate", given: Columns) -> Columns:
        assert isinstance(spec.options, Frequent)
        lg = spec.options.lg
        return [counted(given[0], lambda one, count: frequent.to_bytes(frequent.of_counts(one, count, lg)))]

    def merge(self, spec: "Aggregate", new: Columns, old: Columns) -> Columns:
        kind = spec.input_type

        def unite(one: bytes, other: bytes) -> bytes:
            return frequent.to_bytes(frequent.merged(*(frequent.from_bytes(each, kind) for each in (one, other))))

        return [both(new[0], old[0], unite)]

    def result_type(self, spec: "Aggregate") -> pa.DataType:
        assert isinstance(spec.options, Frequent)
        kind = spec.input_type
        if not spec.options.sketch:
            return pa.list_(pa.struct({"item": kind, "count": pa.int64()}))
        # What Spark's approx_top_k_estimate wants to be given.
        fields = {"sketch": BYTES, "maxItemsTracked": pa.int32(), "itemDataType": kind, "itemDataTypeDDL": pa.string()}
        return pa.struct(fields)

    def finish(self, spec: "Aggregate", kept: Columns) -> pa.Array:
        assert isinstance(spec.options, Frequent)
        options, kind, type_ = spec.options, spec.input_type, self.result_type(spec)
        if options.sketch:
            named = {pa.int64(): "bigint", pa.float64(): "double"}.get(kind, "string")
            beside = {"maxItemsTracked": options.tracked, "itemDataTypeDDL": f"item {named} not null"}
            return each(kept[0], lambda data: {"sketch": data + NO_NULLS, **beside}, type_)

        def told(data: bytes) -> list[dict[str, Any]]:
            values, counts = frequent.top(frequent.from_bytes(data, kind), options.most)
            pairs = zip(values.to_pylist(), counts.tolist(), strict=True)
            return [{"item": item, "count": count} for item, count in pairs]

        return each(kept[0], told, type_, nothing=[])


class Members(Sketched):
    """A Bloom filter; its input are the two hashes of each value."""

    def made(self, spec: "Aggregate", column: str) -> tuple[str, pa.DataType]:
        return f"collect_set({column})", pa.list_(HASHES)

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


class CountMins(Sketched):
    def made(self, spec: "Aggregate", column: str) -> tuple[str, pa.DataType]:
        return f"collect_list({column})", pa.list_(spec.input_type)

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


def _shape(spec: "Aggregate") -> bloom.Shape:
    assert isinstance(spec.options, Bloom)
    return bloom.Shape(spec.options.bits, spec.options.hashes)


SKETCHED: dict[str, Kind] = {
    "distinct": Distinct(),
    "percentile": Percentiles(),
    "top_k": TopK(),
    "bloom": Members(),
    "count_min": CountMins(),
}
