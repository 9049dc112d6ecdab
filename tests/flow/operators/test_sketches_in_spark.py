"""Spark reads the sketches that are kept, and makes those that are merged; its Java library is the second judge."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.flow import sketches
from headwater.flow.operators.aggregation.aggregates import Aggregate, result_type
from headwater.flow.operators.aggregation.kinds.approx_distinct import Hll
from headwater.flow.operators.aggregation.kinds.hashed import Bloom
from headwater.flow.operators.aggregation.kinds.kind import Options
from headwater.flow.operators.aggregation.kinds.percentiles import Kll
from headwater.flow.operators.aggregation.kinds.top_k import Frequent
from headwater.flow.operators.aggregation.merging import absorbed, finish
from headwater.flow.operators.sketches import bloom, count_min, hll, kll
from headwater.flow.operators.windows.folding import fold_groups
from tests.flow.operators.partial_sql import sql_of
from tests.flow.spark_session import shared_session

MANY = 10_000_000
BYTES = pa.binary()


@pytest.fixture(scope="module")
def spark() -> Any:
    return shared_session()


def kept(spark: Any, kind: str, options: Options, rows: str, type_: pa.DataType, parts: int = 4) -> pa.RecordBatch:
    """What is kept of column x of the rows, merged from what Spark makes of each of their parts."""
    from pyspark.sql import functions as f

    spec = Aggregate(kind, "z", "x", type_, options=options)
    made = [f.expr(sql).alias(name) for name, sql in sql_of(spec).items()]
    frame = spark.sql(rows).groupBy("part").agg(*made).orderBy("part").drop("part").toArrow()
    batches = frame.combine_chunks().to_batches()
    assert frame.num_rows == parts
    states = absorbed((spec,), batches[0])
    return fold_groups((spec,), states, np.arange(parts) == 0)


def read(spark: Any, value: Any, type_: pa.DataType, expression: str) -> Any:
    table = pa.table({"s": pa.array([value], type_)})
    return spark.createDataFrame(table).selectExpr(expression).first()[0]


@pytest.mark.torture
def test_ten_million_different_values_are_counted_within_the_error(spark: Any) -> None:
    rows = f"select id % 4 as part, id as x from range({MANY})"
    state = kept(spark, "distinct", Hll(), rows, pa.int64())
    (sketch,) = state.column(0).to_pylist()
    assert abs(hll.estimate(sketch) - MANY) < 3 * hll.relative_error(12) * MANY
    assert read(spark, sketch, BYTES, "hll_sketch_estimate(s)") == hll.estimate(sketch)
    theirs = "hll_sketch_estimate(hll_union(hll_sketch_agg(id), hll_sketch_agg(id)))"
    assert spark.sql(f"select {theirs} from range({MANY})").first()[0] == hll.estimate(sketch)


@pytest.mark.parametrize("most", [3, 1000])
def test_texts_are_counted_as_spark_counts_them(spark: Any, most: int) -> None:
    rows = f"select id % 2 as part, concat('ä', id % {most}) as x from range(5000)"
    (sketch,) = kept(spark, "distinct", Hll(), rows, pa.string(), 2).column(0).to_pylist()
    assert abs(hll.estimate(sketch) - most) <= 5 * hll.relative_error(12) * most
    assert read(spark, sketch, BYTES, "hll_sketch_estimate(hll_union(s, s))") == hll.estimate(sketch)


def test_spark_reads_percentiles(spark: Any) -> None:
    rows = "select id % 4 as part, cast(id * 7919 % 100003 as double) as x from range(100003)"
    state = kept(spark, "percentile", Kll((0.5,)), rows, pa.float64())
    (sketch,) = state.column(0).to_pylist()
    mine = kll.quantiles(kll.from_bytes(sketch), np.array([0.1, 0.5, 0.99]))
    ranks = "array(0.1d, 0.5d, 0.99d)"
    assert read(spark, sketch, BYTES, f"kll_sketch_get_quantile_double(s, {ranks})") == mine.tolist()
    assert read(spark, sketch, BYTES, "kll_sketch_get_n_double(s)") == 100003
    assert np.abs(mine / 100003 - [0.1, 0.5, 0.99]).max() < kll.rank_error(200)
    merged = "kll_sketch_get_n_double(kll_sketch_merge_double(s, s))"
    assert read(spark, sketch, BYTES, merged) == 200006


@pytest.mark.parametrize(
    "type_, expression", [(pa.int64(), "id % 7"), (pa.string(), "concat('w', id % 7)"), (pa.float64(), "id % 7 / 2d")]
)
def test_spark_reads_frequent_values(spark: Any, type_: pa.DataType, expression: str) -> None:
    rows = f"select id % 3 as part, {expression} as x from range(100) where id % 7 < 2 or id < 50"
    spec = Aggregate("top_k", "z", "x", type_, options=Frequent(3, 10, 700, sketch=True))
    plain = Aggregate("top_k", "z", "x", type_, options=Frequent(3, 10, 700))
    state = kept(spark, "top_k", Frequent(3, 10, 700), rows, type_, 3)
    (emitted,) = finish(plain, state).to_pylist()
    (sketch,) = finish(spec, state).to_pylist()
    found = read(spark, sketch, result_type(spec), "approx_top_k_estimate(s, 2)")
    assert [(row["item"], row["count"]) for row in found] == [(one["item"], one["count"]) for one in emitted[:2]]
    combined = "(select approx_top_k_combine(s, 700) from kept)"
    spark.createDataFrame(pa.table({"s": pa.array([sketch, sketch], result_type(spec))})).createOrReplaceTempView(
        "kept"
    )
    (twice,) = spark.sql(f"select approx_top_k_estimate({combined}, 1)").first()
    assert twice[0]["count"] == 2 * emitted[0]["count"]


@pytest.mark.parametrize("text", [False, True])
def test_java_reads_the_filter_and_sql_asks_it(spark: Any, text: bool) -> None:
    shape = bloom.shape_for(300, 0.01)
    value = "concat('name of ä ', id)" if text else "id * 3"
    hashes = "named_struct('first', xxhash64(v), 'second', xxhash64(v, v))"
    rows = f"select id % 2 as part, {hashes} as x from (select id, {value} as v from range(300))"
    struct = pa.struct({"first": pa.int64(), "second": pa.int64()})
    (sketch,) = kept(spark, "bloom", Bloom(shape.bits, shape.hashes), rows, struct, 2).column(0).to_pylist()
    jvm = spark.sparkContext._jvm
    memory = jvm.org.apache.datasketches.memory.Memory.wrap(bytearray(sketch))
    theirs = jvm.org.apache.datasketches.filters.bloomfilter.BloomFilter.heapify(memory)
    names: list[Any] = [f"name of ä {place}" if text else place * 3 for place in range(300)]
    assert all(theirs.query(bytearray(name.encode()) if text else name) for name in names)
    assert theirs.getBitsUsed() == int.from_bytes(sketch[24:32], "little")
    assert all(sketches.bloom_contains(sketch, names))
    sketches.register(spark)
    spark.createDataFrame(pa.table({"s": pa.array([sketch], BYTES)})).createOrReplaceTempView("filters")
    asked = f"select count_if(bloom_contains(s, {value})) from filters, range(600)"
    (found,) = spark.sql(asked).first()
    assert 300 <= found < 315


def test_sql_asks_a_count_min_sketch(spark: Any) -> None:
    sketches.register(spark)
    sketch = count_min.counted(["a", "b"], [5, 2], 64, 4)
    assert read(spark, sketch, BYTES, "count_min_estimate(s, 'a')") == 5
    assert read(spark, None, BYTES, "count_min_estimate(s, 'a')") == 0
