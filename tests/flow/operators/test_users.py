"""Aggregates of users: any split is the whole, states are typed, and what fails is emitted with its line."""

import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import FlowError, InvalidDeclaration, InvalidSchema
from headwater.flow.declare.aggregates import OwnAggregate
from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema
from headwater.flow.operators.aggregation.kinds.users import User
from headwater.flow.operators.aggregation.merging import absorbed, finish_all
from headwater.flow.operators.windows.folding import fold_groups, nothing
from tests.flow.operators.subjects import TIME

geometric = hw.aggregate(
    create=lambda: (0, 0.0),
    add=lambda kept, x: kept if x is None else (kept.n + 1, kept.logs + math.log(x)),
    merge=lambda one, other: (one.n + other.n, one.logs + other.logs),
    finish=lambda kept: math.exp(kept.logs / kept.n) if kept.n else None,
    state="n bigint, logs double",
    returns="double",
)


def spec_of(one: OwnAggregate) -> Aggregate:
    assert isinstance(one.options, User)
    row = pa.struct({"c0": pa.float64()})
    return Aggregate("user", "z", "x", row, "at", TIME, options=one.options)


def batch(spec: Aggregate, parts: list[list[float | None] | None]) -> pa.RecordBatch:
    place = {"time": 0, "topic": "t", "partition": 0, "offset": 0}
    lists = [None if part is None else [{**place, "value": {"c0": x}} for x in part] for part in parts]
    schema = given_schema((spec,))
    kind = schema.field(0).type
    plain = pa.list_(pa.struct([f if f.name != "time" else pa.field("time", pa.int64()) for f in kind.value_type]))
    return pa.RecordBatch.from_arrays([pa.array(lists, plain).cast(kind)], schema=schema)


@settings(max_examples=60)
@given(st.lists(st.lists(st.none() | st.floats(0.1, 100), max_size=4), min_size=1, max_size=5))
def test_any_split_merged_is_the_whole(parts: list[list[float | None]]) -> None:
    spec = spec_of(geometric("x"))
    specs = (spec,)
    folded = fold_groups(specs, absorbed(specs, batch(spec, [*parts])), np.arange(len(parts)) == 0)
    everything = [x for part in parts for x in part if x is not None]
    expected = math.exp(sum(map(math.log, everything)) / len(everything)) if everything else None
    (found,) = finish_all(specs, folded).column(0).to_pylist()
    assert found == (None if expected is None else pytest.approx(expected))


def test_of_nothing_the_result_is_that_of_a_new_state() -> None:
    specs = (spec_of(geometric("x")),)
    assert finish_all(specs, nothing(specs, 2)).column(0).to_pylist() == [None, None]
    assert absorbed(specs, batch(specs[0], [])).num_rows == 0


def test_code_is_sent_whole_and_compared_by_what_it_does() -> None:
    options = geometric("x").options
    assert isinstance(options, User)
    sent = pickle.loads(pickle.dumps(options))
    assert sent.call("finish", "z", sent.make()((2, 2 * math.log(3)))) == pytest.approx(3)
    assert repr(sent) == repr(options)
    other = hw.aggregate(
        create=lambda: (0, 0.0), add=lambda kept, x: kept, merge=lambda one, other: one, finish=lambda kept: 1.0,
        state="n bigint, logs double", returns="double",
    )  # fmt: skip
    assert other("x").meaning != geometric("x").meaning == geometric("x").alias("y").meaning


def broken(**functions: Any) -> Aggregate:
    whole: dict[str, Any] = {
        "create": lambda: (0,), "add": lambda kept, x: (kept.n + 1,), "merge": lambda one, other: one,
        "finish": lambda kept: kept.n, **functions,
    }  # fmt: skip
    return spec_of(hw.aggregate(**whole, state="n bigint", returns="bigint")("x"))


@pytest.mark.parametrize(
    "functions, said",
    [
        (
            {"add": lambda kept, x: (1 / 0,)},
            r"add of column z, .* ZeroDivisionError: division by zero \(test_u",
        ),
        ({"add": lambda kept, x: 5}, r"add of column z, .* returned 5. A state is a tuple of n\."),
        ({"create": lambda: (1, 2)}, r"create of column z, .* returned \(1, 2\)"),
        ({"add": lambda kept, x: ("text",)}, r"add of column z, .* failed: ArrowInvalid"),
        ({"merge": lambda one, other: other.gone}, r"merge of column z, .* 'State' object has no attribute 'gone'"),
        ({"finish": lambda kept: "text"}, r"finish of column z, .* failed: ArrowInvalid"),
    ],
)
def test_what_fails_is_told_in_a_sentence_with_its_line(functions: dict[str, Any], said: str) -> None:
    spec = broken(**functions)
    with pytest.raises(FlowError, match=said) as raised:
        finish_all(
            (spec,), fold_groups((spec,), absorbed((spec,), batch(spec, [[1.0], [2.0]])), np.array([True, False]))
        )
    assert "declared at test_users.py:" in str(raised.value)


def test_what_cannot_be_an_aggregate_is_refused_where_it_is_written() -> None:
    functions: dict[str, Any] = {"create": tuple, "add": tuple, "merge": tuple, "finish": tuple}
    with pytest.raises(InvalidDeclaration, match=r"add of the aggregate at test_users.py:\d+ is no function"):
        hw.aggregate(**{**functions, "add": 5}, state="n bigint", returns="bigint")
    with pytest.raises(InvalidSchema):
        hw.aggregate(**functions, state="n number", returns="bigint")
    with pytest.raises(InvalidDeclaration, match="is of no column"):
        hw.aggregate(**functions, state="n bigint", returns="bigint")()
