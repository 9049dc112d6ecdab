"""Hashes that tasks make are those that Spark makes of the same rows: of any values of any kind."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column
from pyspark.sql import functions as f

from headwater.flow.formats.schema import quoted
from headwater.flow.operators.spark_hashes import can_hash, murmur3, shard_hashes, xxhash64
from tests.flow.spark_session import shared_session

ROWS = 400
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def shard_hash(key: Sequence[str]) -> Column:
    """A hash whose remainder by the number of shards, a power of two, is the number of Spark's own shuffle partition.

    So the shuffle that groups by key brings a shard to one task, and no second one is needed.
    """
    columns = ", ".join(map(quoted, key))
    high, low = f"shiftleft(shiftright(xxhash64({columns}), 32), 32)", f"cast(hash({columns}) as long)"
    return f.expr(f"{high} | ({low} & {0xFFFFFFFF}L)")


def large_decimal(random: Random, digits: int = 38) -> Decimal:
    """Of any number of bytes; those at the edge of one more byte among them."""
    edge = 1 << random.randrange(1, 126)
    whole = random.choice([0, edge - 1, edge, edge + 1, random.randrange(10**digits)]) % 10**digits
    return Decimal(whole * random.choice([-1, 1])).scaleb(-3, Context(prec=60))


def columns(random: Random) -> dict[str, tuple[pa.DataType, list[Any]]]:
    def some(make: Any) -> list[Any]:
        return [None if random.random() < 0.2 else make() for _ in range(ROWS)]

    def text() -> str:
        return "".join(random.choice("aäz€😀 0") for _ in range(random.choice([0, 1, 3, 4, 7, 8, 31, 32, 33, 70])))

    def some_of(make: Any) -> list[Any]:
        return [None if random.random() < 0.2 else make() for _ in range(random.choice([0, 1, 2, 5]))]

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
        "local": (pa.timestamp("us"), some(lambda: datetime(2026, 1, 1) + timedelta(microseconds=random.randrange(9)))),
        "large": (pa.decimal128(38, 3), some(lambda: large_decimal(random))),
        "longer": (pa.decimal128(19, 0), some(lambda: Decimal(random.choice([-1, 1]) * random.randrange(10**19)))),
        "list": (pa.list_(pa.string()), some(lambda: some_of(text))),
        "amounts": (pa.list_(pa.decimal128(30, 3)), some(lambda: some_of(lambda: large_decimal(random, 30)))),
        "lists": (pa.list_(pa.list_(pa.int16())), some(lambda: some_of(lambda: some_of(lambda: random.randrange(9))))),
        "pairs": (
            pa.list_(pa.struct([("one", pa.int64()), ("several", pa.list_(pa.float64())), ("text", pa.string())])),
            some(lambda: some_of(lambda: {"one": 7, "several": some_of(lambda: random.choice(odd)), "text": text()})),
        ),
        "holding": (
            pa.struct([("list", pa.list_(pa.int32())), ("large", pa.decimal128(38, 3))]),
            some(lambda: {"list": random.choice([None, [1, None], []]), "large": large_decimal(random)}),
        ),
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


def test_a_null_struct_or_list_leaves_the_seed_whatever_lies_beneath_it() -> None:
    numbers = pa.array([1, 2, 3])
    struct = pa.StructArray.from_arrays([numbers], ["one"], mask=pa.array([False, True, False]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), numbers, mask=pa.array([False, True, False]))
    for column in (struct, lists):
        assert np.array_equal(xxhash64([column], 3), xxhash64([pa.array([1, None, 3])], 3))
        assert np.array_equal(murmur3([column], 3), murmur3([pa.array([1, None, 3])], 3))


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_other_forms_of_text_have_the_same_hashes(kind: pa.DataType) -> None:
    texts = pa.array(["ada", None, "", "grace"])
    assert np.array_equal(shard_hashes([texts.cast(kind)], 4), shard_hashes([texts], 4))
    slice = texts.cast(kind).slice(1, 3)
    assert np.array_equal(shard_hashes([slice], 3), shard_hashes([texts.slice(1, 3)], 3))


def test_elements_of_large_lists_are_hashed_like_those_of_lists() -> None:
    lists = pa.array([["ada"], None, [], ["grace", None, "ada"]])
    assert np.array_equal(shard_hashes([lists.cast(pa.large_list(pa.string()))], 4), shard_hashes([lists], 4))


def test_nulls_without_a_type_leave_the_seed() -> None:
    assert np.array_equal(xxhash64([pa.nulls(2), pa.array([1, 2])], 2), xxhash64([pa.array([1, 2])], 2))


@pytest.mark.parametrize(
    ("kind", "can"),
    [
        (pa.list_(pa.int64()), True), (pa.decimal128(38, 2), True), (pa.string(), True), (pa.null(), True),
        (pa.struct([("list", pa.list_(pa.int64()))]), True), (pa.map_(pa.string(), pa.int64()), False),
        (pa.list_(pa.map_(pa.string(), pa.int64())), False),
        (pa.struct([("map", pa.map_(pa.string(), pa.int64()))]), False), (pa.decimal256(40, 2), False),
    ],
)  # fmt: skip
def test_maps_are_left_to_spark(kind: pa.DataType, can: bool) -> None:
    assert can_hash(kind) is can
