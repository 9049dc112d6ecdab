"""Rows reduced group by group are what plain Python makes of each group, in whatever parts they come."""

import datetime
import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import NumberOverflow
from headwater.flow.operators.aggregation.aggregates import Aggregate, given_schema
from headwater.flow.operators.aggregation.kinds.approx_distinct import Hll
from headwater.flow.operators.aggregation.kinds.exact_percentiles import Exact
from headwater.flow.operators.aggregation.kinds.hashed import CountMin
from headwater.flow.operators.aggregation.kinds.moments import MOMENTS
from headwater.flow.operators.aggregation.kinds.ordered import Limit
from headwater.flow.operators.aggregation.kinds.pairs import PAIRS
from headwater.flow.operators.aggregation.kinds.percentiles import Kll
from headwater.flow.operators.aggregation.kinds.plain import PLAIN
from headwater.flow.operators.aggregation.kinds.registry import KINDS
from headwater.flow.operators.aggregation.kinds.top_k import Frequent
from headwater.flow.operators.aggregation.merging import absorbed
from headwater.flow.operators.aggregation.reduction import combine, reduce_rows
from headwater.flow.operators.ordering import has_order
from headwater.flow.operators.sketches import hll
from tests.flow.operators import every_kind, kinds_reference, reference
from tests.flow.operators.subjects import TIME

ZERO = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PAIR = pa.struct({"a": pa.int64(), "b": pa.string(), "c": pa.float64()})
DIGITS = decimal.Context(prec=80)


class Row(reference.Row):
    """Rows of one time lie in several partitions of two topics, and some at one place."""

    @property
    def place(self) -> dict[str, Any]:
        topic, partition = "tä"[self.offset % 3 == 0], self.offset % 2
        return {"time": self.time, "topic": topic, "partition": partition, "offset": self.offset}


def whole(bits: int) -> st.SearchStrategy[int]:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.integers(-3, 3) | st.integers(least, most) | st.sampled_from([least, most])


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    numbers = st.integers(-3, 3) | st.integers(-most, most) | st.sampled_from([-most, most])
    return numbers.map(lambda number: DIGITS.scaleb(Decimal(number), -scale))


odd = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324])
texts = st.text(st.sampled_from("aäb\x00\U0001f600"), max_size=3) | st.text(max_size=20)
pairs = st.fixed_dictionaries(
    {"a": st.none() | st.integers(0, 1), "b": st.none() | st.sampled_from(["", "x"]), "c": st.none() | odd}
).map(lambda pair: {name: pair[name] for name in PAIR.names})
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), whole(8)),
    "int": (pa.int32(), whole(32)),
    "long": (pa.int64(), whole(64)),
    "float": (pa.float32(), odd.map(lambda one: float(np.float32(one))) | st.floats(width=32)),
    "double": (pa.float64(), odd | st.floats()),
    "money": (pa.decimal128(5, 2), decimals(5, 2)),
    "whole": (pa.decimal128(18, 0), decimals(18, 0)),
    "wide": (pa.decimal128(38, 10), decimals(38, 10)),
    "text": (pa.string(), texts),
    "bytes": (pa.binary(), st.binary(max_size=3) | st.binary(max_size=20)),
    "flag": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates()),
    "when": (TIME, st.integers(-9, 9).map(lambda hours: ZERO + datetime.timedelta(hours=hours))),
    "pair": (PAIR, pairs),
    "list": (pa.list_(pa.string()), st.lists(st.none() | st.just("x"), max_size=2)),
    "map": (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(st.just("k"), st.integers(0, 3)), max_size=1)),
}


def spec(kind: str, type_: pa.DataType, name: str = "", **more: Any) -> Aggregate:
    timed = {"time": "at", "time_type": TIME} if KINDS[kind].timed else {}
    other = "y" if kind in PAIRS else None
    return Aggregate(kind, name or kind, "x", type_, other=other, **timed, **more)


def specs_of(type_: pa.DataType) -> tuple[Aggregate, ...]:
    """Of every kind that takes values of a type and adds none of them up."""
    kinds = ["count", "first", "last", "collect"]
    if not pa.types.is_list(type_) and not pa.types.is_map(type_):
        kinds += ["min", "max", "collect_set", "count_distinct"]
    if pa.types.is_integer(type_):
        kinds += ["bit_and", "bit_or", "bit_xor"]
    found = [*(spec(kind, type_) for kind in kinds), spec("last", type_, "last there", ignore_nulls=True)]
    found += [Aggregate("count", "rows"), spec("collect", type_, "few", options=Limit(2))]
    if type_ in (pa.int64(), pa.string()):
        found += [spec("distinct", type_, f"about {lg_k}", options=Hll(lg_k)) for lg_k in (4, 12)]
        found.append(spec("top_k", type_, options=Frequent(2, 8, 100)))
        found.append(spec("count_min", type_, options=CountMin(16, 3)))
    return tuple(found)


def batch(specs: Sequence[Aggregate], rows: Sequence[Row], others: Sequence[Any] = ()) -> pa.RecordBatch:
    kind = next((one.type for one in specs if one.type is not None), pa.int64())
    places = [row.place for row in rows]
    columns = {
        "x": pa.array([row.x for row in rows], kind), "at": pa.array([row.time for row in rows], TIME),
        "_topic": pa.array([one["topic"] for one in places], pa.string()),
        "_partition": pa.array([one["partition"] for one in places], pa.int32()),
        "_offset": pa.array([one["offset"] for one in places], pa.int64()),
    }  # fmt: skip
    if others:
        columns["y"] = pa.array(others, pa.float64())
    return pa.RecordBatch.from_pydict(columns)


def expected(spec: Aggregate, rows: Sequence[Row], others: Sequence[Any] = ()) -> list[Any]:
    values = [row.x for row in rows if row.x is not None]
    match spec.kind:
        case "distinct":
            assert isinstance(spec.options, Hll)
            return [hll.of_spark(every_kind.hll_of(values, spec.options.lg_k)) if values else None]
        case "percentile" | "exact_percentile":
            return [sorted(values, key=reference.in_order)]
        case "top_k" | "count_min":
            return [values]
        case "bloom" | "count_distinct":
            return [reference.distinct(values)]
        case "user":
            return reference.partial(spec_like_collect, rows)
    if spec.kind in (*PLAIN, *MOMENTS, *PAIRS):
        beside = others or [None] * len(rows)
        return kinds_reference.partial(spec.kind, [(row.x, y) for row, y in zip(rows, beside, strict=True)])
    found = reference.partial(spec, rows)
    return [found[0][: spec.options.limit]] if isinstance(spec.options, Limit) else found


spec_like_collect = spec("collect", pa.struct({"c0": pa.int64()}))


def same(one: Any, other: Any) -> bool:
    """Floating-point numbers up to rounding, NaN as itself."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return bool(one == other)


def check(specs: tuple[Aggregate, ...], groups: list[list[list[Row]]], others: Any = None) -> None:
    """Groups have parts, which are reduced by themselves and combined; and they are reduced as a whole."""
    parts = [part for group in groups for part in group]
    rows = [row for part in parts for row in part]
    beside = [others(row) for row in rows] if others else []
    begins = {id(part[0]) for part in parts}
    outer = {id(group[0][0]) for group in groups}
    given_rows = batch(specs, rows, beside)
    whole = reduce_rows(specs, given_rows, np.array([id(row) in outer for row in rows], np.bool_))
    pieces = reduce_rows(specs, given_rows, np.array([id(row) in begins for row in rows], np.bool_))
    combined = combine(specs, pieces, np.array([id(part[0]) in outer for part in parts], np.bool_))
    for found in (whole, combined):
        assert found.schema == given_schema(specs)
        found.validate(full=True)
    for place, group in enumerate(groups):
        own = [row for part in group for row in part]
        for each in specs:
            wanted = expected(each, own, [others(row) for row in own] if others else [])
            names = given_schema((each,)).names
            for found in (whole, combined):
                values = [found.column(name)[place].as_py() for name in names]
                assert same(values, wanted), (each.name, own)
    absorbed(specs, combined)


def grouped_rows(values: st.SearchStrategy[Any], *, once: bool = False) -> st.SearchStrategy[list[list[list[Row]]]]:
    """Rows in parts of groups; `once` is each of them at a place of its own."""
    times = st.none() | st.integers(0, 2).map(lambda hours: ZERO + datetime.timedelta(hours=hours))
    row = st.tuples(st.none() | values, times, st.integers(0, 6))
    drawn = st.lists(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3), max_size=3)

    def placed(groups: list[list[list[Any]]]) -> list[list[list[Row]]]:
        places = iter(range(1000))
        return [
            [[Row(0, x, time, next(places) if once else offset) for x, time, offset in part] for part in group]
            for group in groups
        ]

    return drawn.map(placed)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_values_of_every_type_are_counted_compared_and_collected(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    check(specs_of(type_), data.draw(grouped_rows(values, once=not has_order(type_))))


@pytest.mark.parametrize("name", ["byte", "int", "long", "double", "float", "money", "whole", "wide"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_numbers_of_every_type_are_added(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    if pa.types.is_floating(type_):
        values = st.integers(-9, 9).map(lambda number: number / 2) | st.sampled_from([math.nan, math.inf, -math.inf])
    elif name in ("long", "wide"):
        values = st.integers(-(2**58), 2**58) if name == "long" else decimals(36, 10)
    with decimal.localcontext(DIGITS):
        check((spec("sum", type_), spec("avg", type_)), data.draw(grouped_rows(values)))


quarters = st.integers(-40, 40).map(lambda number: number / 4)


@settings(max_examples=60, deadline=None)
@given(grouped_rows(quarters))
def test_statistics_are_those_of_the_definitions(groups: list[list[list[Row]]]) -> None:
    specs = [spec(kind, pa.float64()) for kind in (*MOMENTS, *PAIRS, "product")]
    specs.append(spec("percentile", pa.float64(), options=Kll((0.5,))))
    specs.append(spec("exact_percentile", pa.float64(), options=Exact((0.5,))))
    check(tuple(specs), groups, others=lambda row: None if row.offset == 4 else row.offset * 7 % 11 / 3)


@settings(max_examples=30, deadline=None)
@given(grouped_rows(st.integers(0, 9)))
def test_hashes_of_a_filter_and_rows_of_users_are_listed(groups: list[list[list[Row]]]) -> None:
    seen, width = (next(one for one in every_kind.SPECS if one.kind == kind) for kind in ("bloom", "user"))
    names = ("first", "second")
    hashed = [
        [[row._replace(x=None if row.x is None else dict(zip(names, (row.x, -row.x), strict=True))) for row in part]
         for part in group] for group in groups
    ]  # fmt: skip
    check((seen,), hashed)
    check((width,), [[[row._replace(x={"c0": row.x}) for row in part] for part in group] for group in groups])


def test_every_kind_is_reduced_here() -> None:
    tested = {one.kind for type_, _ in TYPES.values() for one in specs_of(type_)}
    assert tested | {"sum", "avg", "percentile", "exact_percentile", "bloom", "user", *PLAIN, *MOMENTS, *PAIRS} == set(
        KINDS
    )


@pytest.mark.parametrize("count", [7, 8, 24, 25, 384, 385, 20_000])
@pytest.mark.parametrize("lg_k", [4, 7, 8, 12])
def test_sketches_of_any_size_are_those_of_datasketches(count: int, lg_k: int) -> None:
    values = list(range(count))
    specs = (spec("distinct", pa.int64(), options=Hll(lg_k)),)
    rows = pa.RecordBatch.from_pydict({"x": pa.array([*values, 5, 5], pa.int64())})
    firsts = np.isin(np.arange(count + 2), [0, count])
    (many, one) = reduce_rows(specs, rows, firsts).column(0).to_pylist()
    assert many == hll.of_spark(every_kind.hll_of(values, lg_k))
    assert one == hll.of_spark(every_kind.hll_of([5], lg_k))
    halves = reduce_rows(specs, rows.slice(0, count), np.isin(np.arange(count), [0, count // 3]))
    assert combine(specs, halves, np.array([True, False])).column(0).to_pylist() == [many]


@pytest.mark.parametrize(
    "type_, values",
    [
        (pa.int64(), [2**63 - 1, 1]),
        (pa.int64(), [-(2**63), -1]),
        (pa.int64(), [2**62, 2**62]),
        (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1)]),
        (pa.decimal128(38, 0), [Decimal(1 - 10**38)] * 5),
    ],
)
def test_a_sum_that_outgrows_its_type_is_an_error(type_: pa.DataType, values: list[Any]) -> None:
    specs = (spec("sum", type_, "total"),)
    rows = pa.RecordBatch.from_pydict({"x": pa.array(values, type_)})
    firsts = np.arange(len(values)) == 0
    with pytest.raises(NumberOverflow, match='"total" has outgrown its type'):
        reduce_rows(specs, rows, firsts)
    with pytest.raises(NumberOverflow):
        combine(specs, reduce_rows(specs, rows, firsts | True), firsts)


def test_a_sum_may_pass_beyond_its_type_on_the_way() -> None:
    values = [2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 1, None]
    rows = pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64())})
    found = reduce_rows((spec("sum", pa.int64()), spec("avg", pa.int64())), rows, np.arange(6) == 0)
    assert [column.to_pylist() for column in found.columns] == [[-1], [Decimal(-1)], [5]]


def test_no_rows_are_no_groups() -> None:
    specs = specs_of(pa.int64())
    empty = reduce_rows(specs, batch(specs, []), np.zeros(0, np.bool_))
    assert (empty.num_rows, empty.schema) == (0, given_schema(specs))
    assert combine(specs, empty, np.zeros(0, np.bool_)).num_rows == 0
