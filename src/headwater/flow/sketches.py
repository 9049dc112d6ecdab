"""Ask sketches that a flow has kept: `hw.sketches.bloom_contains(row["seen"], ["ada", "bob"])`.

The sketches of distinct counts, percentiles and frequent values are read by Spark's own functions
(`hll_sketch_estimate`, `kll_sketch_get_quantile_double`, `approx_top_k_estimate`). For the other two Spark has none:
these functions are for Python, and `register` makes them known to Spark SQL under the same names.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.sketches import bloom, count_min

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = int | str


def bloom_contains(sketch: bytes | None, values: Sequence[Value]) -> list[bool]:
    """Of each value: may it be among those that went in? A no is certain."""
    if sketch is None:
        return [False] * len(values)
    first = [xxh64_intdigest(_bytes(value), bloom.SEED) for value in values]
    second = [xxh64_intdigest(_bytes(value), one) for value, one in zip(values, first, strict=True)]
    sides = [np.array(side, np.uint64).view(np.int64) for side in (first, second)]
    return [bool(one) for one in bloom.contains(sketch, *sides)]


def count_min_estimate(sketch: bytes | None, values: Sequence[Value]) -> list[int]:
    """How often each value went in, at most."""
    return [0] * len(values) if sketch is None else count_min.frequencies(sketch, values)


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value.to_bytes(8, "little", signed=True)
    raise InvalidDeclaration(f"a sketch is asked for {value!r}", "Ask for a text or a whole number of 64 bits.")


def register(session: "SparkSession") -> None:
    """Make `bloom_contains(sketch, value)` and `count_min_estimate(sketch, value)` known to a session's SQL.

    A value is a whole number or text, as the column was that the sketch is of.
    """
    from pyspark.sql.pandas.functions import arrow_udf

    def contains(sketches: pa.Array, values: pa.Array) -> pa.Array:
        pairs = zip(sketches.to_pylist(), values.to_pylist(), strict=True)
        found = [None if value is None else bloom_contains(sketch, [value])[0] for sketch, value in pairs]
        return pa.array(found, pa.bool_())

    def estimate(sketches: pa.Array, values: pa.Array) -> pa.Array:
        pairs = zip(sketches.to_pylist(), values.to_pylist(), strict=True)
        found = [None if value is None else count_min_estimate(sketch, [value])[0] for sketch, value in pairs]
        return pa.array(found, pa.int64())

    make: Any = arrow_udf  # its overloads lack the plainest
    session.udf.register("bloom_contains", make(contains, "boolean"))
    session.udf.register("count_min_estimate", make(estimate, "bigint"))
