"""What sketches should be, made otherwise than they are kept: by Spark's functions, exact values, plain Python."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.operators.aggregation.aggregates import Aggregate
from headwater.flow.operators.kinds.kind import quoted
from headwater.flow.operators.kinds.options import Bloom, CountMin, Frequent, Hll, Kll


def sketch_result(spec: Aggregate) -> Column:
    x, options = quoted(spec.column or ""), spec.options
    match options:
        case Hll():
            sketch = f"hll_sketch_agg({x}, {options.lg_k})"
            told = f"hll_sketch_estimate(hll_union({sketch}, {sketch}))"
            return f.expr(f"if(count({x}) > 0, {sketch}, null)" if options.sketch else told)
        case Kll():
            return f.expr(_quantiles(options, x))
        case Frequent():
            counted = f"approx_top_k_accumulate({x}, {options.tracked})"
            exact = f"approx_top_k({x}, {options.most}, 1000000)"
            there = f"filter (where {x} is not null)"
            return f.expr(f"if(count({x}) > 0, {counted} {there}, null)" if options.sketch else f"{exact} {there}")
        case Bloom():
            made = f.udf(_filter(options.bits, options.hashes), "binary", useArrow=False)
            return made(f.expr(f"collect_set({x})"))
        case CountMin():
            made = f.udf(_counter(options.buckets, options.hashes), "binary", useArrow=False)
            return made(f.expr(f"collect_list({x})"))
    raise AssertionError(f"{spec.kind} is no sketch")


def _quantiles(options: Kll, x: str) -> str:
    if options.sketch:
        return f"if(count({x}) > 0, kll_sketch_agg_double({x}, {options.k}), null)"
    places = [f"_v[greatest(0, cast(ceil({rank} * size(_v)) as int) - 1)]" for rank in options.ranks]
    told = f"array({', '.join(places)})" if options.several else places[0]
    return f"transform(array(array_sort(collect_list({x}))), _v -> if(size(_v) > 0, {told}, null))[0]"


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
