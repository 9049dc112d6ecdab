import pyarrow as pa
import pytest

from headwater.errors import InvalidDeclaration
from headwater.flow.operators.aggregation.aggregates import (
    Aggregate,
    result_schema,
    result_type,
    state_schema,
)
from tests.flow.operators.partial_sql import sql_of
from tests.flow.operators.subjects import TIME, spec

KINDS = ("count", "sum", "avg", "min", "max", "first", "last", "collect", "collect_set")
TYPES = [
    ("sum", pa.int32(), pa.int64()),
    ("sum", pa.int64(), pa.int64()),
    ("sum", pa.float32(), pa.float64()),
    ("sum", pa.decimal128(12, 2), pa.decimal128(22, 2)),
    ("sum", pa.decimal128(35, 2), pa.decimal128(38, 2)),
    ("avg", pa.int64(), pa.float64()),
    ("avg", pa.decimal128(12, 2), pa.decimal128(16, 6)),
    ("avg", pa.decimal128(38, 36), pa.decimal128(38, 38)),
    ("min", pa.string(), pa.string()),
    ("last", pa.list_(pa.int64()), pa.list_(pa.int64())),
    ("collect", pa.string(), pa.list_(pa.string())),
    ("collect_set", pa.date32(), pa.list_(pa.date32())),
    ("count", pa.string(), pa.int64()),
]


@pytest.mark.parametrize("kind, given, result", TYPES)
def test_results_are_of_the_types_of_spark(kind: str, given: pa.DataType, result: pa.DataType) -> None:
    assert result_type(spec(kind, given)) == result


def test_what_spark_computes_for_a_batch_is_said_in_sql() -> None:
    assert [*sql_of(spec("count")).values()] == ["count(1)"]
    assert [*sql_of(Aggregate("sum", "total", "odd `name", pa.int64())).values()] == ["sum(`odd ``name`)"]
    assert [*sql_of(spec("avg", pa.int64())).values()] == ["sum(cast(`x` as decimal(28,0)))", "count(`x`)"]
    place = "'time', `at`, 'topic', `_topic`, 'partition', `_partition`, 'offset', `_offset`"
    assert [*sql_of(spec("last", pa.int64())).values()] == [
        f"max(named_struct({place}, 'value', `x`)) filter (where `at` is not null)"
    ]
    assert [*sql_of(spec("first", pa.int64(), ignore_nulls=True)).values()] == [
        f"min(named_struct({place}, 'value', `x`)) filter (where `at` is not null and `x` is not null)"
    ]


def test_a_value_without_order_is_chosen_by_its_place_alone() -> None:
    place = "'time', `at`, 'topic', `_topic`, 'partition', `_partition`, 'offset', `_offset`"
    assert [*sql_of(spec("last", pa.map_(pa.string(), pa.int64()))).values()] == [
        f"max_by(named_struct({place}, 'value', `x`), named_struct({place})) filter (where `at` is not null)"
    ]


def test_columns_of_several_aggregates_do_not_meet() -> None:
    specs = tuple(Aggregate(kind, kind, "x", pa.int64(), "at", TIME) for kind in KINDS)
    names = state_schema(specs).names
    assert len(names) == len(set(names)) == len(KINDS) + 1
    assert result_schema(specs).names == list(KINDS)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"kind": "median"}, '"m" is of an unknown kind "median". Known: count, sum'),
        ({"kind": "sum", "column": None}, '"m" has no column to compute the sum of'),
        ({"kind": "last"}, '"m" is the last by time of a stream without a time'),
        (
            {"kind": "sum", "type": pa.string()},
            '"m" cannot be the sum of `x`, which is string. Use a column of numbers.',
        ),
        ({"kind": "max", "type": pa.list_(pa.int64())}, "Use an ordered type."),
    ],
)
def test_an_aggregate_that_cannot_be_is_refused_in_a_sentence(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        Aggregate(**{"name": "m", "column": "x", "type": pa.int64(), **wrong})
    assert said in str(refused.value)
