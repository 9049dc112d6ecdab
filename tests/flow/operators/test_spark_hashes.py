"""Hashes that tasks make are those that Spark makes of the same rows: of any values of any kind."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from headwater.flow.job.hashing import shard_hash
from headwater.flow.operators.spark_hashes import can_hash, murmur3, shard_hashes, xxhash64
from tests.flow.spark_session import shared_session

ROWS = 400
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def columns(random: Random) -> dict[str, tuple[pa.DataType, list[Any]]]:
    def some(make: Any) -> list[Any]:
        return [None if random.random() < 0.2 else make() for _ in range(ROWS)]

    def text() -> str:
        return "".join(random.choice("aäz€😀 0") for _ in range(random.choice([0, 1, 3, 4, 7, 8, 31, 32, 33, 70])))

    odd = [0.0, -0.0, float("nan"), float("inf"), -1.5]
    return {
        "flag": (pa.bool_(), some(lambda: random.random() < 0.5)),
        "tiny": (pa.int8(), some(lambda: random.randrange(-128, 128))),
        "short": (pa.int16(), some(lambda: random.randrange(-(2**15), 2**15))),
        "int": (pa.int32(), some(lambda: random.randrange(-(2**31), 2**31))),
        "long": (pa.int64(), some(lambda: random.randrange(-(2**63), 2**63))),
        "float": (pa.float32(), some(lambda: random.choice([*odd, random.random()]))),
        "double": (pa.float64(), some(lambda: random.choice([*odd, random.random()]))),
        "money": (pa.decimal128(18, 2), some(lambda: Decimal(random.randrange(-(10**17), 10**17)) / 100)),
        "day": (pa.date32(), some(lambda: date(1950, 1, 1) + timedelta(days=random.randrange(40_000)))),
        "when": (
            pa.timestamp("us", "UTC"),
            some(lambda: BEGIN - timedelta(microseconds=random.randrange(-(10**15), 10**15))),
        ),
        "text": (pa.string(), some(text)),
        "bytes": (pa.binary(), some(lambda: text().encode())),
        "pair": (
            pa.struct([("one", pa.int64()), ("two", pa.struct([("text", pa.string())]))]),
            some(lambda: {"one": random.choice([None, 7]), "two": random.choice([None, {"text": text()}])}),
        ),
    }


def test_rows_of_any_kinds_of_columns_are_hashed_as_spark_hashes_them() -> None:
    drawn, spark = columns(Random(5)), shared_session()
    rows = pa.table({name: pa.array(values, kind) for name, (kind, values) in drawn.items()})
    wanted = [[name] for name in drawn] + [list(drawn), list(drawn)[::-1], ["pair", "text", "int"]]
    asked = [
        function(*names).alias(f"{function.__name__}{place}")
        for place, names in enumerate(wanted)
        for function in (f.xxhash64, f.hash)
    ]
    asked += [shard_hash(names).alias(f"shard{place}") for place, names in enumerate(wanted)]
    found = spark.createDataFrame(rows).select(*asked).toArrow()
    for place, names in enumerate(wanted):
        parts = [rows[name].combine_chunks() for name in names]
        for function, name in ((xxhash64, "xxhash64"), (murmur3, "hash"), (shard_hashes, "shard")):
            said = found[f"{name}{place}"].to_numpy()
            assert np.array_equal(function(parts, ROWS), said), (name, names)


def test_a_part_of_a_column_is_hashed_like_the_same_values_by_themselves() -> None:
    for kind, values in columns(Random(6)).values():
        whole = pa.array(values, kind)
        part, same = whole.slice(17, 50), pa.array(values[17:67], kind)
        assert np.array_equal(xxhash64([part], 50), xxhash64([same], 50)), kind
        assert np.array_equal(murmur3([part], 50), murmur3([same], 50)), kind


def test_no_rows_have_no_hashes() -> None:
    for kind, _ in columns(Random(7)).values():
        assert len(shard_hashes([pa.array([], kind)], 0)) == 0


@pytest.mark.parametrize(
    ("kind", "can"),
    [
        (pa.list_(pa.int64()), False), (pa.map_(pa.string(), pa.int64()), False), (pa.decimal128(19, 2), False),
        (pa.struct([("list", pa.list_(pa.int64()))]), False), (pa.decimal128(18, 0), True), (pa.string(), True),
    ],
)  # fmt: skip
def test_lists_maps_and_long_decimals_are_left_to_spark(kind: pa.DataType, can: bool) -> None:
    assert can_hash(kind) is can
