from decimal import Decimal
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.errors import NumberOverflow
from headwater.flow.operators.aggregation.aggregates import Aggregate, partials, state_schema
from headwater.flow.operators.aggregation.extremes import chosen
from headwater.flow.operators.aggregation.merging import changed, finish, merge, merge_all
from tests.flow.operators.subjects import spec


def batch(aggregate: Aggregate, *columns: list[Any]) -> pa.RecordBatch:
    kinds = [part.type for part in partials(aggregate)]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=state_schema((aggregate,)))


def merged(aggregate: Aggregate, incoming: pa.RecordBatch, old: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(merge(aggregate, incoming, old), schema=state_schema((aggregate,)))


@pytest.mark.parametrize(
    "kind, old, new, expected",
    [
        ("count", [None, 2, 0], [1, 3, 0], [1, 5, 0]),
        ("sum", [None, None, 1, 2], [None, 5, None, 3], [None, 5, 1, 5]),
        ("min", [None, None, 1, 2, 3], [None, 5, None, 3, 2], [None, 5, 1, 2, 2]),
        ("max", [None, None, 1, 2, 3], [None, 5, None, 3, 2], [None, 5, 1, 3, 3]),
    ],
)
def test_nulls_are_passed_over(kind: str, old: list[Any], new: list[Any], expected: list[Any]) -> None:
    aggregate = spec(kind, pa.int64())
    state = merged(aggregate, batch(aggregate, new), batch(aggregate, old))
    assert finish(aggregate, state).to_pylist() == expected


@pytest.mark.parametrize(
    "kind, one, other",
    [
        (pa.int64(), 2**63 - 1, 1),
        (pa.int64(), -(2**63), -1),
        (pa.decimal128(38, 0), Decimal(10**38 - 1), Decimal(1)),
        (pa.decimal128(30, 2), Decimal("9" * 36 + ".99"), Decimal("9" * 36)),
    ],
)
def test_a_sum_that_outgrows_its_type_is_an_error_and_not_a_wrong_number(
    kind: pa.DataType, one: Any, other: Any
) -> None:
    aggregate = spec("sum", kind)
    with pytest.raises(NumberOverflow, match=r'"sum of x" has outgrown its type .*\. Cast the column to a wider type'):
        merged(aggregate, batch(aggregate, [one]), batch(aggregate, [other]))


def test_a_sum_may_reach_the_largest_number() -> None:
    aggregate = spec("sum", pa.decimal128(38, 0))
    state = merged(aggregate, batch(aggregate, [Decimal(10**38 - 2)]), batch(aggregate, [Decimal(1)]))
    assert finish(aggregate, state).to_pylist() == [Decimal(10**38 - 1)]


def test_the_average_of_large_integers_is_exact_though_their_sum_is_not_one() -> None:
    aggregate = spec("avg", pa.int64())
    largest = Decimal(2**63 - 1)
    state = merged(aggregate, batch(aggregate, [largest], [1]), batch(aggregate, [largest], [1]))
    assert finish(aggregate, state).to_pylist() == [float(2**63 - 1)]


@pytest.mark.parametrize("total, count, average", [("1.00", 3, "0.333333"), ("2.00", 3, "0.666667"),
                                                   ("-2.00", 3, "-0.666667"), ("0.01", 20_000, "0.000001"),
                                                   ("-0.01", 20_000, "-0.000001"), ("0.01", 20_001, "0.000000"),
                                                   (None, 0, None)])  # fmt: skip
def test_an_average_of_decimals_is_rounded_half_up(total: str | None, count: int, average: str | None) -> None:
    aggregate = spec("avg", pa.decimal128(12, 2))
    state = batch(aggregate, [total and Decimal(total)], [count])
    assert finish(aggregate, state).to_pylist() == [average and Decimal(average)]


def test_an_average_of_nothing_is_null() -> None:
    aggregate = spec("avg", pa.float64())
    assert finish(aggregate, batch(aggregate, [None, 3.0], [0, 2])).to_pylist() == [None, 1.5]


def test_nan_is_the_largest_number() -> None:
    highest, lowest = spec("max", pa.float64()), spec("min", pa.float64())
    nan = float("nan")
    assert str(finish(highest, merged(highest, batch(highest, [nan]), batch(highest, [1.0]))).to_pylist()) == "[nan]"
    assert finish(lowest, merged(lowest, batch(lowest, [nan]), batch(lowest, [1.0]))).to_pylist() == [1.0]


def place(time: int, topic: str, partition: int, offset: int, value: object = None) -> dict[str, object]:
    return {"time": time, "topic": topic, "partition": partition, "offset": offset, "value": value}


@pytest.mark.parametrize(
    "one, other", [((1, "b", 9, 9), (2, "a", 0, 0)), ((1, "a", 9, 9), (1, "b", 0, 0)), ((1, "a", 0, 9), (1, "a", 1, 0)),
                   ((1, "a", 0, 1), (1, "a", 0, 2))],
    ids=["time", "topic", "partition", "offset"],
)  # fmt: skip
def test_ties_in_time_are_broken_by_position(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for kind, expected in (("first", "one"), ("last", "other")):
        aggregate = spec(kind, pa.string())
        rows = (
            batch(aggregate, [{**place(*one), "value": "one"}]),
            batch(aggregate, [{**place(*other), "value": "other"}]),
        )
        assert finish(aggregate, merged(aggregate, *rows)).to_pylist() == [expected]
        assert finish(aggregate, merged(aggregate, *rows[::-1])).to_pylist() == [expected]


AT_ONE_PLACE = [{"time": 5, "topic": "t", "partition": 0, "offset": 3, "value": value} for value in (7, None, 2)]
"""As behind a join, or where one row was made into several."""


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize(
    "kind, expected", [("first", None), ("last", 7), ("collect", [2, 7])]
)  # nulls are not collected, and are the least
def test_of_rows_at_one_place_it_is_the_value_that_decides_in_whatever_batches_they_came(
    kind: str, expected: Any, order: tuple[int, ...]
) -> None:
    aggregate = spec(kind, pa.int64())
    rows = [AT_ONE_PLACE[place] for place in order]
    lists = [[row] if row["value"] is not None else [] for row in rows]
    states = [batch(aggregate, [one]) for one in (lists if kind == "collect" else rows)]
    state = merged(aggregate, states[2], merged(aggregate, states[1], states[0]))
    assert finish(aggregate, state).to_pylist() == [expected]


def test_values_without_an_order_are_collected_in_that_of_their_places() -> None:
    aggregate = spec("collect", pa.list_(pa.int64()))
    old, new = ({"time": 5, "topic": "t", "partition": 0, "offset": place, "value": [place]} for place in (4, 2))
    state = merged(aggregate, batch(aggregate, [[new]]), batch(aggregate, [[old]]))
    assert finish(aggregate, state).to_pylist() == [[[2], [4]]]


def test_the_last_value_may_be_null() -> None:
    aggregate = spec("last", pa.string())
    rows = batch(aggregate, [place(2, "t", 0, 2, None)]), batch(aggregate, [place(1, "t", 0, 1, "old")])
    assert finish(aggregate, merged(aggregate, *rows)).to_pylist() == [None]


def test_what_was_collected_late_stands_where_its_time_puts_it() -> None:
    aggregate = spec("collect", pa.string())
    old = batch(aggregate, [[place(1, "t", 0, 1, "a"), place(5, "t", 0, 2, "c")], None, []])
    new = batch(aggregate, [[place(3, "t", 0, 9, "b")], [place(1, "t", 0, 3, "x")], []])
    assert finish(aggregate, merged(aggregate, new, old)).to_pylist() == [["a", "b", "c"], ["x"], []]


def test_a_set_is_sorted_and_has_each_value_once() -> None:
    aggregate = spec("collect_set", pa.string())
    state = merged(aggregate, batch(aggregate, [["a", "c"], [], ["z"]]), batch(aggregate, [["b", "c"], None, None]))
    assert finish(aggregate, state).to_pylist() == [["a", "b", "c"], [], ["z"]]


def test_all_aggregates_of_an_operator_are_merged_side_by_side() -> None:
    specs = (spec("count"), spec("max", pa.string()))
    schema = state_schema(specs)
    new = pa.RecordBatch.from_pydict({schema.names[0]: [2], schema.names[1]: ["b"]}, schema=schema)
    old = pa.RecordBatch.from_pydict({schema.names[0]: [None], schema.names[1]: [None]}, schema=schema)
    assert merge_all(specs, new, old).to_pylist() == [dict(zip(schema.names, [2, "b"], strict=True))]


def test_values_of_any_type_are_chosen_row_by_row() -> None:
    kind = pa.list_(pa.struct({"a": pa.int64()}))
    one, other = pa.array([[{"a": 1}], None, []], kind), pa.array([None, [{"a": 2}], None], kind)
    assert chosen(np.array([True, False, False]), one, other).to_pylist() == [[{"a": 1}], [{"a": 2}], None]


def test_rows_that_are_the_same_are_not_changed() -> None:
    before = pa.RecordBatch.from_pydict({"a": [1, None, 3], "b": [[1.0], [float("nan")], []]})
    after = pa.RecordBatch.from_pydict({"a": [1, None, 4], "b": [[1.0, 2.0], [float("nan")], []]})
    assert changed(before, after).tolist() == [True, False, True]
